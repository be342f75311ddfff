"""What is known of an event, in words: the columns of its description by the part of the event that they tell of.

The parts are the history of either end, the pair, and each column of the table. Numbers are given as people count them:
a description has logarithms of times and counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tapgnn.model import Model
from tapgnn.model.config import Config
from tapgnn.model.event_classifier import dense_widths
from tapgnn.model.features.statistics_encoder import COUNT_FLOOR

SOURCE, DESTINATION, PAIR = "history of the source", "history of the destination", "the pair"
ENDS = {"source_": SOURCE, "destination_": DESTINATION}
ROLES = {"_as_source": " as source", "_as_destination": " as destination", "_any": ""}
PAIR_WORDS = {
    "pair_met": "met before",
    "pair_pause": "time since they last met",
    "pair_ticks": "events of the graph since they last met",
    "pair_own_events_source": "events of the source since they last met",
    "pair_own_events_destination": "events of the destination since they last met",
    "pair_count_forth": "events from the source to the destination so far",
    "pair_count_back": "events from the destination to the source so far",
    "link_logit": "log-odds of the link's score",
}


class KnownFact(NamedTuple):
    """A number of a description: its name for people, the part that it tells of, and the number as people count it."""

    name: str
    part: str
    value: Callable[[float], float]


def known_facts(model: Model) -> list[KnownFact]:
    """All but the columns of the table, in the order of a description."""
    names = [name for group, names in model.description.items() if group != "features" for name in names]
    return [_fact(name, model.config) for name in names]


def description_parts(model: Model, numbers: Sequence[str], categories: Sequence[str]) -> dict[str, list[int]]:
    """The columns of a description by part, for a table with these columns."""
    facts = known_facts(model)
    parts: dict[str, list[int]] = {SOURCE: [], DESTINATION: [], PAIR: []}
    for column, fact in enumerate(facts):
        parts[fact.part].append(column)
    given, *codes = dense_widths(model.config)
    each, start = given // max(len(numbers), 1), len(facts)
    for name, width in zip((*numbers, *categories), (*[each] * len(numbers), *codes), strict=True):
        parts[name] = list(range(start, start + width))
        start += width
    return parts


def _fact(name: str, config: Config) -> KnownFact:
    if name in PAIR_WORDS:
        return KnownFact(PAIR_WORDS[name], PAIR, _value_of(name.removeprefix("pair_"), config))
    if name.startswith("walks_"):
        return KnownFact(f"similarity of the neighbourhoods ({int(name.removeprefix('walks_')) + 1})", PAIR, float)
    end = next(end for end in ENDS if name.startswith(end))
    kind, role = name.removeprefix(end), ""
    for suffix, words in ROLES.items():
        if kind.endswith(suffix):
            kind, role = kind.removesuffix(suffix), words
    return KnownFact(_words(kind, role, config), ENDS[end], _value_of(kind, config))


def _words(kind: str, role: str, config: Config) -> str:
    """The name of a fact of one end."""
    stem, _, half = kind.rpartition("_")
    if half.isdigit():
        what = "events" if stem == "recent" else "new partners"
        return f"recent {what}{role} (half-life {config.half_lives[int(half)] * config.events:.4g} events)"
    return {
        "pause": f"time since the last event{role}",
        "ticks": f"events of the graph since the last event{role}",
        "count": f"events{role} so far",
        "partners": f"partners{role} so far",
        "age": "time since the first event",
        "age_in_events": "events of the graph since the first event",
    }[kind]


def _value_of(kind: str, config: Config) -> Callable[[float], float]:
    """What turns the number of a description into one that people count."""
    if kind in ("met", "link_logit"):
        return float
    if kind in ("pause", "age"):
        return lambda value: math.expm1(value) * config.unit
    if kind.startswith(("recent", "new_partners")):
        return lambda value: max(math.exp(value) - COUNT_FLOOR, 0.0)
    return math.expm1
