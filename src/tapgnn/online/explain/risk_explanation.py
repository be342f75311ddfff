"""Why an event is risky: what each part of what is known of it adds to the log-odds of the rare label.

    log-odds = base + sum over parts of share        a part: a column of the event, the pair, or the history of one end

A share is the Shapley value of its part: what it adds once it is known, on average over the orders in which the parts
become known. A part that is not known has its typical values, those of the average training event, whose log-odds are
the base. Shares are exact for few parts; for many the orders are a sample, each with its reverse, and the shares still
add up. Within a part, facts are told by what the log-odds lose when each alone is made typical.

Past events are weighed as those of a link are (`leave_one_out`): log-odds minus those without the event. What the nodes
remember of their partners stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import factorial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.events import Floats
from tapgnn.model import Model
from tapgnn.model.differentiable import Differentiable
from tapgnn.model.event_classifier import FactClassifier, dense_features, dense_widths
from tapgnn.online.answers import Cause, RiskExplanation, RiskFact, RiskPart
from tapgnn.online.explain.event_window import Excerpt
from tapgnn.online.explain.leave_one_out import NodeHistory

SOURCE, DESTINATION, PAIR = "history of the source", "history of the destination", "the pair"
# Up to so many parts every subset is weighed; beyond, so many orders and their reverses.
FEW_PARTS, ORDERS = 10, 64
MOST_FACTS = 3

Logits = Callable[[Tensor], Tensor]


@torch.no_grad()
def explain_risk(
    model: Model,
    classifier: FactClassifier,
    table: FittedSchema,
    sides: tuple[Excerpt, list[NodeHistory]],
    features: NDArray[np.float32] | None,
    limit: int = 20,
) -> RiskExplanation:
    """Why the event between two nodes, with these features [1, f], has its risk; `sides` as `find_sides` gives them."""
    history, (source, destination) = sides
    (left, fine), (right, good) = source.without(), destination.without()
    given = None
    if features is not None:
        given = torch.from_numpy(dense_features(features, model.config)).to(model.dtype).expand(len(left.node), -1)
    rows, _ = Differentiable(model).describe_rows(left.with_right(right), given)
    logits = classifier(rows).double()
    parts = description_parts(model, list(table.encoder.numbers), list(table.encoder.categories))
    names = [name for group in model.description.values() for name in group]
    logit, base, found = share_out(classifier, rows[:1], parts, names)
    effect = (logits[0] - logits[1:]).numpy()
    share, without = effect / (np.abs(effect).sum() or 1.0), torch.sigmoid(logits[1:]).numpy()
    order = np.argsort(-np.abs(effect), kind="stable")[:limit]
    columns = (
        history.src,
        history.dst,
        history.time,
        effect,
        share,
        np.zeros(len(effect)),
        without,
        (fine & good).numpy(),
    )
    causes = [Cause(*values) for values in zip(*(column[order].tolist() for column in columns), strict=True)]
    time = float(left.time[0])
    risk = float(torch.sigmoid(logits[0]))
    return RiskExplanation(source.node, destination.node, time, risk, logit, base, found, causes)


def description_parts(model: Model, numbers: Sequence[str], categories: Sequence[str]) -> dict[str, list[int]]:
    """The columns of a description by part, for a table with these columns."""
    names = [name for group in model.description.values() for name in group]
    first = len(names) - len(model.description["features"])
    parts: dict[str, list[int]] = {SOURCE: [], DESTINATION: [], PAIR: []}
    for column, name in enumerate(names[:first]):
        part = SOURCE if name.startswith("source_") else DESTINATION if name.startswith("destination_") else PAIR
        parts[part].append(column)
    given, *codes = dense_widths(model.config)
    each = given // max(len(numbers), 1)
    for place, name in enumerate(numbers):
        parts[name] = list(range(first + place * each, first + (place + 1) * each))
    start = first + given
    for name, width in zip(categories, codes, strict=True):
        parts[name] = list(range(start, start + width))
        start += width
    return parts


@torch.no_grad()
def share_out(
    classifier: FactClassifier, row: Tensor, parts: Mapping[str, Sequence[int]], names: Sequence[str]
) -> tuple[float, float, list[RiskPart]]:
    """The log-odds of an event, the base, and the parts, strongest first, of its description row [1, D]."""
    encoded, size = classifier.encode(row)[0], classifier.low.shape[1] + 1
    used = {column: place for place, column in enumerate(classifier.used.tolist())}
    part_of = torch.full((len(used),), -1)
    for number, columns in enumerate(parts.values()):
        part_of[[used[column] for column in columns if column in used]] = number
    part_of = part_of.repeat_interleave(size)

    def ask(rows: Tensor) -> Tensor:
        return (classifier.members(rows).mean(dim=0) + classifier.shift).double()

    def logits(known: Tensor) -> Tensor:
        """[n] the log-odds where these parts [n, P] are known."""
        shown = (part_of < 0) | known[:, part_of.clamp(min=0)]
        return ask(torch.where(shown, encoded, classifier.typical))

    base, logit = logits(torch.tensor([[False] * len(parts), [True] * len(parts)])).tolist()
    shares = (_all_subsets if len(parts) <= FEW_PARTS else _sampled_orders)(logits, len(parts))
    alone = torch.arange(len(used)).unsqueeze(1) == torch.arange(len(used)).repeat_interleave(size)
    effects = logit - ask(torch.where(alone, classifier.typical, encoded))
    found = []
    for (name, columns), share in zip(parts.items(), shares.tolist(), strict=True):
        there = [column for column in columns if column in used]
        order = sorted(there, key=lambda column: -abs(float(effects[used[column]])))[:MOST_FACTS]
        facts = [RiskFact(names[column], _known(row[0, column]), float(effects[used[column]])) for column in order]
        found.append(RiskPart(name, share, facts))
    return logit, base, sorted(found, key=lambda part: -abs(part.share))


def _known(value: Tensor) -> float | None:
    return None if bool(value.isnan()) else float(value)


def _all_subsets(logits: Logits, count: int) -> Floats:
    """Shapley values [P] from all subsets of the parts."""
    subset = np.arange(1 << count)
    member = (subset[:, None] >> np.arange(count)) & 1 == 1
    value, size = logits(torch.from_numpy(member)).numpy(), member.sum(axis=1)
    weight = np.array([factorial(s) * factorial(count - s - 1) / factorial(count) for s in range(count)])
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
