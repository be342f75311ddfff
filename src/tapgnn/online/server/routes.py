"""The routes of /v1: bodies in, calls to the engine, JSON out."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from functools import cached_property, partial
from inspect import getdoc
from time import perf_counter
from typing import Annotated, Any

import numpy as np
from fastapi import Query, Request
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from tapgnn import __version__
from tapgnn.data.schema import ROLES
from tapgnn.errors import QueryError
from tapgnn.model import Config
from tapgnn.online.answers import BatchReceipt, Explanation, RiskExplanation, ScoredBatch
from tapgnn.online.engine.ingest import Outcome, Receipt
from tapgnn.online.engine.queries import LiveView
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.server import openapi, schemas
from tapgnn.online.server.backup import COPY, Backups
from tapgnn.online.server.event_parsing import ARROW, JSON, EventParser
from tapgnn.online.server.http_errors import HTTPProblemError, problem_in_body
from tapgnn.online.server.json_size import check_values
from tapgnn.online.server.middleware import Access, ScopedRoute
from tapgnn.online.server.recent_activity import SHOWN
from tapgnn.online.server.service import Service

Producer = Annotated[
    str | None, Query(min_length=1, max_length=200, description="The sender; with a sequence, a batch counts once.")
]
Sequence = Annotated[int | None, Query(ge=0, le=2**63 - 1, description="The number that the producer gave the batch.")]
# Bytes that are parsed in about a millisecond.
QUICK = 65_536
# An object for each query, three fields in it, and what is around them.
MOST_VALUES = 6 * schemas.MOST_QUERIES
# How the work of a request is run: in a reader thread, as an undo, or at once.
Runner = Callable[[Callable[[], Any]], Awaitable[Any]]


class Routes:
    """The handlers, over one service that serves a model of this configuration.

    Those that a runner runs get the validated body, where there is one; what they return is sent as JSON.
    """

    def __init__(self, service: Service, config: Config) -> None:
        self.service, self.config = service, config
        self.backups = Backups()

    @cached_property
    def parser(self) -> EventParser:
        """The parser of events by the schema of the model; an error until the engine is open."""
        settings = self.service.settings
        return EventParser(self.service.queue.engine.rows, settings.events, settings.limits.body)

    def routes(self) -> Iterator[ScopedRoute]:
        """All routes, each with its scope and its description."""
        pair, events = {"src": "a00001", "dst": "m0001"}, schemas.EventsBody
        query, read, undo = self._query, self.service.read, self.service.undo
        table: tuple[tuple[str, Access, Runner | None, Callable[..., Any], type[BaseModel] | None, Any, Any], ...] = (
            ("/events", "write", None, self.observe, events, None, BatchReceipt),
            ("/score-then-observe", "write", None, self.score_then_observe, events, None, ScoredBatch),
            ("/classify", "read", None, self.classify, events, None, schemas.ClassifyResponse),
            ("/score", "read", query, self.score, schemas.ScoreBody, {"pairs": [pair]}, schemas.ScoreResponse),
            ("/embed", "read", query, self.embed, schemas.EmbedBody, {"nodes": ["a00001"]}, schemas.EmbedResponse),
            ("/rank", "read", query, self.rank, schemas.RankBody, {"src": "a00001", "k": 5}, schemas.RankResponse),
            ("/explain", "read", read, self.explain, schemas.ExplainBody, {**pair, "limit": 5},
             Explanation | RiskExplanation),
            ("/node", "read", read, self.node, schemas.NodeBody, {"node": "a00001"}, schemas.NodeResponse),
            ("/retract", "write", undo, self.retract, schemas.RetractBody, {"position": 1, "index": 0},
             schemas.UndoResponse),
            ("/erase", "write", undo, self.erase, schemas.EraseBody, {"node": "a00001"}, schemas.UndoResponse),
            ("/model", "read", _at_once, self.model, None, None, schemas.ModelResponse),
            ("/live", "read", _at_once, self.live, None, None, schemas.LiveResponse),
            ("/map", "read", read, self.map, None, None, schemas.MapResponse),
        )  # fmt: skip
        viewing = openapi.problems(422, 429, 503)
        reading = {**viewing, **openapi.problems(400, 408, 413, 415)}
        writing = {**reading, **openapi.problems(403, 409)}
        telling = {**writing, **openapi.problems(410)}
        yield ScopedRoute(
            "/v1/backup",
            self.backup,
            access="write",
            response_class=Response,
            responses={**openapi.problems(403, 429, 503), 200: {"content": {COPY: {}}}},
        )
        for path, access, run, handler, body, example, response in table:
            described = openapi.body if run is not None else openapi.events_body
            yield ScopedRoute(
                f"/v1{path}",
                handler if run is None else _endpoint(run, handler, body),
                access=access,
                body=body,
                name=handler.__name__,
                description=getdoc(handler),
                methods=["GET" if body is None else "POST"],
                response_model=response,
                responses=telling
                if response is ScoredBatch
                else viewing
                if body is None
                else writing
                if access == "write"
                else reading,
                openapi_extra=None if body is None else described(body, example),
            )

    async def observe(self, request: Request, producer: Producer = None, sequence: Sequence = None) -> Response:
        """Take in events; they are durable and in the model when this is answered."""
        outcome = await self._observe(request, producer, sequence)
        return _json(_receipt(outcome.receipt))

    async def score_then_observe(
        self, request: Request, producer: Producer = None, sequence: Sequence = None
    ) -> Response:
        """Score events from what came before them, then take them in: the loop of fraud detection.

        A batch that is sent again with the same producer and sequence is answered as it was the first time; with 410
        where that answer is no longer kept.
        """
        outcome = await self._observe(request, producer, sequence, score=True)
        scores = outcome.given("scores").tolist()
        risks = None if outcome.risks is None else outcome.risks.tolist()
        return _json(ScoredBatch(scores, risks, _receipt(outcome.receipt), scores))

    async def _observe(
        self, request: Request, producer: str | None, sequence: int | None, score: bool = False
    ) -> Outcome:
        _check_query(request, ("producer", "sequence"))
        if (producer is None) != (sequence is None):
            raise HTTPProblemError(422, "producer and sequence belong together; give both, or neither")
        return await self.service.observe(await self._batch(request), producer, sequence, score)

    async def _batch(self, request: Request) -> EventBatch:
        """The events of a body. What may take long is parsed in a thread, so that others are answered meanwhile.

        What an Arrow stream became counts among the bytes of bodies: it may be far more than was sent.
        """
        body, kind = await request.body(), request.headers.get("content-type", "")
        parse = partial(self.parser.parse, body, kind)
        if ARROW not in kind.lower():
            return parse() if len(body) <= QUICK else await self.service.parse(parse)
        batch = await self.service.parse(parse)
        request.scope["tapgnn.hold"](batch.size_in_memory())
        return batch

    async def classify(self, request: Request) -> Response:
        """The predicted risk of events as if they happened next; nothing is taken in."""
        _check_query(request, ())
        batch = await self._batch(request)
        engine = self.service.queue.engine
        if not engine.has_classifier:
            raise QueryError("the model has no classifier; train one with 'tapgnn fit --classify'")
        risks = await self._query(partial(engine.classify, batch))
        return _json({"risks": risks.tolist()})

    def retract(self, body: schemas.RetractBody) -> dict[str, Any]:
        """Undo one event: the model is then as if it had never come, and the journal holds no trace of it.

        The journal is replayed without it, which takes a while. Queries are answered meanwhile, events wait.
        """
        return {"events": self.service.queue.engine.retract(body.position, body.index)}

    def erase(self, body: schemas.EraseBody) -> dict[str, Any]:
        """Undo every event of a node, as `/v1/retract` does; a node without events is no error."""
        return {"events": self.service.queue.engine.erase(body.node)}

    async def backup(self, request: Request) -> Response:
        """A copy of the journal while events are taken in, complete up to one record; it is a journal itself."""
        _check_query(request, ())
        return await self.backups.send(self.service.queue.engine)

    def score(self, body: schemas.ScoreBody) -> dict[str, Any]:
        """The scores of links, now or at a later time: the chance of each against one random destination."""
        engine, pairs = self.service.queue.engine, body.pairs
        with engine.live() as live:
            src, dst = ([pair[end] for pair in pairs] for end in ("src", "dst"))
            times = np.array([_time(pair.get("time"), live) for pair in pairs])
            scores = engine.score(src, dst, times).tolist()
            return {"scores": scores, "probabilities": scores, "time": live.now}

    def embed(self, body: schemas.EmbedBody) -> dict[str, Any]:
        """Embeddings of nodes, now or at a later time; a node never seen gets that of a new node."""
        engine = self.service.queue.engine
        with engine.live() as live:
            time = _time(body.time, live)
            names = live.model.vocabulary
            known = (names.rows(engine.node_ids.nodes(body.nodes, names.__contains__)) >= 0).tolist()
            return {"embeddings": engine.embed(body.nodes, time).tolist(), "known": known, "time": time}

    def rank(self, body: schemas.RankBody) -> dict[str, Any]:
        """The likeliest destinations of a source, best first."""
        engine = self.service.queue.engine
        with engine.live() as live:
            time = _time(body.time, live)
            best = engine.rank(body.src, time, body.k, body.candidates)
            found = [{"dst": name, "score": score, "probability": score} for name, score in best]
            return {"src": body.src, "time": time, "destinations": found}

    def explain(self, body: schemas.ExplainBody) -> Explanation | RiskExplanation:
        """Why a score or a risk is what it is, with signed shares of its log-odds.

        Of a link (`src`, `dst`), of an event as if it happened next (`event`, a row as `/v1/classify` takes it), or of
        one of the riskiest recent events as it was at its arrival (`position`, `index`, as `/v1/live` has them).
        """
        insights, given = self.service.insights, body.model_fields_set
        if "event" in given:
            batch = self.parser.parse(json.dumps({"events": [body.event]}).encode(), JSON)
            return insights.explain_event(batch, body.limit)
        if "position" in given:
            return insights.explain_arrival(*self.service.activity.find(body.position, body.index), body.limit)
        return insights.explain(body.src, body.dst, body.time, body.limit)

    def node(self, body: schemas.NodeBody) -> dict[str, Any]:
        """A node's card: its history, how its embedding moved, similar nodes, suggested links."""
        return self.service.insights.card(body.node, body.role)

    def map(self) -> dict[str, Any]:
        """Where the recently active nodes are on the principal plane of their embeddings."""
        return self.service.insights.map()

    def live(self) -> dict[str, Any]:
        """Recent activity: throughput, latency, the newest and the riskiest events."""
        service, activity = self.service, self.service.activity
        return {
            "status": service.status(),
            "started": service.started,
            "total": activity.total,
            "scored": activity.scored,
            "classifier": service.queue.engine.has_classifier,
            "queue": service.queue.queued_batches,
            "pace": activity.pace(),
            "latency": {kind: activity.latency(kind) for kind in ("observe", "score")},
            "newest": activity.newest(SHOWN),
            "riskiest": activity.riskiest(SHOWN),
        }

    def model(self) -> dict[str, Any]:
        """The model that is served, the limits of requests, and the status of the engine."""
        config, settings, status = self.config, self.service.settings, self.service.status()
        fields = self.parser.rows.fields
        schema = fields.schema
        return {
            "version": __version__,
            "model": status["model"],
            "kernel": config.kernel,
            "layers": config.layers,
            "width": config.width,
            "features": len(fields.features or ()),
            "event": schema.json_schema(),
            "roles": {role: getattr(schema, role) for role in ROLES},
            "columns": dict(schema.columns),
            "bipartite": schema.bipartite,
            "time_unit": schema.time_unit,
            "unit": config.unit,
            "classifier": self.service.queue.engine.has_classifier,
            "limits": {"body": settings.limits.body, "events": settings.events, "queue": settings.queue},
            "status": status,
        }

    async def _query(self, work: Callable[[], Any]) -> Any:
        """Answer a query to the engine, whose latency the page shows."""
        start = perf_counter()
        found = await self.service.read(work)
        self.service.activity.add_query(perf_counter() - start)
        return found


