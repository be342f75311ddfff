"""Rows in the words of a table -> a batch of events, checked as a whole.

A row has the columns of the table by their own names; `src`, `dst`, `time` and `label` stand for the columns with
these roles whatever they are called, and `features` for the numbers f0, f1, ... of a model that was fitted on plain
features. A column that is left out or null is missing. The event's id and the columns that the schema drops are kept
as they came. Anything else that does not fit is an EventError that names the row and the field, and nothing of the
batch is taken. With a bipartite schema, the ids become those of two sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tapgnn.data.fitted_schema import columns_of
from tapgnn.data.frames import frame_columns
from tapgnn.data.reading.cells import Cells, is_unicode, plain_value
from tapgnn.data.reading.clock import Clock
from tapgnn.data.reading.typed_rows import TypedRows
from tapgnn.data.reading.values import convert_labels
from tapgnn.data.schema import Schema
from tapgnn.errors import EventError
from tapgnn.events import UNLABELLED, Events, Floats, Ints
from tapgnn.model import Config
from tapgnn.online.journal.cell_conversion import (
    CONVERT,
    as_cells,
    holds_only,
    id_fault,
    is_missing,
    kept_cells,
    numbered_ids,
    shown,
    sized_cells,
    to_floats,
)
from tapgnn.online.journal.event_batch import EventBatch, renumbered
from tapgnn.vocabulary import Id

Arriving = EventBatch | Events | Mapping[str, Any] | Sequence[Any] | Any

ALIASES = ("src", "dst", "time", "label")
POSITIONS = ("src", "dst", "time", "features", "label")
# Beyond this, sums and squares of sums would leave the range of float32.
SPAN_LIMIT = 1e12
SHOWN = 30
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FieldsByRole(NamedTuple):
    """Cells of `roles` (src, dst, time, label, features), of `columns` by name, and of columns `kept` as they came."""

    roles: dict[str, Any]
    columns: dict[str, Any]
    kept: dict[str, Any]


class EventFields:
    """The fields of an event by the names of a schema, and what each of them is.

    known      field -> src, dst, time, label, id, column, features, or dropped
    features   the columns that are plain features, f0, f1, ...; None for any other table
    kept       the fields that no model takes and a journal keeps: the event's id and dropped columns
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        roles = {"src": schema.src, "dst": schema.dst, "time": schema.time, "label": schema.label, "id": schema.id}
        known = {name: role for role, name in roles.items() if name is not None}
        known |= dict.fromkeys(schema.columns, "column") | dict.fromkeys(schema.dropped, "dropped")
        self.names = list(known)
        for alias in ALIASES:
            known.setdefault(alias, alias)
        plain = [f"f{place}" for place in range(len(schema.columns))]
        self.features = plain if plain and plain == list(schema.columns) else None
        if self.features is not None:
            known.setdefault("features", "features")
        self.known = known
        self.kept = tuple(name for name, role in known.items() if role in ("id", "dropped"))

    def called(self, role: str) -> str:
        """The field of a role as the table calls it."""
        return str(getattr(self.schema, role) or role)

    def unknown(self, name: Any, where: str) -> EventError:
        """The error of a field that no event has."""
        listed = [*self.names[:SHOWN], *(["..."] if len(self.names) > SHOWN else [])]
        fields = ", ".join(name if len(name) <= 80 else f"{name[:80]}..." for name in listed)
        return EventError(f"{where}: {shown(str(name))} is unknown; the fields of an event are {fields}")

    def by_role(self, cells: Mapping[Any, Any], where: str = "the batch") -> FieldsByRole:
        """The cells of the fields of an event; a field that is unknown or given twice is an error."""
        roles: dict[str, Any] = {}
        columns: dict[str, Any] = {}
        kept: dict[str, Any] = {}
        for name, values in cells.items():
            role = self.known.get(name)
            if role is None:
                raise self.unknown(name, where)
            if role in ("column", "id", "dropped"):
                (columns if role == "column" else kept)[name] = values
            elif role in roles:
                raise EventError(f"{where}: {name!r} and {self.called(role)!r} are the same field; give one of them")
            else:
                roles[role] = values
        for role in ("src", "dst", "time"):
            if roles.get(role) is None:
                raise EventError(
                    f"{where}: {self.called(role)!r} is missing; an event has "
                    f"{', '.join(self.called(role) for role in ('src', 'dst', 'time'))}"
                )
        return FieldsByRole(roles, columns, kept)


