"""Chunking: rows in order of time, in blocks of any size -> chunks that end between instants, as in `Events.chunks`.

Rows are a named tuple of columns of equal length, of dicts of such columns, or None; one column is called `time`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from tapgnn.events import Floats

Rows = TypeVar("Rows", bound=Any)


def take_rows(rows: Rows, chosen: Any) -> Rows:
    """Some of the rows, by slice, mask or positions."""
    taken: Rows = type(rows)(*(_taken(column, chosen) for column in rows))
    return taken


def _taken(column: Any, chosen: Any) -> Any:
    if isinstance(column, dict):
        return {name: each[chosen] for name, each in column.items()}
    return None if column is None else column[chosen]


def join_rows(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts, in order."""
    columns = zip(*parts, strict=True)
    joined: Rows = type(parts[0])(*(_joined(column) for column in columns))
    return joined


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], dict):
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return None if parts[0] is None else np.concatenate(parts)


def cut_between_instants(blocks: Iterable[Rows], size: int) -> Iterator[Rows]:
    """Chunks of at least `size` rows (the last may be smaller); an instant may continue in the next block."""
    held: list[Rows] = []
    for block in blocks:
        held.append(block)
        if sum(len(part.time) for part in held) > size:
            rest = join_rows(held)
            while (stop := _border(rest.time, size)) < len(rest.time):
                yield take_rows(rest, slice(stop))
                rest = take_rows(rest, slice(stop, None))
            held = [rest]
    rest = join_rows(held)
    while len(rest.time):
        stop = _border(rest.time, size)
        yield take_rows(rest, slice(stop))
        rest = take_rows(rest, slice(stop, None))


def _border(time: Floats, size: int) -> int:
    """The first border between instants at or after `size` rows, or the end."""
    return int(np.searchsorted(time, time[min(size, len(time)) - 1], side="right"))
