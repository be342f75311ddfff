"""What goes over the wire: requests and responses as types; validation and the OpenAPI document both come from them.

Requests are strict: a number is not a string, a truth value is not a number, an unknown field is an error, and nothing
is infinite. The width of an event's features is that of the model that is served.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, with_config
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from tapgnn.online.client import NOTHING_TAKEN, OUTCOME_UNKNOWN
from tapgnn.online.journal.event_batch import FEATURE_LIMIT, ID_LENGTH

LARGEST_TIME = 2.0**53
MOST_QUERIES = 10_000

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class _Said:
    """One message for whatever is wrong with a value, where the cases of a union would each give their own."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(handler(source), "value", custom_error_message=self.message)


Text = Annotated[str, Field(min_length=1, max_length=ID_LENGTH)]
Whole = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
NodeId = Annotated[Text | Whole, _Said(f"an id is a string of 1 to {ID_LENGTH} characters or an integer of 64 bits")]
Time = Annotated[
    float,
    Field(gt=-LARGEST_TIME, lt=LARGEST_TIME),
    _Said("a time is a finite number below 2^53 in the unit of the model's log"),
]
Moment = Annotated[Time | None, Field(description="Default: just after the last event that was absorbed.")]
Feature = Annotated[float, Field(ge=-FEATURE_LIMIT, le=FEATURE_LIMIT)]


def event_type(width: int) -> Any:
    """The type of an event with `width` features; a model without features takes none."""
    fields: dict[str, Any] = {
        "src": NodeId,
        "dst": NodeId,
        "time": Time,
        "label": NotRequired[Annotated[Whole, Field(description="The kind of event, where it is known already.")]],
    }
    if width:
        fields["features"] = Annotated[list[Feature], Field(min_length=width, max_length=width)]
    return with_config(STRICT)(TypedDict("Event", fields))  # type: ignore[operator]


def events_adapter(width: int, most: int) -> TypeAdapter[Any]:
    """Validates the body of /v1/events."""
    kind = event_type(width)
    rows: Any = Annotated[list[kind], Field(min_length=1, max_length=most)]  # type: ignore[valid-type]
    return TypeAdapter(with_config(STRICT)(TypedDict("EventsBody", {"events": rows})))  # type: ignore[operator]


@with_config(STRICT)
class Pair(TypedDict):
    """A link that is asked about."""

    src: NodeId
    dst: NodeId
    time: NotRequired[Moment]


@with_config(STRICT)
class ScoreBody(TypedDict):
    """Links that are asked about."""

    pairs: Annotated[list[Pair], Field(min_length=1, max_length=MOST_QUERIES)]


@with_config(STRICT)
class EmbedBody(TypedDict):
    """Nodes that are asked about."""

    nodes: Annotated[list[NodeId], Field(min_length=1, max_length=MOST_QUERIES)]
    time: NotRequired[Moment]


@with_config(STRICT)
class RankBody(TypedDict):
    """A source whose likeliest destinations are asked for, among the model's candidates or those given."""

    src: NodeId
    k: NotRequired[Annotated[int, Field(ge=1, le=1_000)]]
    time: NotRequired[Moment]
    among: NotRequired[Annotated[list[NodeId], Field(min_length=1, max_length=MOST_QUERIES)]]


@with_config(STRICT)
class ExplainBody(TypedDict):
    """A link whose score is to be explained by past events."""

    src: NodeId
    dst: NodeId
    time: NotRequired[Moment]
    limit: NotRequired[Annotated[int, Field(ge=1, le=200)]]


@with_config(STRICT)
class NodeBody(TypedDict):
    """A node whose card is asked for."""

    node: NodeId


@with_config(STRICT)
class RetractBody(TypedDict):
    """An event that never happened: the position of its batch, from the receipt, and its index in it."""

    position: Annotated[int, Field(ge=1, le=2**63 - 1)]
    index: Annotated[int, Field(ge=0, le=2**31 - 1)]


@with_config(STRICT)
class EraseBody(TypedDict):
    """A node of which no trace may stay."""

    node: NodeId


BODIES: dict[str, TypeAdapter[Any]] = {
    "score": TypeAdapter(ScoreBody),
    "embed": TypeAdapter(EmbedBody),
    "rank": TypeAdapter(RankBody),
    "explain": TypeAdapter(ExplainBody),
    "node": TypeAdapter(NodeBody),
    "retract": TypeAdapter(RetractBody),
    "erase": TypeAdapter(EraseBody),
}


class Problem(TypedDict):
    """Why a request was refused (RFC 9457)."""

    title: str
    status: int
    detail: str
    type: NotRequired[
        Annotated[
            str,
            Field(description=f"`{NOTHING_TAKEN}`: send it again. `{OUTCOME_UNKNOWN}`: only with its sequence."),
        ]
    ]


