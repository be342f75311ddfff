"""What the live side answers, as one set of types: the server gives them, its client and its OpenAPI document too.

A client needs neither torch nor pydantic: descriptions are metadata of the fields, which pydantic reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tapgnn.vocabulary import Id


def _about(description: str, deprecated: bool = False) -> dict[str, Any]:
    return {"description": description} | ({"deprecated": True} if deprecated else {})


@dataclass(frozen=True)
class BatchReceipt:
    """The receipt of a batch that is durable and applied."""

    accepted: int = field(metadata=_about("Events added to the journal."))
    duplicate: bool = field(metadata=_about("The batch was in the journal already; nothing was done."))
    late: int = field(metadata=_about("Events older than the clock, merged into the present instant."))
    held: int = field(metadata=_about("Events that wait for their instant to close."))
    position: int = field(metadata=_about("The position of the batch in the journal."))


@dataclass(frozen=True)
class ScoredBatch:
    """Scores [E] of events from before the model learnt of them (of a duplicate those first given), and the receipt."""

    probabilities: list[float] = field(metadata=_about("The same as scores.", deprecated=True))
    risks: list[float] | None = field(
        metadata=_about("Predicted probability of the positive label, where the model has a classifier.")
    )
    receipt: BatchReceipt
    scores: list[float] = field(
        default_factory=list, metadata=_about("The chance of each link against one random destination.")
    )


@dataclass(frozen=True)
class Cause:
    """A past event and what it did to the score of a link, or to the risk of an event (in log-odds)."""

    src: Id
    dst: Id
    time: float
    effect: float = field(metadata=_about("Logit with it minus logit without it; positive raised the score."))
    share: float = field(metadata=_about("The effect over the sum of all absolute effects."))
    embedding: float | None = field(
        metadata=_about("Of a link, what it adds to the logit through the last layer's sums; null of a risk.")
    )
    without: float = field(metadata=_about("The score without the event, from 0 to 1."))
    exact: bool = field(metadata=_about("False where an event older than the window would be needed."))
    columns: dict[str, Any] = field(
        default_factory=dict, metadata=_about("The columns of the event; null where missing.")
    )


@dataclass(frozen=True)
class RiskFact:
    """One number that is known of an event, and what it does to the risk."""

    name: str
    value: float | None = field(metadata=_about("The number; null where there never was one."))
    effect: float = field(metadata=_about("Log-odds minus log-odds with this number alone made typical."))


@dataclass(frozen=True)
class RiskPart:
    """A part of what is known of an event: a column of it, the pair, or the history of one end."""

    name: str
    share: float = field(metadata=_about("What the part adds to the log-odds; the shares and the base add up to them."))
    value: float | str | None = field(metadata=_about("Of a column of the event, what was sent; null where missing."))
    facts: list[RiskFact] = field(metadata=_about("Of the pair and of a history, the numbers that mattered most."))


@dataclass(frozen=True)
class RiskExplanation:
    """Why an event has its risk: signed shares of the log-odds, strongest first, and past events."""

    src: Id
    dst: Id
    time: float
    risk: float = field(metadata=_about("Predicted probability of the positive label."))
    logit: float = field(metadata=_about("Its log-odds."))
    base: float = field(metadata=_about("The log-odds of the average training event."))
    parts: list[RiskPart]
    causes: list[Cause] = field(metadata=_about("Past events of both nodes, by what they did to the log-odds."))
    events_in_window: int = field(metadata=_about("Past events of the two nodes that were weighed."))


@dataclass(frozen=True)
class Explanation:
    """Why a link has its score: the causes, strongest first, and what is left."""

    src: Id
    dst: Id
    time: float
    score: float = field(metadata=_about("The chance of the link against one random destination."))
    probability: float = field(metadata=_about("The same as score.", deprecated=True))
    logit: float
    base: float = field(metadata=_about("The logit with empty sums in the last layer."))
    older: float = field(metadata=_about("What all events before the window add through the sums."))
    causes: list[Cause]
    events_in_window: int = field(metadata=_about("Past events of the two nodes in the window."))
    events_in_total: int = field(metadata=_about("All past events of the two nodes."))
