"""The routes of /v1: what is asked, put to the engine, and answered as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import perf_counter
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from pydantic import TypeAdapter, ValidationError
from starlette.responses import Response

from tapgnn import __version__
from tapgnn.model import Config
from tapgnn.online.engine.engine import Receipt
from tapgnn.online.server import openapi as documents
from tapgnn.online.server import schemas
from tapgnn.online.server.event_parsing import JSON, EventParser
from tapgnn.online.server.http_errors import RefusalError, refusal_of_body
from tapgnn.online.server.ingest_queue import Job, Taken
from tapgnn.online.server.middleware import GuardedRoute, ReadRoute, WriteRoute
from tapgnn.online.server.service import Service

Producer = Annotated[
    str | None, Query(min_length=1, max_length=200, description="Who sends; with a sequence, a batch counts once.")
]
Sequence = Annotated[int | None, Query(ge=0, le=2**63 - 1, description="The number of the batch, of its producer.")]


class Routes:
    """The handlers, over one service that serves a model of this configuration."""

    def __init__(self, service: Service, config: Config) -> None:
        self.service, self.config = service, config
        settings = service.settings
        self.parser = EventParser(config.edge_features, settings.events, settings.limits.body)
        self.bodies: dict[str, TypeAdapter[Any]] = {"events": self.parser.adapter, **schemas.BODIES}

    def add_to(self, router: APIRouter) -> None:
        """Add all of them, each with the scope it needs and described."""
        event: dict[str, Any] = {"src": "a00001", "dst": "m0001", "time": self.config.origin + 2 * self.config.span}
        if self.config.edge_features:
            event["features"] = [0.0] * self.config.edge_features
        pair = {"src": "a00001", "dst": "m0001"}
        asking = documents.refusals(400, 408, 413, 415, 422, 429, 503)
        writing = {**asking, **documents.refusals(403, 409)}
        watching = documents.refusals(422, 429, 503)
        table: tuple[tuple[str, type[GuardedRoute], Any, Any, dict[int | str, Any], dict[str, Any] | None], ...] = (
            ("/events", WriteRoute, self.observe, schemas.Observed, writing, documents.events_body(event)),
            ("/score-then-observe", WriteRoute, self.score_then_observe, schemas.ScoredAndObserved, writing,
             documents.events_body(event)),
            ("/score", ReadRoute, self.score, schemas.Scored, asking, documents.body("ScoreBody", {"pairs": [pair]})),
            ("/embed", ReadRoute, self.embed, schemas.Embedded, asking,
             documents.body("EmbedBody", {"nodes": ["a00001"]})),
            ("/rank", ReadRoute, self.rank, schemas.Ranked, asking,
             documents.body("RankBody", {"src": "a00001", "k": 5})),
            ("/explain", ReadRoute, self.explain, schemas.Explained, asking,
             documents.body("ExplainBody", {**pair, "limit": 5})),
            ("/node", ReadRoute, self.node, schemas.Card, asking, documents.body("NodeBody", {"node": "a00001"})),
            ("/retract", WriteRoute, self.retract, schemas.Undone, writing,
             documents.body("RetractBody", {"position": 1, "index": 0})),
            ("/erase", WriteRoute, self.erase, schemas.Undone, writing,
             documents.body("EraseBody", {"node": "a00001"})),
            ("/model", ReadRoute, self.model, schemas.About, watching, None),
            ("/live", ReadRoute, self.live, schemas.Lives, watching, None),
            ("/map", ReadRoute, self.map, schemas.Mapped, watching, None),
        )  # fmt: skip
        for path, kind, handler, answer, refusals, extra in table:
            router.add_api_route(
                f"/v1{path}",
                handler,
                methods=["GET" if extra is None else "POST"],
                response_model=answer,
                responses=refusals,
                openapi_extra=extra,
                route_class_override=kind,
            )

    async def observe(self, request: Request, producer: Producer = None, sequence: Sequence = None) -> Response:
        """Take in events; they are durable and in the model when this is answered."""
        taken = await self._write(request, producer, sequence)
        return _json(_receipt(taken.receipt))

    async def score_then_observe(
        self, request: Request, producer: Producer = None, sequence: Sequence = None
    ) -> Response:
        """Score events by what came before them, and then take them in: the loop of fraud detection.

        A batch that was there already has no scores: the model knows its events.
        """
        taken = await self._write(request, producer, sequence, scored=True)
        known = taken.receipt.duplicate or taken.chances is None
        chances = [] if known or taken.chances is None else taken.chances.tolist()
        risks = None if known or taken.risks is None else taken.risks.tolist()
        return _json({"probabilities": chances, "risks": risks, "receipt": _receipt(taken.receipt)})

    async def _write(self, request: Request, producer: str | None, sequence: int | None, scored: bool = False) -> Taken:
        _check_query(request, ("producer", "sequence"))
        if (producer is None) != (sequence is None):
            raise RefusalError(422, "producer and sequence belong together; give both, or neither")
        rows = self.parser.parse(await request.body(), request.headers.get("content-type", ""))
        scored = scored or self.service.watches(rows.size)
        return await self.service.write(Job(rows.columns, rows.size, producer, sequence, scored=scored))

    async def retract(self, request: Request) -> Response:
        """Take one event back: the model is then as if it had never come, and the journal holds no trace of it.

        The journal is replayed without it, which takes its time. Questions are answered meanwhile, events wait.
        """
        asked = await self._asked(request, "retract")
        return _json(
            {"events": await self.service.undo(lambda engine: engine.retract(asked["position"], asked["index"]))}
        )

    async def erase(self, request: Request) -> Response:
        """Take every event of a node back, as `/v1/retract` does; a node without events is erased already."""
        asked = await self._asked(request, "erase")
        return _json({"events": await self.service.undo(lambda engine: engine.erase(asked["node"]))})

    async def score(self, request: Request) -> Response:
        """How likely links are, now or at a later time."""
        asked = await self._asked(request, "score")
        pairs = asked["pairs"]

        def answer() -> dict[str, Any]:
            with self.service.intake.engine.live() as live:
                times = [live.now if pair.get("time") is None else pair["time"] for pair in pairs]
                src, dst = ([pair[end] for pair in pairs] for end in ("src", "dst"))
                chances = self.service.intake.engine.score(src, dst, np.array(times))
                return {"probabilities": chances.tolist(), "time": live.now}

        return await self._timed(answer)

    async def embed(self, request: Request) -> Response:
        """Representations of nodes, now or at a later time; of a node never seen, that of a new one."""
        asked = await self._asked(request, "embed")

        def answer() -> dict[str, Any]:
            engine = self.service.intake.engine
            with engine.live() as live:
                time = live.now if asked.get("time") is None else asked["time"]
                vectors = engine.embed(asked["nodes"], time)
                known = (live.model.vocabulary.rows(asked["nodes"]) >= 0).tolist()
            return {"embeddings": vectors.tolist(), "known": known, "time": time}

        return await self._timed(answer)

    async def rank(self, request: Request) -> Response:
        """The likeliest destinations of a source, best first."""
        asked = await self._asked(request, "rank")

        def answer() -> dict[str, Any]:
            engine = self.service.intake.engine
            with engine.live() as live:
                time = live.now if asked.get("time") is None else asked["time"]
                best = engine.rank(asked["src"], time, asked.get("k", 10), asked.get("among"))
            found = [{"dst": name, "probability": chance} for name, chance in best]
            return {"src": asked["src"], "time": time, "destinations": found}

        return await self._timed(answer)

    async def explain(self, request: Request) -> Response:
        """Which past events moved the score of a link most, with signed shares."""
        asked = await self._asked(request, "explain")
        src, dst, limit = asked["src"], asked["dst"], asked.get("limit", 10)

        def answer() -> dict[str, Any]:
            found, time = self.service.observatory.explain(src, dst, asked.get("time"), limit)
            return {
                "src": src,
                "dst": dst,
                "time": time,
                "probability": found.probability,
                "logit": found.logit,
                "base": found.base,
                "older": found.older,
                "causes": [vars(cause) for cause in found.causes],
                "remembered": found.remembered,
                "of": found.events,
            }

        return _json(await self.service.read(answer))

    async def node(self, request: Request) -> Response:
        """A node's card: its history, how its embedding moved, who is near it, whom it may meet next."""
        asked = await self._asked(request, "node")
        return _json(await self.service.read(lambda: self.service.observatory.card(asked["node"])))

    async def map(self, request: Request) -> Response:
        """Where the nodes active most recently stand on a plane through their representations."""
        _check_query(request, ())
        return _json(await self.service.read(lambda: self.service.observatory.map()))

    async def live(self, request: Request) -> Response:
        """What has just happened: pace, latency, the newest and the riskiest events."""
        _check_query(request, ())
        service, feed = self.service, self.service.feed
        return _json({
            "status": service.status(),
            "started": service.started,
            "total": feed.total,
            "scored": feed.scored,
            "classifier": "risk" in service.intake.aspects,
            "queue": service.intake.queued_batches,
            "pace": feed.pace(),
            "latency": {kind: feed.latency(kind) for kind in ("observe", "score")},
            "newest": feed.newest(20),
            "riskiest": feed.riskiest(20),
        })  # fmt: skip

    async def model(self, request: Request) -> Response:
        """The model that is served, its limits, and where the engine stands."""
        _check_query(request, ())
        config, settings, status = self.config, self.service.settings, self.service.status()
        return _json({
            "version": __version__,
            "model": status["model"],
            "kernel": config.kernel,
            "layers": config.layers,
            "width": config.width,
            "features": config.edge_features,
            "unit": config.unit,
            "classifier": "risk" in self.service.intake.aspects,
            "limits": {"body": settings.limits.body, "events": settings.events, "queue": settings.queue},
            "status": status,
        })  # fmt: skip

    async def _timed(self, answer: Callable[[], dict[str, Any]]) -> Response:
        """Answer a question that the page counts."""
        start = perf_counter()
        found = await self.service.read(answer)
        self.service.feed.answered(perf_counter() - start)
        return _json(found)

    async def _asked(self, request: Request, kind: str) -> dict[str, Any]:
        """The body of a question."""
        _check_query(request, ())
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given != JSON:
            raise RefusalError(415, f"Content-Type is {given[:80]!r}; send {JSON}")
        try:
            asked: dict[str, Any] = self.bodies[kind].validate_json(await request.body())
        except ValidationError as error:
            raise refusal_of_body(error) from None
        return asked


def _receipt(receipt: Receipt) -> dict[str, Any]:
    return {
        "accepted": receipt.accepted,
        "duplicate": receipt.duplicate,
        "late": receipt.late,
        "held": receipt.held,
        "position": receipt.position,
    }


def _check_query(request: Request, known: tuple[str, ...]) -> None:
    """Refuse a parameter that nobody reads: a slip of the pen must not send a batch without its number."""
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        named = f"the parameters are {', '.join(known)}" if known else "this path has none"
        raise RefusalError(422, f"there is no query parameter {unknown[0][:80]!r}; {named}")


def _json(value: Any) -> Response:
    return Response(json.dumps(value, allow_nan=False, ensure_ascii=False), media_type=JSON)
