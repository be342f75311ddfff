"""The rehearsal: requests of every kind, before the server is ready, so that no client waits for what the first needs.

A loop is compiled for the types that it meets, or read from the cache of compiled loops; libraries are loaded when they
are first used. What a request can reach is found by making requests: of a few events, which take compiled programs, and
of many, on held events and on a state that holds them. They go to a twin of the service: an engine with the same
weights, an empty state, and a journal that is gone afterwards.
"""

from __future__ import annotations

import io
import json
import logging
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from tapgnn.errors import QueryError, TapgnnError
from tapgnn.model import Config
from tapgnn.model.inference import FEW
from tapgnn.online.engine.engine import Engine
from tapgnn.online.engine.ingest import Receipt
from tapgnn.online.engine.starting_point import StartingPoint
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.server import schemas
from tapgnn.online.server.event_parsing import ARROW, JSON, NDJSON
from tapgnn.online.server.event_schema import example_event
from tapgnn.online.server.routes import Routes
from tapgnn.online.server.service import ServerSettings, Service

SIZES = (1, FEW + 1)
SOURCE, STRANGER = "a00001", "a00002"


_log = logging.getLogger("tapgnn.online.server")
# What was compiled and loaded for a model, by its hash, stays for the life of the process.
_rehearsed: set[str] = set()


def rehearse(engine: Engine, config: Config) -> None:
    """Make requests of every kind to a twin of the service of an engine, once for a model in a process.

    A server without a folder for temporary files starts all the same; its first requests take longer.
    """
    with engine.live() as live:
        start = live.live_state.start.emptied()
    if start.digest in _rehearsed:
        return
    try:
        with tempfile.TemporaryDirectory(prefix="tapgnn-rehearsal-") as folder:
            _rehearse(start, Path(folder) / "state.db", config)
        _rehearsed.add(start.digest)
    except (OSError, TapgnnError) as error:
        _log.warning("the first requests will be slow", extra={"fields": {"reason": f"not rehearsed: {error}"}})


def _rehearse(start: StartingPoint, journal: Path, config: Config) -> None:
    twin = Service(lambda: Engine.open(start, journal, horizon=np.inf), ServerSettings(window=100))
    twin.queue.start().result()
    try:
        _Rehearsal(Routes(twin, config), config).run()
    finally:
        twin.queue.close()


class _Rehearsal:
    """The requests; what they are about comes later and later."""

    def __init__(self, routes: Routes, config: Config) -> None:
        self.routes, self.service = routes, routes.service
        self.time, self.step = config.origin + 2 * config.span, max(config.span, 1.0)

    def run(self) -> None:
        """Take events in and ask about them, about as many links at a time; then undo some."""
        for size in SIZES:
            for form in (JSON, NDJSON, ARROW):
                for told in (False, True):
                    receipt = self._take_in(form, size, told)
            self._ask(size)
        # On a state that holds all events, instead of a trace of those that are held back.
        self.service.queue.engine.flush()
        for size in SIZES:
            self._ask(size)
        self._call(self.routes.retract, schemas.RetractBody, position=receipt.position, index=0)
        self._call(self.routes.erase, schemas.EraseBody, node=SOURCE)

    def _take_in(self, form: str, size: int, told: bool) -> Receipt:
        """Observe events, or score them and then observe them, so that the sender is told."""
        request = self.service.request(self._batch(form, size), told=told)
        return self.service.queue.submit(request).result().receipt

    def _batch(self, form: str, size: int) -> EventBatch:
        """The next events, as they come in a body: links of one source with as many destinations."""
        fields, rows = self.routes.parser.rows.fields, []
        for number in range(size):
            self.time += self.step
            rows.append(example_event(fields, self.time, SOURCE, f"m{number:04}"))
        return self.routes.parser.parse(_body(form, rows), form)

    def _ask(self, size: int) -> None:
        """Every query; about a source with a long history, and one without."""
        routes, engine = self.routes, self.service.queue.engine
        ends = [f"m{number:04}" for number in range(size)]
        call, explain = self._call, schemas.ExplainBody
        call(routes.score, schemas.ScoreBody, pairs=[{"src": SOURCE, "dst": end} for end in ends])
        call(routes.embed, schemas.EmbedBody, nodes=ends)
        call(routes.node, schemas.NodeBody, node=SOURCE)
        for source in (SOURCE, STRANGER):
            call(routes.rank, schemas.RankBody, src=source)
            call(routes.rank, schemas.RankBody, src=source, candidates=ends)
            call(routes.explain, explain, src=source, dst=ends[0])
        if engine.has_classifier:
            engine.classify(self._batch(JSON, size))
            fields = routes.parser.rows.fields
            call(routes.explain, explain, event=example_event(fields, self.time, SOURCE, ends[0]))
        risky = next((event for event in self.service.activity.riskiest(1) if event["explained"]), None)
        if risky is not None:
            call(routes.explain, explain, position=risky["position"], index=risky["index"])
        routes.map()
        routes.live()
        routes.model()

    @staticmethod
    def _call(handler: Callable[[Any], Any], body: type[BaseModel], **fields: Any) -> None:
        # A kernel without sums refuses to explain.
        with suppress(QueryError):
            handler(body.model_validate(fields))


def _body(form: str, rows: list[dict[str, Any]]) -> bytes:
    """Rows as a body."""
    if form == JSON:
        return json.dumps({"events": rows}).encode()
    if form == NDJSON:
        return "\n".join(map(json.dumps, rows)).encode()
    import pyarrow as pa  # type: ignore[import-untyped]

    table, sink = pa.Table.from_pylist(rows), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()
