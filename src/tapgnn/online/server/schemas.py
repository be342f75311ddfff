"""Request and response bodies as types; validation and the OpenAPI document both come from them.

Requests are strict: a number is not a string, a boolean is not a number, an unknown field is an error, and nothing is
infinite. The bodies of events come from the schema of the model, in `event_schema`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, model_validator, with_config
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from typing_extensions import TypedDict

from tapgnn.online.client import NOTHING_TAKEN, OUTCOME_UNKNOWN
from tapgnn.online.journal.cell_conversion import ID_LENGTH
from tapgnn.vocabulary import Id

LARGEST_TIME = 2.0**53
MOST_QUERIES = 10_000

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class _Message:
    """One message for any invalid value, where the members of a union would each give their own."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(handler(source), "value", custom_error_message=self.message)


Text = Annotated[str, Field(min_length=1, max_length=ID_LENGTH)]
Whole = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
NodeId = Annotated[Text | Whole, _Message(f"an id is a string of 1 to {ID_LENGTH} characters or an integer of 64 bits")]
Time = Annotated[
    float,
    Field(gt=-LARGEST_TIME, lt=LARGEST_TIME),
    _Message("a time is a finite number below 2^53 in the unit of the model's log"),
]
QueryTime = Annotated[Time | None, Field(description="Default: just after the last event that was absorbed.")]
Nodes = Annotated[list[NodeId], Field(min_length=1, max_length=MOST_QUERIES)]

Position = Annotated[int, Field(ge=1, le=2**63 - 1)]
Index = Annotated[int, Field(ge=0, le=2**31 - 1)]
Columns = Annotated[dict[str, Any], Field(description="The columns of the event; null where missing.")]
Role = Annotated[str | None, Field(description="src or dst, where sources and destinations are of two kinds.")]


class RequestBody(BaseModel):
    """A JSON body of a request."""

    model_config = STRICT


class EventsBody(RequestBody):
    """Events; each is one row of the table that the model was fitted on, as `/v1/model` describes it."""

    events: Annotated[list[dict[str, Any]], Field(min_length=1)]


@with_config(STRICT)
class Pair(TypedDict):
    """A link to score."""

    src: NodeId
    dst: NodeId
    time: NotRequired[QueryTime]


class ScoreBody(RequestBody):
    """Links to score."""

    pairs: Annotated[list[Pair], Field(min_length=1, max_length=MOST_QUERIES)]


class EmbedBody(RequestBody):
    """Nodes to embed."""

    nodes: Nodes
    time: QueryTime = None


class RankBody(RequestBody):
    """A source whose likeliest destinations are wanted, among all candidates of the model or those given."""

    src: NodeId
    k: Annotated[int, Field(ge=1, le=1_000)] = 10
    time: QueryTime = None
    # Left out, it is None; a null that is sent is refused.
    candidates: Annotated[Nodes, Field(default=None)]


class ExplainBody(RequestBody):
    """What is to be explained: a link, an event as if it happened next, or a recent risky event at its arrival."""

    model_config = ConfigDict(
        **STRICT,
        json_schema_extra={
            "oneOf": [{"required": ["src", "dst"]}, {"required": ["event"]}, {"required": ["position", "index"]}]
        },
    )
    # Left out, they are None; a null that is sent is refused.
    src: Annotated[NodeId, Field(default=None, description="A link, with dst.")]
    dst: Annotated[NodeId, Field(default=None)]
    time: Annotated[
        QueryTime, Field(description="Of a link. Default: just after the last event that was absorbed.")
    ] = None
    event: Annotated[dict[str, Any], Field(default=None, description="A row of the table, as `/v1/classify` takes it.")]
    position: Annotated[Position, Field(default=None, description="Of an event that has arrived, as in `/v1/live`.")]
    index: Annotated[Index, Field(default=None)]
    limit: Annotated[int, Field(ge=1, le=200, description="Past events in the answer.")] = 10

    @model_validator(mode="after")
    def _is_one_thing(self) -> ExplainBody:
        forms = ({"src", "dst"}, {"event"}, {"position", "index"})
        given = self.model_fields_set - {"limit", "time"}
        if given not in forms or ("time" in self.model_fields_set and "src" not in given):
            raise PydanticCustomError("forms", "give src and dst (and time), or event, or position and index")
        return self


class NodeBody(RequestBody):
    """A node whose card is wanted, on one side of a table of two kinds of nodes."""

    node: NodeId
    role: Literal["src", "dst"] | None = None


class RetractBody(RequestBody):
    """An event to undo: the position of its batch, from the receipt, and its index in the batch."""

    position: Position
    index: Index


