"""Events: the validated, time-sorted columns of an interaction log.

An event is `src, dst, time` and, optionally, a label and columns of a table: numbers (NaN where missing) and categories
(None where missing). `features` are what a model makes of the columns. Ids are any strings or integers, for which a
vocabulary has dense rows. All events with one time form an *instant*, and nothing here ever cuts inside one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tapgnn.errors import EventError
from tapgnn.html_display import table
from tapgnn.vocabulary import Id, Vocabulary, checked_id

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
# Columns of a table by name: numbers [E] in float64, NaN where missing, or categories [E], strings or None.
Columns = Mapping[str, NDArray[Any]]
FIELDS = ("src", "dst", "time", "features", "labels")
UNLABELLED = -1


@dataclass(frozen=True)
class Events:
    """A time-sorted log: `src`, `dst` [E] rows of `vocabulary`, `time` [E], `features` [E, f], `labels` [E], `columns`.

    A label of -1 is not known. Build one with `from_arrays`, `from_frame` or `from_temporal_data`.

    >>> log = Events.from_arrays(["ann", "bob"], ["bob", "cat"], [2.0, 1.0])
    >>> log.time, log.src, log.dst
    (array([1., 2.]), array([0, 2]), array([1, 0]))
    """

    src: Ints
    dst: Ints
    time: Floats
    features: NDArray[np.float32] | None = None
    labels: Ints | None = None
    vocabulary: Vocabulary = field(default_factory=Vocabulary, repr=False)
    columns: Columns = field(default_factory=dict)

    @classmethod
    def from_arrays(
        cls,
        src: ArrayLike | Sequence[Id],
        dst: ArrayLike | Sequence[Id],
        time: ArrayLike,
        features: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        vocabulary: Vocabulary | None = None,
        columns: Columns | None = None,
    ) -> Events:
        """Validate columns, sort them by time (stable), and number the ids in order of first appearance."""
        instants = checked_times(time)
        size = len(instants)
        if size == 0:
            raise EventError("there are no events; at least one row is needed")
        sources = checked_ids("src", src, size)
        targets = checked_ids("dst", dst, size)
        vectors = None if features is None else checked_features(features, size)
        marks = None if labels is None else checked_labels(labels, size)
        table = {name: checked_column(name, column, size) for name, column in (columns or {}).items()}

        order = np.argsort(instants, kind="stable")
        names = Vocabulary() if vocabulary is None else vocabulary
        rows = names.add(interleaved(sources[order], targets[order]))
        return cls(
            src=rows[0::2].copy(),
            dst=rows[1::2].copy(),
            time=instants[order],
            features=None if vectors is None else vectors[order],
            labels=None if marks is None else marks[order],
            vocabulary=names,
            columns={name: column[order] for name, column in table.items()},
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        src: str = "src",
        dst: str = "dst",
        time: str = "time",
        features: Sequence[str] = (),
        label: str | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> Events:
        """Read the named columns of a pandas or polars frame."""
        present = list(frame.columns)
        wanted = [src, dst, time, *features, *([] if label is None else [label])]
        missing = [name for name in wanted if name not in present]
        if missing:
            raise EventError(f"the frame has no column {missing[0]!r}; its columns are {', '.join(map(str, present))}")
        columns = {name: frame[name].to_numpy() for name in wanted}
        return cls.from_arrays(
            columns[src],
            columns[dst],
            columns[time],
            np.column_stack([columns[name] for name in features]) if features else None,
            None if label is None else columns[label],
            vocabulary,
        )

    @classmethod
    def from_temporal_data(cls, data: Any, vocabulary: Vocabulary | None = None) -> Events:
        """Read a PyTorch Geometric `TemporalData`: `src`, `dst`, `t`, and `msg` and `y` where present."""
        message, label = getattr(data, "msg", None), getattr(data, "y", None)
        return cls.from_arrays(
            data.src.numpy(),
            data.dst.numpy(),
            data.t.numpy(),
            None if message is None or message.numel() == 0 else message.numpy(),
            None if label is None else label.numpy(),
            vocabulary,
        )

    def __len__(self) -> int:
        return len(self.time)

    def _repr_html_(self) -> str:
        """The first rows, for a notebook."""
        names, shown = self.vocabulary.ids, min(len(self), 5)
        marks = {} if self.labels is None else {"label": self.labels}
        more = {**marks, **self.columns}
        rows = [
            [names[self.src[e]], names[self.dst[e]], self.time[e].item(), *(column[e] for column in more.values())]
            for e in range(shown)
        ]
        title = f"{len(self):,} events of {len(names):,} nodes, the first {shown}"
        return table(title, ["src", "dst", "time", *more], rows)

    @property
    def shape(self) -> tuple[int]:
        """(E,): with `[rows]`, all that scikit-learn needs to cut a log."""
        return (len(self),)

    def __getitem__(self, rows: Any) -> Events:
        """Chosen rows as in `take`; a single position gives a log of one event.

        >>> log = Events.from_arrays(["ann", "bob", "cat"], ["bob", "cat", "ann"], [1.0, 2.0, 3.0])
        >>> log[1:].time, log[0].time
        (array([2., 3.]), array([1.]))
        """
        chosen = rows[0] if isinstance(rows, tuple) else rows
        return self.take([chosen] if isinstance(chosen, int | np.integer) else chosen)

    @property
    def feature_width(self) -> int:
        """The number of features of an event, 0 where there are none."""
        return 0 if self.features is None else self.features.shape[1]

    def slice(self, start: int, stop: int) -> Events:
        """Events `start` to `stop`; both borders must lie between two instants."""
        for border in (start, stop):
            if not 0 <= border <= len(self):
                raise EventError(f"border {border} is outside 0..{len(self)}")
            if 0 < border < len(self) and self.time[border - 1] == self.time[border]:
                raise EventError(f"border {border} cuts the instant {self.time[border]}; cut between two times")
        return self.take(slice(start, stop))

    def between(self, start: float, stop: float) -> Events:
        """Events with start <= time < stop."""
        low, high = np.searchsorted(self.time, [start, stop], side="left")
        return self.take(slice(int(low), int(high)))

    def chunks(self, size: int) -> Iterator[Events]:
        """Consecutive pieces of about `size` events, cut only between instants.

        A piece ends at the first border between instants at or after `size` events.
        """
        if size < 1:
            raise EventError(f"a chunk must hold at least one event, not {size}")
        start = 0
        while start < len(self):
            stop = min(start + size, len(self))
            stop = int(np.searchsorted(self.time, self.time[stop - 1], side="right"))
            yield self.take(slice(start, stop))
            start = stop

    def append(self, later: Events) -> Events:
        """This log followed by one that starts no earlier than it ends; both must share the vocabulary."""
        if later.vocabulary is not self.vocabulary:
            raise EventError(
                "the two logs have different vocabularies; build the second with vocabulary=log.vocabulary"
            )
        if len(self) and len(later) and later.time[0] < self.time[-1]:
            raise EventError(
                f"the appended events start at {later.time[0]}, before the log ends at {self.time[-1]}; "
                "build one log from all rows instead, it sorts them"
            )
        if self.feature_width != later.feature_width:
            raise EventError(f"expected {self.feature_width} features, the appended events have {later.feature_width}")
        if (self.labels is None) != (later.labels is None):
            raise EventError("one log has labels and the other has none; give both or neither")
        if self.columns.keys() != later.columns.keys():
            odd = sorted(self.columns.keys() ^ later.columns.keys())[0]
            raise EventError(f"only one of the two logs has a column {odd!r}; read both with the same schema")
        given = ((name, getattr(self, name), getattr(later, name)) for name in FIELDS)
        fields: dict[str, Any] = {name: np.concatenate(pair) for name, *pair in given if pair[0] is not None}
        columns = {name: np.concatenate([first, later.columns[name]]) for name, first in self.columns.items()}
        return replace(self, **fields, columns=columns)

    def take(self, rows: Any) -> Events:
        """Chosen rows, by slice, mask or ascending positions; they may leave a part of an instant out."""
        given = ((name, getattr(self, name)) for name in FIELDS)
        fields = {name: column[rows] for name, column in given if column is not None}
        return replace(self, **fields, columns={name: column[rows] for name, column in self.columns.items()})


def interleaved(src: NDArray[Any], dst: NDArray[Any]) -> NDArray[Any]:
    """[2E] the ids src and dst [E] of each event in turn, as integers or objects: the order of first appearance."""
    both = np.empty(2 * len(src), dtype=np.int64 if src.dtype == dst.dtype == np.int64 else object)
    both[0::2], both[1::2] = src, dst
    return both


def checked_ids(name: str, column: Any, size: int) -> NDArray[Any]:
    """An id column [E] as integers, or as objects if some of the ids are strings."""
    array = np.asarray(column) if not isinstance(column, (list, tuple)) else np.array(column, dtype=object)
    if array.ndim != 1 or len(array) != size:
        raise EventError(
            f"{name} has shape {array.shape}, but there are {size} times; the columns must be equally long"
        )
    if array.dtype.kind == "i" or (array.dtype.kind == "u" and (size == 0 or array.max() < 2**63)):
        return array.astype(np.int64)
    names = [checked_id(value, row) for row, value in enumerate(array.tolist())]
    whole = all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in names)
    return np.array(names, dtype=np.int64 if whole else object)


def checked_times(time: ArrayLike) -> Floats:
    """A column of times as finite numbers [E]; anything else is an error that names the row."""
    array = np.asarray(time)
    if array.ndim != 1:
        raise EventError(f"time has shape {array.shape}; expected one number per event")
    return to_seconds(array)


def to_seconds(time: ArrayLike) -> Floats:
    """Times as numbers [E]: numbers as they are, datetimes in seconds since 1970 (UTC where they name no offset).

    >>> to_seconds(np.array(["1970-01-02", "1970-01-03"], dtype="datetime64[D]"))
    array([ 86400., 172800.])
    """
    array = np.atleast_1d(np.asarray(time))
    if array.dtype.kind == "O" and len(array):
        try:
            array = _moments(array) if hasattr(array[0], "isoformat") else array.astype(np.float64)
        except (TypeError, ValueError, AttributeError) as error:
            raise EventError(
                f"the times are neither numbers nor datetimes ({error}); convert the column first"
            ) from None
    if array.dtype.kind == "M":
        missing = np.flatnonzero(np.isnat(array))
        if len(missing):
            raise EventError(f"row {missing[0]}: the time is missing; fix or remove the row")
        # Nanoseconds end in the year 2262, so coarser units become microseconds.
        fine = np.datetime_data(array.dtype)[0] in ("ns", "ps", "fs", "as")
        unit, ticks = ("datetime64[ns]", 1e9) if fine else ("datetime64[us]", 1e6)
        return array.astype(unit).astype(np.int64) / ticks
    if array.dtype.kind not in "iuf" and len(array):
        raise EventError(f"the times are of type {array.dtype}; expected numbers or datetimes")
    seconds = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(seconds))
    if len(bad):
        raise EventError(f"row {bad[0]}: time {seconds[bad[0]]} is not finite; fix or remove the row")
    return seconds


def _moments(times: NDArray[Any]) -> NDArray[Any]:
    """Python's dates and datetimes in numpy's type, those with an offset in UTC."""
    plain = [
        time.astimezone(UTC).replace(tzinfo=None) if getattr(time, "tzinfo", None) is not None else time
        for time in times
    ]
    return np.array(plain, dtype="datetime64[us]")


def checked_features(features: ArrayLike, size: int) -> NDArray[np.float32]:
    """A table of finite features [E, f]; anything else is an error that names the row."""
    try:
        vectors = np.asarray(features, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EventError(f"the features are not a table of numbers of one width ({error})") from None
    if vectors.ndim == 1:
        vectors = vectors[:, None]
    if vectors.ndim != 2 or len(vectors) != size:
        raise EventError(f"features have shape {vectors.shape}; expected ({size}, width)")
    bad = np.argwhere(~np.isfinite(vectors))
    if len(bad):
        row, column = bad[0]
        raise EventError(f"row {row}: feature {column} is {vectors[row, column]}; fix the row or fill it with a number")
    return vectors


def checked_column(name: str, column: Any, size: int) -> NDArray[Any]:
    """A column of a table: numbers [E] in float64, NaN where missing, or categories [E] as strings, None where missing.

    >>> checked_column("amount", [1, None], 2), checked_column("channel", ["ecom", None], 2)
    (array([ 1., nan]), array(['ecom', None], dtype=object))
    """
    cells = np.asarray(column)
    if cells.shape != (size,):
        raise EventError(f"column {name!r} has shape {cells.shape}; expected one value per event, ({size},)")
    if cells.dtype.kind in "iufb":
        numbers = cells.astype(np.float64)
    else:
        given = [None if cell is None or cell != cell else cell for cell in cells.tolist()]
        if any(isinstance(cell, str) for cell in given) or not any(cell is not None for cell in given):
            return np.array([None if cell is None else str(cell) for cell in given], dtype=object)
        try:
            numbers = np.array([np.nan if cell is None else cell for cell in given], dtype=np.float64)
        except (TypeError, ValueError):
            raise EventError(f"column {name!r} holds neither numbers nor strings; convert it first") from None
    bad = np.flatnonzero(np.isinf(numbers))
    if len(bad):
        raise EventError(f"row {bad[0]}: {name} is {numbers[bad[0]]}; expected a finite number, or nothing")
    return numbers


def checked_labels(labels: ArrayLike, size: int) -> Ints:
    """A column of whole numbers [E]; anything else is an error that names the row."""
    marks = np.asarray(labels)
    if marks.shape != (size,):
        raise EventError(f"labels have shape {marks.shape}; expected ({size},)")
    if marks.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(marks) | (marks != np.floor(marks)))
        if len(bad):
            raise EventError(
                f"row {bad[0]}: label {marks[bad[0]]} is not a whole number; encode the classes as integers"
            )
    elif marks.dtype.kind not in "iub":
        raise EventError(f"labels are of type {marks.dtype}; encode the classes as integers")
    return marks.astype(np.int64)


def events_fingerprint(events: Events) -> str:
    """A hash of the log itself: ids, ends, times, features and labels."""
    digest = hashlib.sha256(repr(list(events.vocabulary.ids)).encode())
    for column in (events.src, events.dst, events.time, events.features, events.labels):
        if column is not None:
            digest.update(np.ascontiguousarray(column).data)
    for name, column in events.columns.items():
        digest.update(name.encode())
        digest.update(repr(column.tolist()).encode() if column.dtype == object else column.tobytes())
    return digest.hexdigest()
