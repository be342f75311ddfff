"""Node tables: what is known of nodes whatever they do, such as the category and the country of a merchant.

    read_node_table(table, id)      a file or a frame -> its ids and columns, their kinds detected or as before
    NodeEncoder.fit(table, known)   encoders fitted to nodes of the training events, saved with the model

A node is described by numbers alone: scaled numbers with a mark where one is missing, and a zero or one for every
category. A node that no table describes is one whose every column is missing. Where a node has several rows, the last
one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.data.encoders import TableEncoder
from tapgnn.data.frames import frame_source
from tapgnn.data.reading.cells import Cells
from tapgnn.data.reading.columns import columns_of
from tapgnn.data.reading.detection import find_kind
from tapgnn.data.reading.formats import open_source
from tapgnn.data.reading.table_source import TableSource, joined_cells
from tapgnn.data.reading.typed_rows import convert_column, converter
from tapgnn.data.reading.values import convert_text_ids, convert_typed_ids
from tapgnn.data.schema import KINDS, Kind, Schema
from tapgnn.errors import ConfigError, DataError
from tapgnn.events import Bools, Columns, Ints


@dataclass(frozen=True)
class NodeTable:
    """Ids [n] as the user writes them, from the column `id`; columns [n] and their kinds; what is not used, and why."""

    id: str
    ids: NDArray[Any]
    columns: Columns
    kinds: Mapping[str, Kind]
    suggestions: list[str] = field(default_factory=list)

    def internal_ids(self, schema: Schema) -> NDArray[Any]:
        """[n] the ids as the vocabulary of a model has them."""
        if not schema.bipartite:
            return self.ids
        if self.id not in (schema.src, schema.dst):
            raise ConfigError(
                f"nodes are of two kinds, and {self.id!r} is neither {schema.src!r} nor {schema.dst!r}; "
                "rename the column of ids to the one that it describes"
            )
        return schema.internal_src(self.ids) if self.id == schema.src else schema.internal_dst(self.ids)


@dataclass(frozen=True)
class NodeEncoder:
    """How a row of a node table becomes features: its column of ids, the kinds of the others, and their encoders."""

    id: str
    kinds: Mapping[str, Kind]
    encoder: TableEncoder

    @classmethod
    def fit(cls, table: NodeTable, known: Bools) -> NodeEncoder:
        """Fit encoders to the rows of known nodes [n], those of the training events."""
        if not table.kinds:
            raise ConfigError(f"the node table has no column besides the ids, {table.id!r}")
        if not known.any():
            raise ConfigError(
                f"no node of the training events is in the node table; is {table.id!r} the column of their ids?"
            )
        return cls(
            table.id,
            dict(table.kinds),
            TableEncoder.fit({name: column[known] for name, column in table.columns.items()}, table.kinds),
        )

    @property
    def width(self) -> int:
        """How many numbers describe a node."""
        numbers, sizes = self.encoder.widths
        return numbers + sum(sizes)

    def features(self, columns: Columns) -> NDArray[np.float32]:
        """Features [n, f] of nodes."""
        return self.encoder.dense(columns)

    def missing(self) -> NDArray[np.float32]:
        """[1, f] of a node that no table describes."""
        return self.encoder.dense({next(iter(self.kinds)): np.full(1, None)})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"id": self.id, "kinds": dict(self.kinds), "encoder": self.encoder.to_dict()}

    @classmethod
    def from_dict(cls, values: Any) -> NodeEncoder:
        """What `to_dict` gave; anything else is an error."""
        if not isinstance(values, Mapping) or values.keys() != {"id", "kinds", "encoder"}:
            raise ConfigError("expected the column of ids of a node table, the kinds of the others, and their encoder")
        name, kinds, encoder = values["id"], values["kinds"], TableEncoder.from_dict(values["encoder"])
        good = isinstance(name, str) and isinstance(kinds, Mapping) and kinds and set(kinds.values()) <= set(KINDS)
        if not good or not encoder.fits(kinds):
            raise ConfigError("the encoders are not those of the node table's columns")
        return cls(name, dict(kinds), encoder)


def read_node_table(
    table: Any, schema: Schema, id: str | None = None, kinds: Mapping[str, Kind] | None = None
) -> NodeTable:
    """The nodes of a file or of a table in memory; with `kinds`, exactly these columns are read, as before.

    Without `id`, the ids are in the column that is named as the sources or destinations of the schema.
    """
    source = open_source(Path(table), None, lambda _: True) if isinstance(table, str | Path) else frame_source(table)
    named = id or next((name for name in (schema.dst, schema.src) if name in source.columns), None)
    for name in (named, *(kinds or ())):
        if name is None:
            raise DataError(
                f"{source.name} has no column {schema.src!r} or {schema.dst!r}; "
                f"name the column of ids with --node-id; {columns_of(source)}"
            )
        if name not in source.columns:
            raise DataError(f"{source.name} has no column {name!r}; {columns_of(source)}")
    cells, places = _cells(source)
    ids_of = convert_typed_ids if source.typed else convert_text_ids
    ids = convert_column(source, str(named), cells[str(named)], places, ids_of, "src")
    found = {name: find_kind(name, cells[name], source.typed) for name in source.columns if name != named}
    suggestions = [] if kinds else [f"node table: {each.suggestion}" for each in found.values() if each.suggestion]
    used = dict(kinds) if kinds else {name: each.kind for name, each in found.items() if each.kind is not None}
    columns = {
        name: convert_column(source, name, cells[name], places, converter(kind, source.typed), name, kind)
        for name, kind in used.items()
    }
    return NodeTable(str(named), ids, columns, used, suggestions)


def _cells(source: TableSource) -> tuple[dict[str, Cells], Ints]:
    """All cells by column, and the place of each row [n]."""
    tables = list(source.read(source.columns))
    for table in tables:
        for place, reason in table.rejected[:1]:
            raise source.fault(place, reason)
    if not tables:
        raise DataError(f"{source.name} has no rows; at least one node is needed")
    return joined_cells(tables, source.columns), np.concatenate([table.places for table in tables])
