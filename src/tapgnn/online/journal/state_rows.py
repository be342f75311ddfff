"""Rows of a state on the CPU as bytes: the rows of a node in all arenas, one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import StateError
from tapgnn.events import Bools, Ints
from tapgnn.model import Model, State
from tapgnn.model.state import ARENAS
from tapgnn.vocabulary import Id, Vocabulary

BLOCK = 4_096


def row_layout(state: State) -> list[list[Any]]:
    """What the bytes of a row mean: name, columns and type of each arena."""
    return [[name, getattr(state, name).shape[1], str(getattr(state, name).dtype)] for name in ARENAS]


def row_width(state: State) -> int:
    """The bytes of a row."""
    return sum(arena.shape[1] * arena.itemsize for arena in state.arrays())


def pack_rows(state: State, nodes: Ints) -> NDArray[np.uint8]:
    """[n, w] the bytes of some nodes."""
    # Plain indexing keeps the interpreter's lock: a query of a few rows is not interrupted between arenas.
    packed = np.empty((len(nodes), row_width(state)), np.uint8)
    start = 0
    for arena in state.arrays():
        part = arena[nodes + 1].view(np.uint8)
        packed[:, start : start + part.shape[1]] = part
        start += part.shape[1]
    return packed


def unpack_rows(state: State, nodes: Ints, packed: NDArray[np.uint8]) -> None:
    """Write the bytes of some nodes into the arenas."""
    if not len(nodes):
        return
    if row_width(state) != packed.shape[1]:
        raise StateError(f"rows of {packed.shape[1]} bytes do not fit a state with rows of {row_width(state)}")
    start = 0
    for arena in state.arrays():
        width = arena.shape[1] * arena.itemsize
        arena[nodes + 1] = np.ascontiguousarray(packed[:, start : start + width]).view(arena.dtype)
        start += width


def grown(mask: Bools, size: int) -> Bools:
    """A mask of rows, made longer where there are more rows by now."""
    return mask if len(mask) == size else np.append(mask, np.zeros(size - len(mask), dtype=bool))


def clear_rows(model: Model, state: State, nodes: Ints, ids: Sequence[Id]) -> None:
    """Make rows those of nodes without history that have these ids."""
    blank = model.empty_state()
    blank.admit(Vocabulary(ids))
    unpack_rows(state, nodes, pack_rows(blank, np.arange(len(ids))))


def hash_rows(state: State, nodes: Ints) -> bytes:
    """The sha256 of the bytes of some nodes."""
    digest = hashlib.sha256()
    for start in range(0, len(nodes), BLOCK):
        digest.update(pack_rows(state, nodes[start : start + BLOCK]).data)
    return digest.digest()