async def _at_once(work: Callable[[], Any]) -> Any:
    return work()


def _endpoint(run: Runner, handler: Callable[..., Any], body: type[BaseModel] | None) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        _check_query(request, ())
        given = () if body is None else (await _validated(request, body),)
        return _json(await run(partial(handler, *given)))

    return endpoint


async def _validated(request: Request, kind: type[BaseModel]) -> BaseModel:
    """The JSON body of a request."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != JSON:
        raise HTTPProblemError(415, f"Content-Type is {given[:80]!r}; send {JSON}")
    try:
        body = await request.body()
        check_values(body, MOST_VALUES, f"{schemas.MOST_QUERIES:,} queries have")
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise problem_in_body(error) from None


def _receipt(receipt: Receipt) -> BatchReceipt:
    return BatchReceipt(receipt.accepted, receipt.duplicate, receipt.late, receipt.held, receipt.position)


def _time(time: float | None, live: LiveView) -> float:
    """The time of a query, or now."""
    return live.now if time is None else time


def _check_query(request: Request, known: tuple[str, ...]) -> None:
    """Refuse an unknown parameter: a typo must not send a batch without its number."""
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        named = f"the parameters are {', '.join(known)}" if known else "this path has none"
        raise HTTPProblemError(422, f"there is no query parameter {unknown[0][:80]!r}; {named}")


def _json(value: Any) -> Response:
    """A response; types of `tapgnn.online.answers` are written as objects."""
    return Response(json.dumps(value, allow_nan=False, ensure_ascii=False, default=vars), media_type=JSON)
