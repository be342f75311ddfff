"""Why an event is risky: what each part of what is known of it adds to the log-odds of the positive label.

    log-odds = base + sum over parts of share        a part: a column of the event, the pair, or the history of one end

A share is the Shapley value of its part: what it adds once it is known, on average over the orders in which the parts
become known. A part that is not known has its typical values, those of the average training event, whose log-odds are
the base. Shares are exact for few parts; for many the orders are a sample, each with its reverse, and the shares still
add up. Within a part, facts are told by what the log-odds lose when each alone is made typical.

Past events are weighed as those of a link are (`leave_one_out`): log-odds minus those without the event.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.events import Floats
from tapgnn.model import Model
from tapgnn.model.differentiable import Differentiable
from tapgnn.model.event_classifier import FactClassifier, dense_features
from tapgnn.online.answers import RiskExplanation, RiskFact, RiskPart
from tapgnn.online.explain.event_window import Excerpt
from tapgnn.online.explain.known_facts import KnownFact, description_parts, known_facts
from tapgnn.online.explain.link_explanation import both_sides, strongest_causes
from tapgnn.online.explain.moment import Moment

# Up to so many parts every subset is weighed; beyond, so many orders and their reverses.
FEW_PARTS, ORDERS = 10, 64
MOST_FACTS = 3

Logits = Callable[[Tensor], Tensor]


@torch.no_grad()
def explain_risk(
    model: Model,
    classifier: FactClassifier,
    table: FittedSchema,
    moment: Moment,
    history: Excerpt,
    cells: Mapping[str, Any],
    limit: int = 20,
    names: Sequence[str] = (),
) -> RiskExplanation:
    """Why the event at a moment has its risk; `cells` are its columns, `names` those of past events."""
    (left, fine), (right, good) = (side.without() for side in both_sides(model, moment, history))
    given = None
    if moment.features is not None:
        dense = torch.from_numpy(dense_features(moment.features, model.config)).to(model.dtype)
        given = dense.expand(len(left.node), -1)
    rows, _ = Differentiable(model).describe_rows(left.with_right(right), given)
    logits = _in_float64(classifier)(classifier.encode(rows).double())
    causes = strongest_causes(history, logits, fine & good, None, limit, names)
    parts = description_parts(model, list(table.encoder.numbers), list(table.encoder.categories))
    logit, base, found = share_out(classifier, rows[:1], parts, known_facts(model))
    found = [replace(part, value=cells.get(part.name)) for part in found]
    risk = 1.0 / (1.0 + math.exp(-logit))
    return RiskExplanation(moment.src, moment.dst, moment.time, risk, logit, base, found, causes, len(history.time))


@torch.no_grad()
def share_out(
    classifier: FactClassifier, row: Tensor, parts: Mapping[str, Sequence[int]], facts: Sequence[KnownFact]
) -> tuple[float, float, list[RiskPart]]:
    """The log-odds of an event, the base, and the parts, strongest first, of its description row [1, D]."""
    encoded, size = classifier.encode(row)[0].double(), classifier.low.shape[1] + 1
    typical, ask = classifier.typical.double(), _in_float64(classifier)
    used = {column: place for place, column in enumerate(classifier.used.tolist())}
    part_of = torch.full((len(used),), -1)
    for number, columns in enumerate(parts.values()):
        part_of[[used[column] for column in columns if column in used]] = number
    part_of = part_of.repeat_interleave(size)

    def logits(known: Tensor) -> Tensor:
        """[n] the log-odds where these parts [n, P] are known."""
        shown = (part_of < 0) | known[:, part_of.clamp(min=0)]
        return ask(torch.where(shown, encoded, typical))

    base, logit = logits(torch.tensor([[False] * len(parts), [True] * len(parts)])).tolist()
    shares = (_all_subsets if len(parts) <= FEW_PARTS else _sampled_orders)(logits, len(parts))
    alone = torch.arange(len(used)).unsqueeze(1) == torch.arange(len(used)).repeat_interleave(size)
    effects = logit - ask(torch.where(alone, typical, encoded))
    found = []
    for (name, columns), share in zip(parts.items(), shares.tolist(), strict=True):
        there = [column for column in columns if column in used and column < len(facts)]
        order = sorted(there, key=lambda column: -abs(float(effects[used[column]])))[:MOST_FACTS]
        told = [
            RiskFact(facts[column].name, _known(row[0, column], facts[column]), float(effects[used[column]]))
            for column in order
        ]
        found.append(RiskPart(name, share, None, told))
    return logit, base, sorted(found, key=lambda part: -abs(part.share))


def _in_float64(classifier: FactClassifier) -> Logits:
    """The logits of encoded descriptions, so that shares add up whatever they are computed beside."""
    exact = copy.deepcopy(classifier).double()
    return lambda encoded: exact.members(encoded).mean(dim=0) + exact.shift


def _known(value: Tensor, fact: KnownFact) -> float | None:
    return None if bool(value.isnan()) else float(f"{fact.value(float(value)):.6g}")


def _all_subsets(logits: Logits, count: int) -> Floats:
    """Shapley values [P] from all subsets of the parts."""
    subset = np.arange(1 << count)
    member = (subset[:, None] >> np.arange(count)) & 1 == 1
    value, size = logits(torch.from_numpy(member)).numpy(), member.sum(axis=1)
    weight = np.array([math.factorial(s) * math.factorial(count - s - 1) / math.factorial(count) for s in range(count)])
    shares = np.empty(count)
    for part in range(count):
        without = np.flatnonzero(~member[:, part])
        shares[part] = (weight[size[without]] * (value[without | 1 << part] - value[without])).sum()
    return shares


def _sampled_orders(logits: Logits, count: int) -> Floats:
    """The same from a sample of orders, each with its reverse; the same sample every time."""
    rng = np.random.default_rng(0)
    orders = np.array([rng.permutation(count) for _ in range(ORDERS)])
    rank = np.argsort(np.concatenate([orders, orders[:, ::-1]]), axis=1)
    known = rank[:, None, :] < np.arange(count + 1)[None, :, None]
    value = logits(torch.from_numpy(known.reshape(-1, count))).numpy().reshape(len(rank), count + 1)
    return np.asarray(np.take_along_axis(np.diff(value, axis=1), rank, axis=1).mean(axis=0))
