"""Scores along a stream: every query sees the events strictly before its time, in one pass of `advance`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.events import Events, Floats, Ints
from tapgnn.model import Model, State, Trace

CHUNK = 2_048
Answer = Callable[[State | Trace, Ints], Tensor]


def ask_along(model: Model, state: State, events: Events, time: Floats, answer: Answer, chunk: int) -> State:
    """Absorb the events; for each chunk, hand the trace and the queries [q] that fall into it to `answer`.

    Queries may come in any order; those after the last event are answered from the state that is returned.
    """
    order = np.argsort(time, kind="stable")
    asked = time[order]
    done = 0
    for piece in events.chunks(chunk):
        until = int(np.searchsorted(asked, piece.time[-1], side="right"))
        trace, state = model.advance(piece, state)
        if until > done:
            answer(trace, order[done:until])
            done = until
    if done < len(order):
        answer(state, order[done:])
    return state


@torch.no_grad()
def score_along(
    model: Model, state: State, events: Events, src: Ints, dst: Ints, time: Floats, chunk: int = CHUNK
) -> tuple[NDArray[np.float64], State]:
    """Logits [Q] of queries along a stream, and the state at its end."""
    scores = np.empty(len(time))

    def answer(where: State | Trace, rows: Ints) -> Tensor:
        logits = model.score(where, src[rows], dst[rows], time[rows])
        scores[rows] = logits.double().numpy(force=True)
        return logits

    state = ask_along(model, state, events, time, answer, chunk)
    return scores, state


@torch.no_grad()
def represent_along(
    model: Model, state: State, events: Events, node: Ints, time: Floats, chunk: int = CHUNK
) -> tuple[NDArray[np.float32], State]:
    """z(v,t) [Q, d] of queries along a stream, and the state at its end."""
    rows_of = np.empty((len(time), model.config.width), dtype=np.float32)

    def answer(where: State | Trace, rows: Ints) -> Tensor:
        z = model.query(where, node[rows], time[rows])
        rows_of[rows] = z.float().numpy(force=True)
        return z

    state = ask_along(model, state, events, time, answer, chunk)
    return rows_of, state
