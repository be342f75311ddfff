"""Files whose bytes can be trusted: written whole or not at all, and known by their SHA-256.

A file is written beside its place, synced to the disk and moved there in one step, so that a reader finds the old
content or the new one, never a part of either, whenever the writer dies.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: str | Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A stream whose bytes become the file when the block ends; an error leaves what was there before."""
    target = Path(path)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        # As with any new file, the umask decides who else may read it.
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, target)
    except OSError as error:
        # A write that fails names no file.
        if error.errno is not None and error.filename in (None, str(part)):
            raise OSError(error.errno, error.strerror, str(target)) from None
        raise
    finally:
        part.unlink(missing_ok=True)


def write_atomically(path: str | Path, content: str | bytes, mode: int = 0o666) -> None:
    """Make this the whole content of a file, in a folder that is made if need be; text as UTF-8."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, mode) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


def file_sha256(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def bytes_sha256(content: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