class RowReader:
    """Makes batches for a model whose table has this schema."""

    def __init__(self, schema: Schema, config: Config) -> None:
        self.schema, self.config = schema, config
        self.fields = EventFields(schema)
        self._clock = schema.clock

    def read(self, events: Arriving) -> EventBatch:
        """Events in any form: a batch, `Events`, a frame, a mapping of columns or of one row, one row, or rows."""
        if isinstance(events, EventBatch):
            return events
        if isinstance(events, Events):
            return self._from_events(events)
        return self.from_columns(self._columns(events))

    def from_columns(self, cells: Mapping[str, Any]) -> EventBatch:
        """Events from columns of equal length by field; those that are None are missing."""
        roles, columns, kept = self.fields.by_role(cells)
        time = self._times(roles["time"])
        size = len(time)
        if size == 0:
            raise EventError("there are no events; at least one row is needed")
        ids = self._ids(*(sized_cells(self.fields.called(end), roles[end], size) for end in ("src", "dst")))
        if roles.get("features") is not None:
            twice = next((name for name in columns if columns[name] is not None), None)
            if twice is not None:
                raise EventError(f"the batch: 'features' and {twice!r} are the same field; give one of them")
            columns |= self._features(sized_cells("features", roles["features"], size))
        sized = {name: None if cells is None else sized_cells(name, cells, size) for name, cells in columns.items()}
        labels = None if roles.get("label") is None else self._labels(roles["label"], size)
        kept = {name: sized_cells(name, cells, size) for name, cells in kept.items() if cells is not None}
        return self._batch(ids, time, labels, self._converted(sized), kept)

    def from_typed(self, rows: TypedRows, kept: Mapping[str, Any]) -> EventBatch:
        """Events from rows as the readers of files convert them, with ids as they are inside, and other columns."""
        src, dst = (numbered_ids(self.fields.called(end), getattr(rows, end)) for end in ("src", "dst"))
        return self._batch(_merged(src, dst), rows.time, _known(rows.labels), self._converted(rows.columns), kept)

    def _batch(
        self,
        ends: tuple[Sequence[Id], Ints, Ints],
        time: Floats,
        labels: Ints | None,
        columns: dict[str, NDArray[Any]],
        kept: Mapping[str, Any],
    ) -> EventBatch:
        """A batch of columns of their kinds and of others that are kept as they came, in order of their names."""
        booleans = frozenset(name for name in columns if self.schema.columns[name] == "boolean")
        plain = {name: kept_cells(kept[name]) for name in sorted(kept)}
        known = {name: cells for name, cells in plain.items() if cells.count(None) < len(cells)}
        return self._checked(EventBatch(*ends, time, columns, labels, None, booleans, known))

    def _converted(self, columns: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Columns by name, each of its kind, in order of their names; without those that are missing throughout."""
        found = {}
        for name in sorted(columns):
            if columns[name] is not None:
                column = CONVERT[self.schema.columns[name]](name, columns[name])
                if not is_missing(column):
                    found[name] = column
        return found

    def _checked(self, batch: EventBatch) -> EventBatch:
        """Refuse times that would overflow the sums of the state."""
        far = np.flatnonzero(~(np.abs(batch.time - self.config.origin) <= SPAN_LIMIT * self.config.span))
        if len(far):
            raise EventError(
                f"row {far[0]}: {self.fields.called('time')} {batch.time[far[0]]} is out of all proportion to the log "
                f"that the model was trained on (from {self.config.origin}, over {self.config.span}); check its unit"
            )
        return batch

    def _from_events(self, log: Events) -> EventBatch:
        """A log's rows; columns that the schema does not have are left out, as they are when a model is fitted."""
        if not len(log):
            raise EventError("there are no events; at least one row is needed")
        plain = self.fields.features
        if not log.columns and log.features is not None and (plain is None or len(plain) != log.feature_width):
            raise EventError(_features_expected(self.schema, log.feature_width))
        ids, src, dst = renumbered(log.vocabulary.ids, log.src, log.dst)
        for number, name in enumerate(ids):
            fault = id_fault(name)
            if fault is not None:
                row = np.flatnonzero((src == number) | (dst == number))[0]
                raise EventError(f"row {row}: {fault}; send a short name or a hash of it")
        known = {name: cells for name, cells in columns_of(log).items() if name in self.schema.columns}
        columns = self._converted({name: cells for name, cells in known.items() if not is_missing(cells)})
        kept = {name: log.columns[name] for name in self.fields.kept if name in log.columns}
        return self._batch((ids, src, dst), log.time, _known(log.labels), columns, kept)

    def _columns(self, events: Any) -> Mapping[str, Any]:
        """Columns from a frame, a mapping of columns, a mapping that is one row, one row, or several rows."""
        frame = frame_columns(events)
        if frame is not None:
            return {name: _fast_cells(column) for name, column in frame.items()}
        if isinstance(events, Mapping):
            time = self.fields.by_role(events).roles["time"]
            return {name: [value] for name, value in events.items()} if _is_value(time) else events
        if isinstance(events, (str, bytes)) or not isinstance(events, Iterable):
            raise EventError(f"expected rows of events, a frame or a mapping of columns, not {shown(events)}")
        rows = list(events)
        if rows and not isinstance(rows[0], Mapping) and _is_value(rows[0]):
            rows = [rows]
        if not rows:
            raise EventError("there are no events; at least one row is needed")
        if all(type(row) is dict for row in rows):
            return self._from_mappings(rows)
        return self._from_mappings([self._mapping(row, number) for number, row in enumerate(rows)])

    def _from_mappings(self, rows: list[Any]) -> dict[str, Any]:
        names = dict.fromkeys(name for row in rows for name in row)
        odd = next((name for name in names if name not in self.fields.known), None)
        if odd is not None:
            raise self.fields.unknown(odd, f"row {next(n for n, row in enumerate(rows) if odd in row)}")
        for role in ("src", "dst", "time"):
            fields = [name for name in names if self.fields.known[name] == role]
            for number, row in enumerate(rows):
                if all(row.get(name) is None for name in fields):
                    self.fields.by_role({name: value for name, value in row.items() if name not in fields},
                                        f"row {number}")  # fmt: skip
        return {name: [row.get(name) for row in rows] for name in names}

    def _mapping(self, row: Any, number: int) -> dict[str, Any]:
        if isinstance(row, Mapping):
            return dict(row)
        if not isinstance(row, (list, tuple)) or not 3 <= len(row) <= len(POSITIONS):
            raise EventError(f"row {number}: expected (src, dst, time[, features[, label]]), not {shown(row)}")
        named = dict(zip(POSITIONS, row, strict=False))
        if named.get("features") is not None and self.fields.features is None:
            raise EventError(f"row {number}: {_features_expected(self.schema, len(named['features']))}")
        # Where a table has a column of such a name, the position still means the role.
        found = {self.fields.called(role) if role in ALIASES else role: value for role, value in named.items()}
        return {name: value for name, value in found.items() if value is not None or name != "features"}

    def _times(self, cells: Any) -> Floats:
        """Times [E] in the unit of the log, by the clock of the schema."""
        name, clock = self.fields.called("time"), self._clock
        values: Any = cells
        if isinstance(cells, pl.Series) and cells.dtype in (pl.Date, pl.Datetime):
            time, good = clock.convert(cells, name)
        else:
            values = as_cells(name, cells)
            if clock.format is None and holds_only(values, (int, float), "iuf"):
                time = to_floats(name, values)
                good = np.abs(time) < clock.largest
            else:
                time, good = self._dates(name, values)
        bad = np.flatnonzero(~good)
        if len(bad):
            value = values[bad[0]]
            if value is None:
                raise EventError(f"row {bad[0]}: {name!r} is missing; an event has a time")
            dates = f"a time written as {clock.format}" if clock.format else "an ISO date or datetime"
            raise EventError(f"row {bad[0]}: {name} {shown(value)} is not a finite number below 2^53 or {dates}")
        return time

    def _dates(self, name: str, values: list[Any] | NDArray[Any]) -> tuple[Floats, NDArray[np.bool_]]:
        """Times of which some are dates, and which of them are good."""
        moments = _moments(values, self._clock)
        if moments is not None:
            return moments, np.abs(moments) < self._clock.largest
        cells: Any = values
        if isinstance(values, np.ndarray) and values.dtype.kind in "iufM":
            fine = values.dtype.kind == "M" and np.datetime_data(values.dtype)[0] not in ("ns", "us", "ms")
            cells = pl.Series(values.astype("datetime64[us]") if fine else values)
        elif all(isinstance(value, str) for value in values):
            if all(map(is_unicode, values)):
                cells = pl.Series(list(values), dtype=pl.String)
        else:
            cells = list(map(plain_value, values))
        time, good = self._clock.convert(cells, name)
        if self._clock.format is None and isinstance(cells, pl.Series) and cells.dtype == pl.String:
            # A number that is written as a text is more likely a mistake than a time.
            good = good & cells.cast(pl.Float64, strict=False).is_null().to_numpy()
        return time, good

    def _ids(self, src: Any, dst: Any) -> tuple[list[Id], Ints, Ints]:
        """The distinct ids as they are inside, and the place of each end among them."""
        sides = [numbered_ids(self.fields.called(end), cells) for end, cells in (("src", src), ("dst", dst))]
        if self.schema.bipartite:
            left, right = (names for names, _ in sides)
            ids = [*self.schema.internal_src(left).tolist(), *self.schema.internal_dst(right).tolist()]
            return ids, sides[0][1], sides[1][1] + len(left)
        return _merged(*sides)

    def _features(self, cells: Any) -> dict[str, Any]:
        """The lists of plain features as columns f0, f1, ...; an event without one has them missing."""
        names = self.fields.features or []
        rows = cells if isinstance(cells, np.ndarray) and cells.ndim == 2 else list(cells)
        if isinstance(rows, np.ndarray):
            if rows.shape[1] != len(names):
                raise EventError(f"row 0: {_features_expected(self.schema, rows.shape[1])}")
            return {name: rows[:, place] for place, name in enumerate(names)}
        for number, row in enumerate(rows):
            if row is not None and (_is_value(row) or len(row) != len(names)):
                given = "no list" if _is_value(row) else len(row)
                raise EventError(f"row {number}: {_features_expected(self.schema, given)}")
        gap = [None] * len(names)
        table = [gap if row is None else list(row) for row in rows]
        return {name: [row[place] for row in table] for place, name in enumerate(names)}

    def _labels(self, cells: Any, size: int) -> Ints | None:
        """Labels [E], -1 where they are not known; None where none is."""
        name = self.fields.called("label")
        given = sized_cells(name, cells, size)
        if isinstance(given, np.ndarray) and given.dtype.kind in "iub":
            labels, good = given.astype(np.int64), np.ones(size, dtype=bool)
        else:
            plain = list(map(plain_value, given))
            texts = self.schema.label_values
            labels, good = convert_labels(plain, name, texts)
            if texts is None:
                good &= np.array([not isinstance(value, str) for value in plain])
        bad = np.flatnonzero(~good)
        if len(bad):
            raise EventError(f"row {bad[0]}: {name} {shown(given[bad[0]])} is not an integer; encode it as one")
        return _known(labels)


def _moments(values: Any, clock: Clock) -> Floats | None:
    """Times [E] of ISO texts that all tell their offset, or are in UTC; None for any others, which take longer."""
    if clock.format is not None or not isinstance(values, list):
        return None
    ticks = np.empty(len(values), dtype=np.int64)
    try:
        for row, text in enumerate(values):
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None and clock.zone == "UTC":
                moment = moment.replace(tzinfo=UTC)
            # Without hyphens a date is also a number.
            if text[4] != "-" or text[7] != "-":
                return None
            since = moment - _EPOCH
            ticks[row] = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    except (TypeError, ValueError, OverflowError):
        return None
    return clock.of_microseconds(ticks)


def _known(labels: Ints | None) -> Ints | None:
    """Labels, or None where none of them is known."""
    return None if labels is None or (labels == UNLABELLED).all() else labels


def _merged(src: tuple[list[Id], Ints], dst: tuple[list[Id], Ints]) -> tuple[list[Id], Ints, Ints]:
    """The distinct ids of both sides, and the place of each end among them."""
    place = {name: number for number, name in enumerate(src[0])}
    moved = np.array([place.setdefault(name, len(place)) for name in dst[0]], dtype=np.int64)
    return list(place), src[1], moved[dst[1]]


def _fast_cells(column: Cells) -> Any:
    """A column of a frame as an array or a list, where it has no dates."""
    if isinstance(column, list) or column.dtype in (pl.Date, pl.Datetime):
        return column
    return column.to_numpy() if column.dtype.is_numeric() and not column.null_count() else column.to_list()


def _is_value(cell: Any) -> bool:
    """One value rather than a column of them."""
    return (
        isinstance(cell, (str, bytes))
        or not hasattr(cell, "__len__")
        or (isinstance(cell, np.ndarray) and cell.ndim == 0)
    )


def _features_expected(schema: Schema, given: Any) -> str:
    columns = list(schema.columns)
    plain = bool(columns) and columns == [f"f{place}" for place in range(len(columns))]
    if plain:
        return f"the model expects {len(columns)} features per event, not {given}; send those it was trained with"
    named = f"its columns, {', '.join(columns[:SHOWN])}, by name" if columns else "events without them"
    return f"the model takes no list of features; send {named}"
