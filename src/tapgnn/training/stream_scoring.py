"""Scores along a stream: every query sees the events strictly before its time, in one pass of `advance`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.events import Events, Floats, Ints
from tapgnn.model import Model, State, Trace
from tapgnn.model.heads import Question
from tapgnn.model.trace import whole_batches

CHUNK = 2_048
# Candidates that are described at once; measured: more of them are slower.
BLOCK = 8_192
Answer = Callable[[State | Trace, Ints], Tensor]


@torch.no_grad()
def ask_along(
    model: Model,
    state: State,
    events: Events,
    time: Floats,
    answer: Answer,
    answers: NDArray[Any],
    chunk: int = CHUNK,
    lag: int = 0,
) -> State:
    """Absorb the events; fill answers [Q, ...] with what `answer` says to the trace of a chunk and its queries [q].

    Queries may come in any order; those after the last event are answered from the state that is returned.
    """
    order = np.argsort(time, kind="stable")
    asked = time[order]
    done = 0
    for piece in events.chunks(whole_batches(chunk, lag)):
        until = int(np.searchsorted(asked, piece.time[-1], side="right"))
        trace, state = model.advance(piece, state)
        trace.lag = lag
        if until > done:
            answers[order[done:until]] = answer(trace, order[done:until]).numpy(force=True)
            done = until
    if done < len(order):
        answers[order[done:]] = answer(state, order[done:]).numpy(force=True)
    return state


def score_along(
    model: Model,
    state: State,
    events: Events,
    src: Ints,
    dst: Ints,
    time: Floats,
    chunk: int = CHUNK,
    question: Question = "destination",
) -> tuple[NDArray[np.float64], State]:
    """Logits [Q] of queries along a stream, and the state at its end."""
    scores = np.empty(len(time))

    def answer(where: State | Trace, rows: Ints) -> Tensor:
        return model.score(where, src[rows], dst[rows], time[rows], question)

    return scores, ask_along(model, state, events, time, answer, scores, chunk)


def rank_along(
    model: Model, state: State, events: Events, src: Ints, candidates: Ints, time: Floats, lag: int = 0
) -> tuple[NDArray[np.float64], State]:
    """Logits [Q, n] of each source [Q] with each of its candidates [Q, n] along a stream, and the state at its end."""
    scores = np.empty(candidates.shape)

    def answer(where: State | Trace, rows: Ints) -> Tensor:
        return rank_candidates(model, where, src[rows], candidates[rows], time[rows])

    return scores, ask_along(model, state, events, time, answer, scores, lag=lag)


@torch.no_grad()
def rank_candidates(model: Model, where: State | Trace, src: Ints, candidates: Ints, time: Floats) -> Tensor:
    """Logits [Q, n]; every source is described once, and few rows at a time, so that they stay in the cache."""
    count = candidates.shape[1]
    found = []
    for start in range(0, len(src), max(1, BLOCK // max(count, 1))):
        rows = slice(start, start + max(1, BLOCK // max(count, 1)))
        left = len(src[rows])
        node = np.concatenate([src[rows], candidates[rows].T.ravel()])
        past = model.past(where, node, np.tile(time[rows], 1 + count))
        found.append(model.link(past, left).reshape(count, left).T)
    return torch.cat(found) if found else torch.empty(candidates.shape)


def represent_along(
    model: Model, state: State, events: Events, node: Ints, time: Floats, chunk: int = CHUNK
) -> tuple[NDArray[np.float32], State]:
    """z(v,t) [Q, d] of queries along a stream, and the state at its end."""
    z = np.empty((len(time), model.config.width), dtype=np.float32)

    def answer(where: State | Trace, rows: Ints) -> Tensor:
        return model.query(where, node[rows], time[rows])

    return z, ask_along(model, state, events, time, answer, z, chunk)
