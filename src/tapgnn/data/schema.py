"""Schema: what the columns of a table mean, found once and used wherever events come in.

Five roles (src, dst, time, label, id) each have a column; every other column is a number, a category, a boolean, or
dropped. The clock of a log counts `time_unit`s: a number is a time as it stands, a date is counted from 1970 in that
unit. With `bipartite`, sources and destinations are two kinds of things whose ids may coincide: inside, the id of a
source is `card_id:7` and that of a destination `merchant_id:7`, so that no source is ever a destination.

A schema holds plain values only and survives JSON (`to_dict`, `from_dict`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tapgnn.data.arguments import plain_values
from tapgnn.data.reading.clock import Clock
from tapgnn.data.reading.values import INTEGER
from tapgnn.errors import ConfigError
from tapgnn.vocabulary import Id

Kind = Literal["number", "category", "boolean"]
KINDS: tuple[str, ...] = get_args(Kind)
ROLES = ("src", "dst", "time", "label", "id")


@dataclass(frozen=True)
class SchemaRequest:
    """What a caller declares of a table; None is detected, an empty label or id means that there is none.

    features    exactly these columns are used, their kinds detected; None: every column that can be
    numeric, categorical, boolean, drop    the kinds of some columns
    """

    src: str | None = None
    dst: str | None = None
    time: str | None = None
    label: str | None = None
    id: str | None = None
    features: Sequence[str] | None = None
    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    boolean: Sequence[str] = ()
    drop: Sequence[str] = ()
    bipartite: bool | None = None
    time_unit: str | None = None
    time_format: str | None = None
    time_zone: str | None = None

    def __post_init__(self) -> None:
        for name in ("features", "numeric", "categorical", "boolean", "drop"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        Clock(self.time_unit or "s", self.time_format, self.time_zone or "UTC")

    @property
    def roles(self) -> list[str]:
        """The columns that are named as a role."""
        return [name for role in ROLES if (name := getattr(self, role))]

    @property
    def kinds(self) -> dict[str, Kind]:
        """The declared kind of each column that has one."""
        declared: dict[str, Kind] = {}
        for kind, names in (("number", self.numeric), ("category", self.categorical), ("boolean", self.boolean)):
            declared |= dict.fromkeys(names, kind)  # type: ignore[arg-type]
        return declared

    @property
    def named(self) -> list[str]:
        """Every column that is named, once for each time it is."""
        kinds = (*self.numeric, *self.categorical, *self.boolean)
        return [*self.roles, *(name for name in self.features or () if name not in kinds), *kinds, *self.drop]


@dataclass(frozen=True)
class Schema:
    """The column of each role, the kind of each other column in order, and how times and ids are read.

    >>> schema = Schema("card_id", "merchant_id", "timestamp", columns={"amount": "number"}, bipartite=True)
    >>> schema.internal_src([7]).tolist(), schema.internal_dst([7]).tolist(), schema.external(["merchant_id:7"])
    (['card_id:7'], ['merchant_id:7'], [7])
    """

    src: str = "src"
    dst: str = "dst"
    time: str = "time"
    label: str | None = None
    id: str | None = None
    columns: Mapping[str, Kind] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    time_unit: str = "s"
    time_format: str | None = None
    time_zone: str = "UTC"
    bipartite: bool = False
    label_values: tuple[str, str] | None = None  # the texts that mean 0 and 1, where labels are not integers

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", dict(self.columns))
        object.__setattr__(self, "dropped", tuple(self.dropped))
        if self.label_values is not None:
            object.__setattr__(self, "label_values", tuple(self.label_values))
        self._check()

    def _check(self) -> None:
        for name, kind in self.columns.items():
            if kind not in KINDS:
                raise ConfigError(f"schema: column {name!r} has the kind {kind!r}; expected one of {', '.join(KINDS)}")
        named = [*self.read_columns, *self.dropped]
        for name in named:
            if not isinstance(name, str) or not name:
                raise ConfigError(f"schema: {name!r} is not the name of a column; expected a string")
            if named.count(name) > 1:
                raise ConfigError(f"schema: column {name!r} has two roles; give each role its own column")
        values = self.label_values
        if values is not None and not (len(values) == 2 and all(isinstance(value, str) for value in values)):
            raise ConfigError(f"schema: label_values must be the texts that mean 0 and 1, not {values!r}")
        if not isinstance(self.bipartite, bool):
            raise ConfigError(f"schema: bipartite must be true or false, not {self.bipartite!r}")
        _ = self.clock

    @property
    def read_columns(self) -> list[str]:
        """Every column with a role or a kind."""
        roles = [self.src, self.dst, self.time, self.label, self.id]
        return [*(name for name in roles if name is not None), *self.columns]

    @property
    def clock(self) -> Clock:
        """How times are read."""
        return Clock(self.time_unit, self.time_format, self.time_zone)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = asdict(self)
        pair = self.label_values
        return values | {"dropped": list(self.dropped), "label_values": None if pair is None else list(pair)}

    @classmethod
    def from_dict(cls, values: Any) -> Schema:
        """The schema that `to_dict` described; anything else is an error that names the entry."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"schema: expected an object, not {type(values).__name__}")
        known = {each.name for each in fields(cls)}
        unknown = [name for name in values if name not in known]
        missing = [name for name in ("src", "dst", "time") if name not in values]
        if unknown or missing:
            raise ConfigError(
                f"schema: there is no entry {missing[0]!r}" if missing else f"schema: unknown entry {unknown[0]!r}"
            )
        return cls(**plain_values(values, cls))

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema (2020-12) of one event as an object with the names of the table."""
        node = {"type": ["integer", "string"], "minLength": 1}
        dates = f"strptime {self.time_format}" if self.time_format else "an ISO date or datetime"
        when = {
            "type": ["number", "string"],
            "description": f"a number in {TIME_UNITS[self.time_unit]}, or {dates} ({self.time_zone} without an offset)",
        }
        properties: dict[str, Any] = {self.src: node, self.dst: dict(node), self.time: when}
        properties |= {name: dict(_JSON_KINDS[kind]) for name, kind in self.columns.items()}
        if self.label is not None:
            texts = [] if self.label_values is None else ["string"]
            properties[self.label] = {"type": ["integer", "boolean", *texts, "null"]}
        if self.id is not None:
            properties[self.id] = {"type": ["integer", "string", "null"]}
        properties |= {name: {"description": "not used by the model; kept in the journal"} for name in self.dropped}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "event",
            "type": "object",
            "properties": properties,
            "required": [self.src, self.dst, self.time],
            "additionalProperties": False,
        }

    @property
    def prefixes(self) -> tuple[str, str]:
        """What the ids of the two sides start with; neither is the start of the other."""
        src, dst = f"{self.src}:", f"{self.dst}:"
        return ("src:", "dst:") if src.startswith(dst) or dst.startswith(src) else (src, dst)

    def internal_src(self, ids: Any) -> NDArray[Any]:
        """[E] the ids of sources as the vocabulary holds them."""
        return _prefixed(ids, self.prefixes[0] if self.bipartite else None)

    def internal_dst(self, ids: Any) -> NDArray[Any]:
        """[E] the ids of destinations as the vocabulary holds them."""
        return _prefixed(ids, self.prefixes[1] if self.bipartite else None)

    def external(self, ids: Sequence[Id] | NDArray[Any]) -> list[Id]:
        """The user's own ids of nodes, whichever side they are on; an id of neither side is left as it is."""
        names = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
        return [self._own(name) for name in names] if self.bipartite else names

    def _own(self, name: Id) -> Id:
        text = next(
            (name[len(mark) :] for mark in self.prefixes if isinstance(name, str) and name.startswith(mark)), ""
        )
        if not text:
            return name
        if text.startswith(_QUOTE):
            return text[1:]
        return int(text) if INTEGER.match(text) else text


