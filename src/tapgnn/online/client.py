"""A typed client of the server.

    with Client("http://127.0.0.1:8000", producer="till-3") as client:
        client.observe([{"card_id": 7, "merchant_id": 12, "amount": 9.5, "timestamp": "2026-03-01T12:00:00Z"}])
        client.score([(7, 12)])

Events are rows in the words of the table that the model was fitted on: dicts, a pandas or polars frame, a pyarrow
table, or tuples (src, dst, time[, features[, label]]).

With a producer every batch has a number, so that resending it is safe: a batch without a response, or with 429 or 503,
is resent after the seconds in Retry-After, for up to `patience` seconds. A batch without a number is resent only when
the server certainly took nothing of it: after 429, or 503 with the type `NOTHING_TAKEN`. Any other error response is a
`ServerError` with the server's message.
"""

from __future__ import annotations

import itertools
import time as clock
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tapgnn.errors import ConfigError, ServerError
from tapgnn.online.answers import BatchReceipt, Cause, Explanation, RiskExplanation, RiskFact, RiskPart, ScoredBatch
from tapgnn.vocabulary import Id

Row = Mapping[str, Any] | Sequence[Any]
Rows = Iterable[Row] | Any
FIELDS = ("src", "dst", "time", "features", "label")
RETRIED = (429, 503)
# The types of problem (RFC 9457) that tell whether a batch may be in the journal.
NOTHING_TAKEN = "urn:tapgnn:problem:nothing-taken"
OUTCOME_UNKNOWN = "urn:tapgnn:problem:outcome-unknown"
# What must not be resent without a number when it may have been taken in.
NOT_IDEMPOTENT = ("/v1/events", "/v1/score-then-observe", "/v1/retract")
MOST_PAIRS = 10_000


