"""A copy of the journal as a response: made beside the journal, then sent while its file has no name any more."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tapgnn.errors import OverloadError
from tapgnn.online.engine.engine import Engine

COPY = "application/vnd.sqlite3"
PIECE = 1 << 20
RETRY_SECONDS = 30


class Backups:
    """Makes copies, one at a time."""

    def __init__(self) -> None:
        self._busy = threading.Lock()

    async def send(self, engine: Engine) -> Response:
        """A response with a copy of the journal, which needs as much room on the disk until it is sent."""
        if not self._busy.acquire(blocking=False):
            raise OverloadError(f"another copy is being made; retry in {RETRY_SECONDS} s", RETRY_SECONDS)
        try:
            copy = await anyio.to_thread.run_sync(_copy, engine)
        finally:
            self._busy.release()
        return CopyResponse(copy)


class CopyResponse(StreamingResponse):
    """The bytes of a file, which is closed at the end however that comes."""

    def __init__(self, copy: BinaryIO) -> None:
        size = os.fstat(copy.fileno()).st_size
        super().__init__(iter(partial(copy.read, PIECE), b""), media_type=COPY, headers={"Content-Length": f"{size}"})
        self._copy = copy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        with self._copy:
            await super().__call__(scope, receive, send)


def _copy(engine: Engine) -> BinaryIO:
    path = Path(engine.backup()["copy"])
    try:
        return path.open("rb")
    finally:
        path.unlink()
