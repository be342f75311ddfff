"""Rows of a state on the CPU as bytes: the rows of a node in all arenas, one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
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


def pack_rows(state: State, nodes: Ints) -> NDArray[np.uint8]:
    """[n, w] the bytes of some nodes."""
    # Plain indexing keeps the interpreter's lock: a query of a few rows is not interrupted between arenas.
    parts = [arena[nodes + 1] for arena in state.arrays()]
    return np.concatenate(
        [part.view(np.uint8).reshape(len(nodes), part.shape[1] * part.itemsize) for part in parts], axis=1
    )


def unpack_rows(state: State, nodes: Ints, packed: NDArray[np.uint8]) -> None:
    """Write the bytes of some nodes into the arenas."""
    widths = [arena.shape[1] * arena.itemsize for arena in state.arrays()]
    if sum(widths) != packed.shape[1]:
        raise StateError(f"rows of {packed.shape[1]} bytes do not fit a state with rows of {sum(widths)}")
    start = 0
    for arena, width in zip(state.arrays(), widths, strict=True):
        content = packed[:, start : start + width].reshape(-1).copy()
        arena[nodes + 1] = content.view(arena.dtype).reshape(len(nodes), arena.shape[1])
        start += width


def row_slices(packed: NDArray[np.uint8]) -> Iterator[memoryview]:
    """The bytes of each row, without a copy."""
    width, whole = packed.shape[1], packed.reshape(-1).data
    for start in range(0, len(whole), width):
        yield whole[start : start + width]


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
