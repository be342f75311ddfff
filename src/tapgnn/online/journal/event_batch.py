"""A batch: events that arrive together, checked, in the order in which they were sent, and their bytes in a journal.

A batch holds what was sent, in the words of the table: numbers as they are, categories as texts, gaps as gaps, and the
id of the event and the columns that the model drops, cell by cell. What a model makes of them is computed when the
batch is applied, so that a journal can be replayed into a model with other columns. The ids are numbered within the
batch, so that a batch means the same whatever else the journal holds. An event keeps its index in the batch for good:
where others were taken out, `index` says which are left.

    tgb3   header, a JSON list [ids, columns, kept], then time, src, dst, the columns (<f8, or codes of the texts, 0
           where missing), labels and index. columns: [name, null for a number, true for a boolean, or the texts of a
           category]; kept: [name, cells]
    tgb2   before: no kept columns, and booleans are numbers
    tgb1   before that: features [E, f] in float32 instead of columns, which are read as f0, f1, ...
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import JournalError
from tapgnn.events import Columns, Floats, Ints
from tapgnn.online.journal.record import Record
from tapgnn.vocabulary import Id

_HEADER = struct.Struct("<4sIIIHBB")
_MAGIC, _UNKEPT, _PLAIN = b"tgb3", b"tgb2", b"tgb1"
_NUMBERS = {1: "<u1", 2: "<u2", 4: "<u4"}
_LABELS, _INDEX = 1, 2


@dataclass(frozen=True)
class EventBatch:
    """`src`, `dst` [E] positions in `ids`, `time` [E], `columns` by name, `labels` [E]; `index` [E] where not 0, 1..

    Columns are as in `Events`: numbers [E] in float64, NaN where missing, or categories [E], strings or None. One that
    is missing in every event is left out, and the others are in order of their names.

    booleans   the columns whose 1 and 0 stand for true and false
    kept       the id of the event and dropped columns by name: cells [E] as JSON has them, None where missing
    """

    ids: Sequence[Id]
    src: Ints
    dst: Ints
    time: Floats
    columns: Columns = field(default_factory=dict)
    labels: Ints | None = None
    index: Ints | None = None
    booleans: frozenset[str] = frozenset()
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time)

    def sent_index(self) -> Ints:
        """[E] the index of each event in the batch as it was sent."""
        return np.arange(len(self)) if self.index is None else self.index

    def size_in_memory(self) -> int:
        """About the bytes that the batch takes: its arrays, and each of its texts once."""
        cells = [self.ids, *(column for column in self.columns.values() if column.dtype == object), *self.kept.values()]
        texts = sum(len(text) for column in cells for text in {*map(str, column)})
        arrays = (self.src, self.dst, self.time, *self.columns.values())
        return texts + sum(array.nbytes for array in arrays)

    def name(self, row: int) -> str:
        """An event as it is named in messages."""
        ends = f"{self.ids[self.src[row]]!r} -> {self.ids[self.dst[row]]!r}"
        return f"event {self.sent_index()[row]} ({ends} at {self.time[row]})"

    def keep(self, rows: NDArray[np.bool_] | slice) -> EventBatch:
        """Only some events, with the indices that they had; ids and texts that are then in no event are gone."""
        ids, src, dst = renumbered(self.ids, self.src[rows], self.dst[rows])
        columns = {name: column[rows] for name, column in self.columns.items()}
        labels = None if self.labels is None else self.labels[rows]
        left = np.arange(len(self))[rows].tolist()
        kept = {name: [cells[row] for row in left] for name, cells in self.kept.items()}
        return EventBatch(ids, src, dst, self.time[rows], columns, labels, self.sent_index()[rows], self.booleans, kept)

    def keeping(self, name: str | None) -> EventBatch:
        """The batch with only this one of the columns that no model takes."""
        if self.kept.keys() <= {name}:
            return self
        return replace(self, kept={own: cells for own, cells in self.kept.items() if own == name})

    def payload(self) -> bytes:
        """The bytes of the batch; the same batch has the same bytes."""
        size = _width(len(self.ids))
        parts: list[NDArray[Any]] = [self.time.astype("<f8")]
        parts += [ends.astype(_NUMBERS[size]) for ends in (self.src, self.dst)]
        named: list[tuple[str, list[str] | bool | None]] = []
        for name, column in self.columns.items():
            texts, codes = _coded(column) if column.dtype == object else (None, column.astype("<f8"))
            named.append((name, True if name in self.booleans else texts))
            parts.append(codes)
        parts += [column.astype("<i8") for column in (self.labels, self.index) if column is not None]
        text = json.dumps([list(self.ids), named, list(self.kept.items())], separators=(",", ":")).encode()
        flags = (_LABELS if self.labels is not None else 0) | (_INDEX if self.index is not None else 0)
        header = _HEADER.pack(_MAGIC, len(self), len(self.ids), len(text), len(named), size, flags)
        return b"".join([header, text, *(part.tobytes() for part in parts)])

    @classmethod
    def read(cls, payload: bytes) -> EventBatch:
        """What `payload` wrote, now or in a format before."""
        try:
            magic, events, count, length, width, size, flags = _HEADER.unpack_from(payload)
            text = json.loads(payload[_HEADER.size : _HEADER.size + length])
            arrays = _PayloadReader(payload, events, _HEADER.size + length)
            time, src, dst = arrays.floats(), *(arrays.integers(_NUMBERS[size]) for _ in range(2))
            booleans, kept = frozenset[str](), dict[str, Any]()
            if magic == _PLAIN:
                ids, columns = text, feature_columns(arrays.take("<f4", width).reshape(events, width))
            elif magic in (_MAGIC, _UNKEPT):
                ids, named, *more = text
                kept = dict(*more)
                if len(named) != width or any(len(cells) != events for cells in kept.values()):
                    raise ValueError("the number of columns or of their cells is wrong")
                columns = {name: arrays.column(texts) for name, texts in named}
                booleans = frozenset(name for name, texts in named if texts is True)
            else:
                raise ValueError(f"its format is {magic!r}")
            labels, index = (arrays.integers("<i8") if flags & bit else None for bit in (_LABELS, _INDEX))
        except (struct.error, ValueError, KeyError, TypeError, IndexError) as error:
            raise JournalError(f"a batch cannot be read ({error}); restore the journal from a copy") from None
        if arrays.place != len(payload) or len(ids) != count:
            raise JournalError("a batch has the wrong size or form; restore the journal from a copy")
        return cls(ids, src, dst, time, columns, labels, index, booleans, kept)

    def is_same(self, payload: bytes) -> bool:
        """Whether the bytes of an earlier batch hold these very events.

        Columns that only one of the two has, or that have become of another kind, are not compared: a journal may have
        moved to a model with other columns in the meantime.
        """
        earlier = EventBatch.read(payload)
        common = [name for name in self.kept if name in earlier.kept]
        for name, column in self.columns.items():
            if name in earlier.columns and column.dtype == earlier.columns[name].dtype:
                common.append(name)
        # The first format kept numbers in float32.
        kind = "<f4" if payload.startswith(_PLAIN) else "<f8"
        return self._restricted(common, kind).payload() == earlier._restricted(common, kind).payload()

    def _restricted(self, names: Sequence[str], kind: str) -> EventBatch:
        """The batch with these columns only, their numbers rounded to a type, and ids in order of appearance."""
        ids, src, dst = renumbered(self.ids, self.src, self.dst)
        columns = {name: self.columns[name] for name in names if name in self.columns}
        rounded = {name: cells if cells.dtype == object else cells.astype(kind) for name, cells in columns.items()}
        kept = {name: self.kept[name] for name in names if name in self.kept}
        return EventBatch(ids, src, dst, self.time, rounded, self.labels, self.index, kept=kept)


class _PayloadReader:
    """The arrays of a payload, one after the other."""

    def __init__(self, payload: bytes, events: int, place: int) -> None:
        self.payload, self.events, self.place = payload, events, place

    def take(self, kind: str, each: int = 1) -> NDArray[Any]:
        found = np.frombuffer(self.payload, kind, self.events * each, self.place)
        self.place += found.nbytes
        return found

    def floats(self) -> Floats:
        return self.take("<f8").astype(np.float64)

    def integers(self, kind: str) -> Ints:
        return self.take(kind).astype(np.int64)

    def column(self, texts: Any) -> NDArray[Any]:
        """Numbers, or the texts that codes stand for."""
        if texts is None or texts is True:
            return self.floats()
        known: NDArray[Any] = np.array([None, *texts], dtype=object)
        found: NDArray[Any] = known[self.take(_NUMBERS[_width(len(known))])]
        return found


def feature_columns(features: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Plain features [E, f] as the columns f0, f1, ..., in order of their names."""
    places = sorted(range(features.shape[1]), key=str)
    return {f"f{place}": features[:, place].astype(np.float64) for place in places}


def _width(count: int) -> int:
    """Bytes of a number below `count`."""
    return next(size for size in _NUMBERS if count <= 1 << (8 * size))


def _coded(column: NDArray[Any]) -> tuple[list[str], NDArray[Any]]:
    """The distinct texts of a category in order of appearance, and the code [E] of each cell, 0 where missing."""
    place: dict[str | None, int] = {None: 0}
    codes = [place.setdefault(cell, len(place)) for cell in column.tolist()]
    return [cell for cell in place if cell is not None], np.array(codes, dtype=_NUMBERS[_width(len(place))])


def renumbered(ids: Sequence[Id], src: Ints, dst: Ints) -> tuple[list[Id], Ints, Ints]:
    """The ids that are at an end, those of sources first, in order of appearance, and the place of each end there."""
    used, first, place = np.unique(np.concatenate([src, dst]), return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    ends = rank[place.reshape(-1)]
    return [ids[number] for number in used[order].tolist()], ends[: len(src)], ends[len(src) :]


def batch_in(record: Record) -> EventBatch | None:
    """The events of a record, None for a record of another kind."""
    return EventBatch.read(record.payload) if record.kind.holds_events else None
