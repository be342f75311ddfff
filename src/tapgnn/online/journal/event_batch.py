"""A batch: events that arrive together, checked, in the order in which they were sent, and their bytes in a journal.

The ids are numbered within the batch, so that a batch means the same whatever else the journal holds. An event keeps
its index in the batch for good: where others were taken out, `index` says which are left.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import EventError, JournalError
from tapgnn.events import Events, Floats, Ints, checked_features, checked_ids, checked_labels, checked_times
from tapgnn.model import Config
from tapgnn.online.journal.record import Kind, Record
from tapgnn.vocabulary import Id

Arriving = Events | Mapping[str, Any] | Sequence[Any]

COLUMNS = ("src", "dst", "time", "features", "label")
ID_LENGTH = 1_000
# Beyond these, sums and squares of sums would leave the range of float32.
FEATURE_LIMIT = 1e12
SPAN_LIMIT = 1e12

_HEADER = struct.Struct("<4sIIIHBB")
_MAGIC = b"tgb1"
_NUMBERS = {1: "<u1", 2: "<u2", 4: "<u4"}
_LABELS, _INDEX = 1, 2


@dataclass(frozen=True)
class EventBatch:
    """`src`, `dst` [E] positions in `ids`, `time` [E], `features` [E, f], `labels` [E]; `index` [E] where not 0, 1.."""

    ids: Sequence[Id]
    src: Ints
    dst: Ints
    time: Floats
    features: NDArray[np.float32] | None = None
    labels: Ints | None = None
    index: Ints | None = None

    @classmethod
    def of(cls, events: Arriving, config: Config) -> EventBatch:
        """Check what arrived against what a model takes; what does not fit is an EventError that names the event."""
        batch = _from_events(events) if isinstance(events, Events) else _from_columns(_columns(events))
        if len(batch) == 0:
            raise EventError("there are no events; at least one row is needed")
        if batch.feature_width != config.feature_width:
            raise EventError(
                f"row 0: the model expects {config.feature_width} features per event, this batch has "
                f"{batch.feature_width}; send the features that the model was trained with"
            )
        _check_ids(batch)
        _check_range(batch, config)
        return batch

    def __len__(self) -> int:
        return len(self.time)

    @property
    def feature_width(self) -> int:
        """The number of features of an event, 0 where there are none."""
        return 0 if self.features is None else self.features.shape[1]

    def sent_index(self) -> Ints:
        """[E] the index of each event in the batch as it was sent."""
        return np.arange(len(self)) if self.index is None else self.index

    def name(self, row: int) -> str:
        """An event as it is named in messages."""
        ends = f"{self.ids[self.src[row]]!r} -> {self.ids[self.dst[row]]!r}"
        return f"event {self.sent_index()[row]} ({ends} at {self.time[row]})"

    def keep(self, rows: NDArray[np.bool_] | slice) -> EventBatch:
        """Only some events, with the indices that they had; ids that are then in no event are gone."""
        ends = np.stack([self.src[rows], self.dst[rows]], axis=1).ravel()
        used, place = np.unique(ends, return_inverse=True)
        return EventBatch(
            [self.ids[number] for number in used.tolist()],
            place[0::2],
            place[1::2],
            self.time[rows],
            None if self.features is None else self.features[rows],
            None if self.labels is None else self.labels[rows],
            self.sent_index()[rows],
        )

    def payload(self) -> bytes:
        """The bytes of the batch; the same batch has the same bytes."""
        names = json.dumps(list(self.ids), separators=(",", ":")).encode()
        size = next(size for size in _NUMBERS if len(self.ids) <= 1 << (8 * size))
        flags = (_LABELS if self.labels is not None else 0) | (_INDEX if self.index is not None else 0)
        header = _HEADER.pack(_MAGIC, len(self), len(self.ids), len(names), self.feature_width, size, flags)
        numbers = _NUMBERS[size]
        columns: list[NDArray[Any]] = [self.time.astype("<f8"), self.src.astype(numbers), self.dst.astype(numbers)]
        if self.features is not None:
            columns.append(self.features.astype("<f4"))
        columns.extend(column.astype("<i8") for column in (self.labels, self.index) if column is not None)
        return b"".join([header, names, *(column.tobytes() for column in columns)])

    @classmethod
    def read(cls, payload: bytes) -> EventBatch:
        """What `payload` wrote."""
        try:
            magic, events, ids, length, width, size, flags = _HEADER.unpack_from(payload)
            place = _HEADER.size + length
            columns = []
            wanted = [("<f8", 1), (_NUMBERS[size], 1), (_NUMBERS[size], 1), ("<f4", width)]
            wanted += [("<i8", 1 if flags & bit else 0) for bit in (_LABELS, _INDEX)]
            for kind, each in wanted:
                columns.append(np.frombuffer(payload, kind, events * each, place))
                place += columns[-1].nbytes
            names = json.loads(payload[_HEADER.size : _HEADER.size + length])
        except (struct.error, ValueError, KeyError) as error:
            raise JournalError(f"a batch cannot be read ({error}); restore the journal from a copy") from None
        if magic != _MAGIC or place != len(payload) or len(names) != ids:
            raise JournalError("a batch has the wrong size or form; restore the journal from a copy")
        time, src, dst, features, labels, index = columns
        return cls(
            names,
            src.astype(np.int64),
            dst.astype(np.int64),
            time.astype(np.float64),
            features.astype(np.float32).reshape(events, width) if width else None,
            labels.astype(np.int64) if flags & _LABELS else None,
            index.astype(np.int64) if flags & _INDEX else None,
        )


def batch_in(record: Record) -> EventBatch | None:
    """The events of a record, None for a record of another kind."""
    return EventBatch.read(record.payload) if record.kind == Kind.EVENTS else None


def _from_events(events: Events) -> EventBatch:
    """A log's rows; its ids are numbered within the batch."""
    columns = (events.src, events.dst, events.time, events.features, events.labels)
    return replace(EventBatch(events.vocabulary.ids, *columns).keep(slice(None)), index=None)


