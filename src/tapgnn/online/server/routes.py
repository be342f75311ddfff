"""The routes of /v1: bodies in, calls to the engine, JSON out."""

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
from tapgnn.online.answers import BatchReceipt, Explanation, ScoredBatch
from tapgnn.online.engine.engine import Engine
from tapgnn.online.engine.ingest import Outcome, Receipt
from tapgnn.online.engine.queries import LiveView
from tapgnn.online.server import openapi, schemas
from tapgnn.online.server.event_parsing import JSON, EventParser
from tapgnn.online.server.http_errors import HTTPProblemError, problem_in_body
from tapgnn.online.server.middleware import ReadRoute, ScopedRoute, WriteRoute
from tapgnn.online.server.service import Service

Producer = Annotated[
    str | None, Query(min_length=1, max_length=200, description="The sender; with a sequence, a batch counts once.")
]
Sequence = Annotated[int | None, Query(ge=0, le=2**63 - 1, description="The number that the producer gave the batch.")]


class Routes:
    """The handlers, over one service that serves a model of this configuration."""

    def __init__(self, service: Service, config: Config) -> None:
        self.service, self.config = service, config
        settings = service.settings
        self.parser = EventParser(config.edge_features, settings.events, settings.limits.body)
        self.bodies: dict[str, TypeAdapter[Any]] = {"events": self.parser.adapter, **schemas.BODIES}

    def add_to(self, router: APIRouter) -> None:
        """Add all routes, each with its scope and its description."""
        event: dict[str, Any] = {"src": "a00001", "dst": "m0001", "time": self.config.origin + 2 * self.config.span}
        if self.config.edge_features:
            event["features"] = [0.0] * self.config.edge_features
        pair = {"src": "a00001", "dst": "m0001"}
        reading = openapi.problems(400, 408, 413, 415, 422, 429, 503)
        writing = {**reading, **openapi.problems(403, 409)}
        viewing = openapi.problems(422, 429, 503)
        table: tuple[tuple[str, type[ScopedRoute], Any, Any, dict[int | str, Any], dict[str, Any] | None], ...] = (
            ("/events", WriteRoute, self.observe, BatchReceipt, writing, openapi.events_body(event)),
            ("/score-then-observe", WriteRoute, self.score_then_observe, ScoredBatch, writing,
             openapi.events_body(event)),
            ("/score", ReadRoute, self.score, schemas.ScoreResponse, reading,
             openapi.body("ScoreBody", {"pairs": [pair]})),
            ("/embed", ReadRoute, self.embed, schemas.EmbedResponse, reading,
             openapi.body("EmbedBody", {"nodes": ["a00001"]})),
            ("/rank", ReadRoute, self.rank, schemas.RankResponse, reading,
             openapi.body("RankBody", {"src": "a00001", "k": 5})),
            ("/explain", ReadRoute, self.explain, Explanation, reading,
             openapi.body("ExplainBody", {**pair, "limit": 5})),
            ("/node", ReadRoute, self.node, schemas.NodeResponse, reading,
             openapi.body("NodeBody", {"node": "a00001"})),
            ("/retract", WriteRoute, self.retract, schemas.UndoResponse, writing,
             openapi.body("RetractBody", {"position": 1, "index": 0})),
            ("/erase", WriteRoute, self.erase, schemas.UndoResponse, writing,
             openapi.body("EraseBody", {"node": "a00001"})),
            ("/model", ReadRoute, self.model, schemas.ModelResponse, viewing, None),
            ("/live", ReadRoute, self.live, schemas.LiveResponse, viewing, None),
            ("/map", ReadRoute, self.map, schemas.MapResponse, viewing, None),
        )  # fmt: skip
        for path, kind, handler, answer, problems, extra in table:
            router.add_api_route(
                f"/v1{path}",
                handler,
                methods=["GET" if extra is None else "POST"],
                response_model=answer,
                responses=problems,
                openapi_extra=extra,
                route_class_override=kind,
            )

    async def observe(self, request: Request, producer: Producer = None, sequence: Sequence = None) -> Response:
        """Take in events; they are durable and in the model when this is answered."""
        outcome = await self._observe(request, producer, sequence)
        return _json(_receipt(outcome.receipt))

    async def score_then_observe(
        self, request: Request, producer: Producer = None, sequence: Sequence = None
    ) -> Response:
        """Score events from what came before them, then take them in: the loop of fraud detection.

        A duplicate has no scores, because the model knows its events.
        """
        outcome = await self._observe(request, producer, sequence, score=True)
        scored = None if outcome.receipt.duplicate else outcome.probabilities
        risks = None if scored is None or outcome.risks is None else outcome.risks.tolist()
        probabilities = [] if scored is None else scored.tolist()
        return _json({"probabilities": probabilities, "risks": risks, "receipt": _receipt(outcome.receipt)})

    async def _observe(
        self, request: Request, producer: str | None, sequence: int | None, score: bool = False
    ) -> Outcome:
        _check_query(request, ("producer", "sequence"))
        if (producer is None) != (sequence is None):
            raise HTTPProblemError(422, "producer and sequence belong together; give both, or neither")
        columns = self.parser.parse(await request.body(), request.headers.get("content-type", ""))
        return await self.service.observe(columns, producer, sequence, score)

    async def retract(self, request: Request) -> Response:
        """Undo one event: the model is then as if it had never come, and the journal holds no trace of it.

        The journal is replayed without it, which takes a while. Queries are answered meanwhile, events wait.
        """
        body = await self._body(request, "retract")
        return _json({"events": await self.service.undo(lambda engine: engine.retract(**body))})

    async def erase(self, request: Request) -> Response:
        """Undo every event of a node, as `/v1/retract` does; a node without events is no error."""
        body = await self._body(request, "erase")
        return _json({"events": await self.service.undo(lambda engine: engine.erase(**body))})

    async def score(self, request: Request) -> Response:
        """The probability of links, now or at a later time."""
        pairs = (await self._body(request, "score"))["pairs"]

        def answer(engine: Engine, live: LiveView) -> dict[str, Any]:
            src, dst = ([pair[end] for pair in pairs] for end in ("src", "dst"))
            times = np.array([_time(pair, live) for pair in pairs])
            return {"probabilities": engine.score(src, dst, times).tolist(), "time": live.now}

        return await self._query(answer)

    async def embed(self, request: Request) -> Response:
        """Embeddings of nodes, now or at a later time; a node never seen gets that of a new node."""
        body = await self._body(request, "embed")

        def answer(engine: Engine, live: LiveView) -> dict[str, Any]:
            nodes, time = body["nodes"], _time(body, live)
            known = (live.model.vocabulary.rows(nodes) >= 0).tolist()
            return {"embeddings": engine.embed(nodes, time).tolist(), "known": known, "time": time}

        return await self._query(answer)

    async def rank(self, request: Request) -> Response:
        """The likeliest destinations of a source, best first."""
        body = await self._body(request, "rank")

        def answer(engine: Engine, live: LiveView) -> dict[str, Any]:
            time = _time(body, live)
            best = engine.rank(body["src"], time, body.get("k", 10), body.get("candidates"))
            found = [{"dst": name, "probability": probability} for name, probability in best]
            return {"src": body["src"], "time": time, "destinations": found}

        return await self._query(answer)

    async def explain(self, request: Request) -> Response:
        """The past events that moved the score of a link most, with signed shares."""
        body = await self._body(request, "explain")
        src, dst, limit = body["src"], body["dst"], body.get("limit", 10)
        found = await self.service.read(lambda: self.service.insights.explain(src, dst, body.get("time"), limit))
        return _json({**vars(found), "causes": [vars(cause) for cause in found.causes]})

    async def node(self, request: Request) -> Response:
        """A node's card: its history, how its embedding moved, similar nodes, suggested links."""
        body = await self._body(request, "node")
        return _json(await self.service.read(lambda: self.service.insights.card(body["node"])))

    async def map(self, request: Request) -> Response:
        """Where the recently active nodes are on the principal plane of their embeddings."""
        _check_query(request, ())
        return _json(await self.service.read(lambda: self.service.insights.map()))

    async def live(self, request: Request) -> Response:
        """Recent activity: throughput, latency, the newest and the riskiest events."""
        _check_query(request, ())
        service, activity = self.service, self.service.activity
        return _json({
            "status": service.status(),
            "started": service.started,
            "total": activity.total,
            "scored": activity.scored,
            "classifier": service.queue.engine.has_classifier,
            "queue": service.queue.queued_batches,
            "pace": activity.pace(),
            "latency": {kind: activity.latency(kind) for kind in ("observe", "score")},
            "newest": activity.newest(20),
            "riskiest": activity.riskiest(20),
        })  # fmt: skip

    async def model(self, request: Request) -> Response:
        """The model that is served, the limits of requests, and the status of the engine."""
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
            "classifier": self.service.queue.engine.has_classifier,
            "limits": {"body": settings.limits.body, "events": settings.events, "queue": settings.queue},
            "status": status,
        })  # fmt: skip

    async def _query(self, answer: Callable[[Engine, LiveView], dict[str, Any]]) -> Response:
        """Answer a query to the engine, whose latency the page shows."""

        def run() -> dict[str, Any]:
            engine = self.service.queue.engine
            with engine.live() as live:
                return answer(engine, live)

        start = perf_counter()
        found = await self.service.read(run)
        self.service.activity.add_query(perf_counter() - start)
        return _json(found)

    async def _body(self, request: Request, kind: str) -> dict[str, Any]:
        """The validated JSON body of a request."""
        _check_query(request, ())
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given != JSON:
            raise HTTPProblemError(415, f"Content-Type is {given[:80]!r}; send {JSON}")
        try:
            body: dict[str, Any] = self.bodies[kind].validate_json(await request.body())
        except ValidationError as error:
            raise problem_in_body(error) from None
        return body


def _receipt(receipt: Receipt) -> dict[str, Any]:
    return {name: value for name, value in vars(receipt).items() if name != "clock"}


def _time(query: dict[str, Any], live: LiveView) -> float:
    """The time of a query, or now."""
    return live.now if query.get("time") is None else float(query["time"])


def _check_query(request: Request, known: tuple[str, ...]) -> None:
    """Refuse an unknown parameter: a typo must not send a batch without its number."""
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        named = f"the parameters are {', '.join(known)}" if known else "this path has none"
        raise HTTPProblemError(422, f"there is no query parameter {unknown[0][:80]!r}; {named}")


def _json(value: Any) -> Response:
    return Response(json.dumps(value, allow_nan=False, ensure_ascii=False), media_type=JSON)