class EraseBody(RequestBody):
    """A node to erase."""

    node: NodeId


class Problem(BaseModel):
    """Why a request was refused (RFC 9457)."""

    title: str
    status: int
    detail: str
    type: Annotated[
        str,
        Field(description=f"`{NOTHING_TAKEN}`: resend it. `{OUTCOME_UNKNOWN}`: resend it only with its sequence."),
    ] = "about:blank"


class ClassifyResponse(TypedDict):
    """Predicted probabilities of the positive label."""

    risks: list[float]


class UndoResponse(TypedDict):
    """What was undone."""

    events: Annotated[int, Field(description="The number of events removed from the journal and the model.")]


class ScoreResponse(TypedDict):
    """Scores of links: the chance of each against one random destination."""

    scores: list[float]
    probabilities: Annotated[list[float], Field(description="The same as scores.", deprecated=True)]
    time: Annotated[float, Field(description="The time of pairs without one.")]


class EmbedResponse(TypedDict):
    """Embeddings z(v, t), one row a node."""

    embeddings: list[list[float]]
    known: Annotated[list[bool], Field(description="Whether the node was ever seen.")]
    time: float


class Destination(TypedDict):
    """A node and the score of the link to it."""

    dst: Id
    score: float
    probability: Annotated[float, Field(description="The same as score.", deprecated=True)]


class RankResponse(TypedDict):
    """The likeliest destinations, best first."""

    src: Id
    time: float
    destinations: list[Destination]


class TimedLink(TypedDict):
    """A link at a time."""

    src: Id
    dst: Id
    time: float


class RecentEvent(TimedLink):
    """A recent event and its scores from before the model learnt of it."""

    score: float | None
    probability: Annotated[float | None, Field(description="The same as score.", deprecated=True)]
    risk: Annotated[
        float | None,
        Field(description="Predicted probability of the positive label; without a classifier, 1 - score."),
    ]
    position: Annotated[int, Field(description="The position of its batch in the journal.")]
    index: Annotated[int, Field(description="Its index in the batch.")]
    explained: Annotated[bool, Field(description="Whether `/v1/explain` can explain its risk at arrival.")]
    columns: Columns


class ActivitySecond(TypedDict):
    """Events and slowest batch of one of the last seconds."""

    second: float
    events: float
    slowest: float


class LiveResponse(TypedDict):
    """Recent activity."""

    status: dict[str, Any]
    started: float
    total: Annotated[int, Field(description="Events since this process started.")]
    scored: Annotated[int, Field(description="Events that were scored before they were applied.")]
    classifier: bool
    queue: Annotated[int, Field(description="Batches in the queue.")]
    pace: list[ActivitySecond]
    latency: Annotated[dict[str, dict[str, float | None]], Field(description="Percentiles in milliseconds.")]
    newest: list[RecentEvent]
    riskiest: list[RecentEvent]


class NodeEvent(TimedLink):
    """A past event of a node; drift is 1 - cosine of its embedding after the event with the present one."""

    drift: float
    columns: Columns


class Neighbour(TypedDict):
    """A node with a similar embedding; similarity is the cosine."""

    node: Id
    role: Role
    similarity: float


class NodeResponse(TypedDict):
    """The card of a node."""

    node: Id
    role: Role
    time: float
    as_source: int
    as_destination: int
    events: list[NodeEvent]
    nearest: list[Neighbour]
    suggested: list[Destination]


class MapNode(TypedDict):
    """A node on the map."""

    node: Id
    role: Role
    x: float
    y: float
    sent: int
    received: int


class MapResponse(TypedDict):
    """The recently active nodes on the principal plane of their embeddings."""

    time: float
    nodes: list[MapNode]


class ModelResponse(TypedDict):
    """The model that is served."""

    version: str
    model: Annotated[str, Field(description="The hash of the model.")]
    kernel: str
    layers: int
    width: int
    features: Annotated[int, Field(description="The length of `features`, for a model of plain features f0, f1, ...")]
    event: Annotated[dict[str, Any], Field(description="One event as JSON Schema.")]
    roles: Annotated[dict[str, str | None], Field(description="The column of src, dst, time, label and id.")]
    columns: Annotated[dict[str, str], Field(description="The kind of each other column: number, category, boolean.")]
    bipartite: Annotated[bool, Field(description="Whether sources and destinations are of two kinds.")]
    time_unit: Annotated[str, Field(description="The unit of times that are given as numbers.")]
    unit: Annotated[float, Field(description="The time resolution of the model, in the unit of its log.")]
    classifier: bool
    limits: dict[str, int]
    status: dict[str, Any]