def _from_columns(table: dict[str, Any]) -> EventBatch:
    try:
        with np.errstate(over="ignore"):
            time = checked_times(table["time"])
            size = len(time)
            ids = _numbered(*(_plain_ids(name, table[name], size) for name in ("src", "dst")))
            features = checked_features(table["features"], size) if "features" in table else None
            labels = checked_labels(table["label"], size) if "label" in table else None
    except EventError:
        raise
    except (OverflowError, TypeError, ValueError) as error:
        raise EventError(f"a column is not one value per event ({error}); fix or remove the row") from None
    return EventBatch(*ids, time, features, labels)


def _plain_ids(name: str, column: Any, size: int) -> list[Id]:
    """A column of ids as integers and strings; one that is such a list already is not looked at one by one."""
    ids = column.tolist() if isinstance(column, np.ndarray) else column
    if isinstance(ids, list) and len(ids) == size and {*map(type, ids)} <= {int, str}:
        return ids
    return list(checked_ids(name, column, size).astype(object))


def _numbered(src: list[Id], dst: list[Id]) -> tuple[list[Id], Ints, Ints]:
    """The distinct ids, and the place of each end among them."""
    place: dict[Id, int] = {}
    numbers = (np.array([place.setdefault(name, len(place)) for name in side], dtype=np.int64) for side in (src, dst))
    left, right = numbers
    return list(place), left, right


def _columns(events: Any) -> dict[str, Any]:
    """Columns from a mapping of columns, a mapping that is one row, one row, or several rows."""
    if isinstance(events, Mapping):
        _check_names(events, "the batch")
        single = _is_value(events["time"])
        return {name: [value] if single else value for name, value in events.items() if value is not None}
    rows = list(events)
    if rows and not isinstance(rows[0], Mapping) and _is_value(rows[0]):
        rows = [rows]
    tables = [_row(row, number) for number, row in enumerate(rows)]
    if not tables:
        raise EventError("there are no events; at least one row is needed")
    first = tables[0].keys()
    for number, table in enumerate(tables):
        if table.keys() != first:
            odd = sorted(table.keys() ^ first)[0]
            raise EventError(
                f"row {number}: {odd!r} is given in some rows and not in others; give it in all or in none"
            )
    return {name: [table[name] for table in tables] for name in COLUMNS if name in first}


def _is_value(cell: Any) -> bool:
    """One value rather than a column of them."""
    return (
        isinstance(cell, (str, bytes))
        or not hasattr(cell, "__len__")
        or (isinstance(cell, np.ndarray) and cell.ndim == 0)
    )


def _row(row: Any, number: int) -> dict[str, Any]:
    if isinstance(row, Mapping):
        _check_names(row, f"row {number}")
        return {name: value for name, value in row.items() if value is not None}
    if not isinstance(row, (list, tuple)) or not 3 <= len(row) <= len(COLUMNS):
        raise EventError(f"row {number}: expected (src, dst, time[, features[, label]]), not {row!r}")
    return {name: value for name, value in zip(COLUMNS, row, strict=False) if value is not None}


def _check_names(table: Mapping[str, Any], where: str) -> None:
    missing = [name for name in COLUMNS[:3] if table.get(name) is None]
    if missing:
        raise EventError(f"{where}: {missing[0]!r} is missing; an event has src, dst and time")
    unknown = [name for name in table if name not in COLUMNS]
    if unknown:
        raise EventError(f"{where}: {unknown[0]!r} is unknown; an event has {', '.join(COLUMNS)}")


def _check_ids(batch: EventBatch) -> None:
    """Refuse ids that could not be hashed or kept."""
    for number, name in enumerate(batch.ids):
        fault = _id_fault(name)
        if fault is not None:
            row = int(np.flatnonzero((batch.src == number) | (batch.dst == number))[0])
            raise EventError(f"row {row}: {fault}; send a short name or a hash of it")


def _id_fault(name: Id) -> str | None:
    if not isinstance(name, str):
        return "an id has more than 512 bits" if name.bit_length() > 512 else None
    if len(name) > ID_LENGTH:
        return f"id {name[:40]!r}... is longer than {ID_LENGTH:,} characters"
    if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
        return f"id {name[:40]!r} is not valid Unicode"
    return None


def _check_range(batch: EventBatch, config: Config) -> None:
    """Refuse numbers that would overflow the sums of the state."""
    far = np.flatnonzero(~(np.abs(batch.time - config.origin) <= SPAN_LIMIT * config.span))
    if len(far):
        raise EventError(
            f"row {far[0]}: time {batch.time[far[0]]} is out of all proportion to the log that the model was trained "
            f"on (from {config.origin}, over {config.span}); check its unit"
        )
    if batch.features is not None:
        large = np.argwhere(~(np.abs(batch.features) <= FEATURE_LIMIT))
        if len(large):
            row, column = large[0]
            raise EventError(f"row {row}: feature {column} is {batch.features[row, column]}; scale it as in training")