class Client:
    """A client of one server; do not share one with a producer between threads."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        token: str | None = None,
        producer: str | None = None,
        first: int = 0,
        timeout: float = 30.0,
        patience: float = 60.0,
    ) -> None:
        """`first` is the number of the first batch; after a restart, pass the next unused one."""
        try:
            import httpx
        except ImportError:
            raise ConfigError("the client needs httpx; install it with pip install 'tapgnn[serve]'") from None
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._httpx = httpx
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout)
        self._url, self._patience, self._producer = url, patience, producer
        self._numbers = itertools.count(first)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def observe(self, events: Rows, sequence: int | None = None) -> BatchReceipt:
        """Send events; they are durable when this returns."""
        return BatchReceipt(**self._send("/v1/events", events, sequence))

    def score_then_observe(self, events: Rows, sequence: int | None = None) -> ScoredBatch:
        """Send events, and get their scores, and risks where there is a classifier, from before they were known."""
        answer = self._send("/v1/score-then-observe", events, sequence)
        return ScoredBatch(**{**answer, "receipt": BatchReceipt(**answer["receipt"])})

    def classify(self, events: Rows) -> list[float]:
        """The predicted risk of each event as if it happened next; nothing is taken in."""
        return list(self._request("/v1/classify", {"events": _events(events)})["risks"])

    def score(self, pairs: Iterable[Sequence[Id]], time: float | Iterable[float] | None = None) -> list[float]:
        """The scores of links (src, dst), now, at a later time, or each at its own time.

        More than 10,000 take several requests.
        """
        ends = list(pairs)
        times = time if isinstance(time, Iterable) else [time] * len(ends)
        links = [{"src": src, "dst": dst, "time": when} for (src, dst), when in zip(ends, times, strict=True)]
        parts = [links[start : start + MOST_PAIRS] for start in range(0, len(links), MOST_PAIRS)]
        return [value for part in parts for value in self._request("/v1/score", {"pairs": part})["scores"]]

    def embed(self, nodes: Iterable[Id], time: float | None = None) -> list[list[float]]:
        """Embeddings of nodes."""
        return list(self._request("/v1/embed", {"nodes": list(nodes), "time": time})["embeddings"])

    def rank(
        self, src: Id, k: int = 10, time: float | None = None, candidates: Iterable[Id] | None = None
    ) -> list[tuple[Id, float]]:
        """The likeliest destinations of a source, best first, with their scores."""
        body = {"src": src, "k": k, "time": time} | ({} if candidates is None else {"candidates": list(candidates)})
        found = self._request("/v1/rank", body)["destinations"]
        return [(entry["dst"], entry["score"]) for entry in found]

    def explain(self, src: Id, dst: Id, time: float | None = None, limit: int = 10) -> Explanation:
        """The past events that moved the score of a link most."""
        body = {"src": src, "dst": dst, "limit": limit} | ({} if time is None else {"time": time})
        answer = self._request("/v1/explain", body)
        return Explanation(**{**answer, "causes": [Cause(**cause) for cause in answer["causes"]]})

    def explain_event(self, event: Row, limit: int = 10) -> RiskExplanation:
        """Why an event would have its risk if it happened next: signed shares of its log-odds, and past events."""
        return _risk_explanation(self._request("/v1/explain", {"event": _event(event), "limit": limit}))

    def explain_arrival(self, position: int, index: int, limit: int = 10) -> RiskExplanation:
        """Why one of the riskiest recent events had its risk when it arrived, by its receipt and place in its batch."""
        body = {"position": position, "index": index, "limit": limit}
        return _risk_explanation(self._request("/v1/explain", body))

    def retract(self, position: int, index: int) -> int:
        """Undo one event, by the position of its receipt and its index in the batch; gives the number of events, 1."""
        return int(self._request("/v1/retract", {"position": position, "index": index})["events"])

    def erase(self, node: Id) -> int:
        """Undo every event of a node; gives their number. Both take as long as a replay of the journal."""
        return int(self._request("/v1/erase", {"node": node})["events"])

    def download_backup(self, path: str | Path) -> None:
        """Write a copy of the server's journal to a file; `tapgnn backup` also reads it back."""
        try:
            with self._http.stream("GET", "/v1/backup", timeout=None) as answer, open(path, "wb") as file:
                if answer.status_code != 200:
                    answer.read()
                    raise _failure("/v1/backup", answer)
                for piece in answer.iter_bytes():
                    file.write(piece)
        except self._httpx.TransportError as error:
            raise ServerError(f"{self._url} sent no whole copy ({error or type(error).__name__}); try again") from None

    def model(self) -> dict[str, Any]:
        """The model that is served, and the status of the engine."""
        return self._request("/v1/model", None)

    def is_ready(self) -> bool:
        """Whether the server is up and its journal is replayed."""
        try:
            return bool(self._http.get("/readyz").status_code == 200)
        except self._httpx.TransportError:
            return False

    def wait_until_ready(self, seconds: float = 600.0) -> None:
        """Wait until the server is ready: the first start on a machine compiles for a minute or two."""
        end = clock.monotonic() + seconds
        while not self.is_ready():
            if clock.monotonic() > end:
                raise ServerError(f"{self._url} was not ready within {seconds:g} s; is it running?")
            clock.sleep(0.05)

    def _send(self, path: str, events: Rows, sequence: int | None) -> dict[str, Any]:
        body = {"events": _events(events)}
        if self._producer is None:
            if sequence is not None:
                raise ConfigError("a sequence needs a producer; give the client one")
            return self._request(path, body)
        number = next(self._numbers) if sequence is None else sequence
        return self._request(path, body, {"producer": self._producer, "sequence": number})

    def _request(self, path: str, body: Any, query: dict[str, Any] | None = None) -> dict[str, Any]:
        """One response; what may be sent twice is retried while the server is busy or cannot be reached."""
        repeatable = query is not None or path not in NOT_IDEMPOTENT
        end, pause = clock.monotonic() + self._patience, 0.1
        method = "GET" if body is None else "POST"
        while True:
            try:
                answer = self._http.request(method, path, json=body, params=query)
            except self._httpx.TransportError as error:
                failure = ServerError(
                    f"{self._url} cannot be reached ({error or type(error).__name__}); is it running?"
                )
                wait, retry = pause, repeatable
            else:
                if answer.status_code == 200:
                    return dict(answer.json())
                failure = _failure(path, answer)
                certain = failure.status == 429 or failure.type == NOTHING_TAKEN
                after = answer.headers.get("retry-after", "")
                wait = float(after) if after.isdecimal() else pause
                retry = failure.status in RETRIED and (repeatable or certain)
            if not retry or clock.monotonic() + wait > end:
                raise failure
            clock.sleep(wait)
            pause = min(2 * pause, 5.0)


def _events(rows: Rows) -> list[dict[str, Any]]:
    """Rows as JSON objects; those of a frame by its columns."""
    if hasattr(rows, "collect"):
        rows = rows.collect()
    for method, options in (("to_dicts", ()), ("to_pylist", ()), ("to_dict", ("records",))):
        if hasattr(rows, method) and not isinstance(rows, Mapping):
            rows = getattr(rows, method)(*options)
            break
    return [_event(row) for row in ([rows] if isinstance(rows, Mapping) else rows)]


def _event(row: Row) -> dict[str, Any]:
    if isinstance(row, Mapping):
        return {str(name): _plain(value) for name, value in row.items()}
    named = zip(FIELDS, row, strict=False)
    return {name: _plain(value) for name, value in named if value is not None}


def _plain(value: Any) -> Any:
    """A value as JSON has it: dates as ISO texts, missing values as null, without the types of numpy."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else value


def _risk_explanation(answer: dict[str, Any]) -> RiskExplanation:
    parts = [RiskPart(**{**part, "facts": [RiskFact(**fact) for fact in part["facts"]]}) for part in answer["parts"]]
    return RiskExplanation(**{**answer, "parts": parts, "causes": [Cause(**cause) for cause in answer["causes"]]})


def _failure(path: str, answer: Any) -> ServerError:
    try:
        said = answer.json()
        detail, kind = said["detail"], said.get("type")
    except (ValueError, KeyError, TypeError):
        detail, kind = answer.text[:200], None
    return ServerError(f"{path}: {answer.status_code} {answer.reason_phrase}: {detail}", answer.status_code, kind)