_QUOTE = '"'  # before a string that would otherwise be taken for an integer, as in Parquet and JSON
TIME_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
TIME_UNITS |= {"min": "minutes", "h": "hours", "d": "days"}
_JSON_KINDS: dict[str, Any] = {
    "number": {"type": ["number", "null"]},
    "category": {"type": ["string", "integer", "null"]},
    "boolean": {"type": ["boolean", "null"]},
}


def _prefixed(ids: Any, prefix: str | None) -> NDArray[Any]:
    """Ids as integers or objects, each distinct one prefixed once."""
    given = ids if isinstance(ids, np.ndarray) else np.array(list(ids), dtype=object)
    if prefix is None:
        return given
    if given.dtype.kind in "iu":
        numbers, which = np.unique(given, return_inverse=True)
        return np.array([f"{prefix}{number}" for number in numbers.tolist()], dtype=object)[which]
    seen: dict[Any, str | None] = {}
    named = [seen[name] if name in seen else seen.setdefault(name, _named(prefix, name)) for name in given.tolist()]
    return np.array(named, dtype=object)


def _named(prefix: str, name: Any) -> str | None:
    if name is None:
        return None
    quoted = isinstance(name, str) and (name.startswith(_QUOTE) or INTEGER.match(name))
    return f"{prefix}{_QUOTE}{name}" if quoted else f"{prefix}{name}"
