"""Why a link has its score: what each past event of its two nodes did to it.

    effect(e)     logit - logit without e: the rows of both nodes without what e added to them (see `leave_one_out`).
                  Exact at this level; what lower layers and third nodes had learnt from e stays.
    share(e)      effect(e) over the sum of all absolute effects
    embedding(e)  what e adds to the logit through the last layer's reading alone, along the straight path from empty
                  sums: added(e) . mean over the path of d logit / d reading, so that
                  logit = base + older + sum over e of embedding(e)

A node with no event in the window is taken as it is. Events that the engine holds back are explained like all others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tapgnn.data.reading.cells import plain_value
from tapgnn.model import Model
from tapgnn.model.features.node_statistics import COUNT, both_roles
from tapgnn.online.answers import Cause, Explanation
from tapgnn.online.explain.event_window import Excerpt
from tapgnn.online.explain.leave_one_out import NodeHistory
from tapgnn.online.explain.moment import Moment

PATH = 128


def explain(model: Model, moment: Moment, history: Excerpt, limit: int = 20, names: Sequence[str] = ()) -> Explanation:
    """The `limit` events of a history (its cells have these names) that moved the score of a link most."""
    sides, size = both_sides(model, moment, history), len(history.time)
    with torch.no_grad():
        (left, fine), (right, good) = (side.without() for side in sides)
        logits, exact = model.link_rows(left.with_right(right), 1 + size)[:, 0].double(), fine & good
    base, moved = _embedding_effects(model, sides, size)
    causes = strongest_causes(history, logits, exact, moved[:size], limit, names)
    logit, total = float(logits[0]), _count_events(history, sides)
    score = float(torch.sigmoid(logits[0]))
    return Explanation(
        moment.src, moment.dst, moment.time, score, score, logit, base, float(moved[-1]), causes, size, total
    )


@torch.no_grad()
def both_sides(model: Model, moment: Moment, history: Excerpt) -> list[NodeHistory]:
    """The histories of the source and of the destination."""
    nodes = zip((moment.src, moment.dst), moment.ends, strict=True)
    return [NodeHistory(model, history, node, past, moment.state.take([end])) for end, (node, past) in enumerate(nodes)]


def strongest_causes(
    history: Excerpt, logits: Tensor, exact: Tensor, embedding: Tensor | None, limit: int, names: Sequence[str]
) -> list[Cause]:
    """Past events by what they did to a logit: the first of logits [1 + n], then without each event."""
    effect = (logits[0] - logits[1:]).numpy()
    share, without = effect / (np.abs(effect).sum() or 1.0), torch.sigmoid(logits[1:]).numpy()
    order = np.argsort(-np.abs(effect), kind="stable")[:limit]
    parts = np.full(len(effect), None) if embedding is None else embedding.numpy()
    cells = np.array([dict(zip(names, map(plain_value, row), strict=True)) for row in history.cells], dtype=object)
    columns = (history.src, history.dst, history.time, effect, share, parts, without, exact.numpy(), cells)
    return [Cause(*values) for values in zip(*(column[order].tolist() for column in columns), strict=True)]


def _count_events(history: Excerpt, sides: list[NodeHistory]) -> int:
    """Past events of the two nodes; those between them reached both, as far as they are remembered."""
    nodes = {side.node for side in sides}
    received = sum(int(both_roles(side.statistics, COUNT).sum()) for side in sides[: len(nodes)])
    twice = [src in nodes and dst in nodes for src, dst in zip(history.src, history.dst, strict=True)]
    return received - sum(twice)


def _embedding_effects(model: Model, sides: list[NodeHistory], size: int) -> tuple[float, Tensor]:
    """The logit with empty sums in the last layer, and what each event [n] and, last, all older ones add to it."""
    edges = torch.linspace(0.0, 1.0, PATH + 1, dtype=torch.float64)
    alpha = torch.cat([edges, (edges[1:] + edges[:-1]) / 2]).unsqueeze(1)
    readings, pasts, shares = [], [], []
    for side in sides:
        rows = side.past.repeated(len(alpha))
        if len(side.messages):
            with torch.no_grad():
                read, share, older = side.reading()
            reading = (alpha * read).requires_grad_()
            with torch.enable_grad():
                rows = rows._replace(embedding=side.finish_read(reading))
            readings.append(reading)
            shares.append(torch.cat([share, older.unsqueeze(0)]))
        pasts.append(rows)
    with torch.enable_grad():
        logits = model.link_rows(pasts[0].with_right(pasts[1]), len(alpha))[:, 0].double()
        gradients = torch.autograd.grad(logits[PATH + 1 :].sum(), readings) if readings else ()
    steps = torch.zeros(PATH, size + 1, dtype=torch.float64)
    for gradient, share in zip(gradients, shares, strict=True):
        steps += gradient[PATH + 1 :] @ share.T / PATH
    return float(logits[0].detach()), _completed(steps, logits[: PATH + 1].detach().diff())


def _completed(steps: Tensor, whole: Tensor) -> Tensor:
    """[m] the sums of steps [p, m], whose rows are made to add up to whole [p].

    Where the path bends within a step, what its slope misses is shared out by the size of the parts.
    """
    # A step on which no slope is felt goes by the sizes along the whole path.
    size = steps.abs() + 1e-12 * steps.abs().sum(dim=0)
    missing = (whole - steps.sum(dim=1)).unsqueeze(1)
    part = size / size.sum(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    return (steps + missing * part).sum(dim=0)