class Observed(TypedDict):
    """What became of a batch of events that is now durable and applied."""

    accepted: Annotated[int, Field(description="Events that are in the journal now.")]
    duplicate: Annotated[bool, Field(description="The batch was there already; nothing was done.")]
    late: Annotated[int, Field(description="Events older than the clock, merged or dropped by the policy.")]
    held: Annotated[int, Field(description="Events that wait for their instant to close.")]
    position: Annotated[int, Field(description="The place of the batch in the journal.")]


class Undone(TypedDict):
    """What was taken back."""

    events: Annotated[int, Field(description="Events that are in the journal and in the model no more.")]


class Scored(TypedDict):
    """How likely links are."""

    probabilities: list[float]
    time: Annotated[float, Field(description="The moment for pairs that named none.")]


class ScoredAndObserved(TypedDict):
    """What the model thought of events before it learnt of them, and what became of them."""

    probabilities: list[float]
    risks: Annotated[list[float] | None, Field(description="Of the rare label, where the model has a classifier.")]
    receipt: Observed


class Embedded(TypedDict):
    """Representations z(v, t), one row a node."""

    embeddings: list[list[float]]
    known: Annotated[list[bool], Field(description="Whether the node was ever seen.")]
    time: float


class Destination(TypedDict):
    """A node, and how likely the link to it is."""

    dst: str | int
    probability: float


class Ranked(TypedDict):
    """Likely destinations, best first."""

    src: str | int
    time: float
    destinations: list[Destination]


class Cause(TypedDict):
    """A past event and what it did to the score."""

    src: str | int
    dst: str | int
    time: float
    effect: Annotated[float, Field(description="Logit with it minus logit without it; positive raised the score.")]
    share: Annotated[float, Field(description="The effect over the sum of all absolute effects.")]
    embedding: Annotated[float, Field(description="What it adds to the logit through the last layer's sums.")]
    without: Annotated[float, Field(description="The probability, had it not happened.")]
    exact: Annotated[bool, Field(description="False where an older event than those remembered would be needed.")]


class Explained(TypedDict):
    """Why a link has its score."""

    src: str | int
    dst: str | int
    time: float
    probability: float
    logit: float
    base: Annotated[float, Field(description="The logit with empty sums in the last layer.")]
    older: Annotated[float, Field(description="What all events before those remembered add through the sums.")]
    causes: list[Cause]
    remembered: Annotated[int, Field(description="How many past events of the two nodes were looked at.")]
    of: Annotated[int, Field(description="How many they have had in all.")]


class Arrival(TypedDict):
    """An event that arrived, and what the model thought of it before it learnt of it."""

    src: str | int
    dst: str | int
    time: float
    probability: float | None
    risk: Annotated[float | None, Field(description="Of the rare label; without a classifier, 1 - probability.")]


class Second(TypedDict):
    """One of the last seconds."""

    second: float
    events: float
    slowest: float


class Lives(TypedDict):
    """What has just happened."""

    status: dict[str, Any]
    started: float
    total: Annotated[int, Field(description="Events since this process started.")]
    scored: Annotated[int, Field(description="How many of them there was time to score.")]
    classifier: bool
    queue: Annotated[int, Field(description="Batches that wait.")]
    pace: list[Second]
    latency: Annotated[dict[str, dict[str, float | None]], Field(description="Percentiles in milliseconds.")]
    newest: list[Arrival]
    riskiest: list[Arrival]


class Past(TypedDict):
    """A past event of a node, and how far its embedding then is from the present one: 1 - cosine."""

    src: str | int
    dst: str | int
    time: float
    drift: float


class Neighbour(TypedDict):
    """A node whose embedding points in a similar direction; likeness is the cosine."""

    node: str | int
    likeness: float


class Card(TypedDict):
    """What is known of a node."""

    node: str | int
    time: float
    as_source: int
    as_destination: int
    events: list[Past]
    nearest: list[Neighbour]
    suggested: list[Destination]


class Spot(TypedDict):
    """A node on the map."""

    node: str | int
    x: float
    y: float
    sent: int
    received: int


class Mapped(TypedDict):
    """The nodes active most recently on the principal plane of their representations."""

    time: float
    nodes: list[Spot]


class About(TypedDict):
    """The model that is served."""

    version: str
    model: Annotated[str, Field(description="The hash of the model.")]
    kernel: str
    layers: int
    width: int
    features: Annotated[int, Field(description="How many each event must have.")]
    unit: Annotated[float, Field(description="The shortest pause that matters, in the unit of time.")]
    classifier: bool
    limits: dict[str, int]
    status: dict[str, Any]
