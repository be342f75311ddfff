"""Chunking: rows in order of time, in blocks of any size -> chunks that end between instants, as in `Events.chunks`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np

from tapgnn.events import Floats


class TimedRows(Protocol):
    """Columns of equal length, one of them the time [E]."""

    @property
    def time(self) -> Floats:
        """The time [E] of each row, ascending."""

    def take(self, rows: slice) -> Any:
        """Some of the rows."""


T = TypeVar("T", bound=TimedRows)


def cut_between_instants(blocks: Iterable[T], size: int, join: Callable[[list[T]], T]) -> Iterator[T]:
    """Chunks of at least `size` rows (the last may be smaller); an instant may continue in the next block."""
    held: list[T] = []
    for block in blocks:
        held.append(block)
        if sum(len(part.time) for part in held) > size:
            rest = join(held)
            while (stop := _border(rest.time, size)) < len(rest.time):
                yield rest.take(slice(stop))
                rest = rest.take(slice(stop, None))
            held = [rest]
    rest = join(held)
    while len(rest.time):
        stop = _border(rest.time, size)
        yield rest.take(slice(stop))
        rest = rest.take(slice(stop, None))


def _border(time: Floats, size: int) -> int:
    """The first border between instants at or after `size` rows, or the end."""
    return int(np.searchsorted(time, time[min(size, len(time)) - 1], side="right"))
