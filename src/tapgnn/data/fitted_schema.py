"""FittedSchema: what the columns of a table mean, and how a model takes them: a schema and its encoders, one file.

Where nodes have a table of their own, its encoders are a part of it.

Whatever a model is given (files, frames, requests, journals) becomes events by the schema and features by the encoders,
so that what is served is what was trained.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.data.encoders import TableEncoder
from tapgnn.data.frames import frame_events
from tapgnn.data.node_table import NodeEncoder
from tapgnn.data.schema import Schema
from tapgnn.errors import ConfigError
from tapgnn.events import Columns, Events, Ints
from tapgnn.vocabulary import Vocabulary


@dataclass(frozen=True)
class FittedSchema:
    """A schema and the encoders that were fitted to the training part of a table.

    >>> log = Events.from_arrays(["a", "b"], ["b", "c"], [1.0, 2.0], columns={"amount": [3.0, None]})
    >>> FittedSchema.fit(log).encode(log).features[:, 1]
    array([0., 1.], dtype=float32)
    """

    schema: Schema
    encoder: TableEncoder
    nodes: NodeEncoder | None = None

    @classmethod
    def fit(cls, train: Events, schema: Schema | None = None) -> FittedSchema:
        """Fit encoders to training events; without a schema, every column of them is used."""
        columns = columns_of(train)
        kinds: dict[str, Any] = {
            name: "category" if cells.dtype == object else "number" for name, cells in columns.items()
        }
        found = Schema(columns=kinds) if schema is None else schema
        missing = [name for name in found.columns if name not in columns]
        if missing:
            raise ConfigError(f"the events have no column {missing[0]!r}, which the schema names; read them with it")
        return cls(found, TableEncoder.fit(columns, found.columns))

    @property
    def categories(self) -> tuple[int, ...]:
        """How many codes each category has."""
        return self.encoder.widths[1]

    def read(self, table: Any, vocabulary: Vocabulary, now: float | None = None) -> tuple[Events, Ints]:
        """The events of a table in memory, and the row of each; without a column of times they are all `now`."""
        absent = {} if now is None else {self.schema.time: now}
        return frame_events(table, schema=self.schema, vocabulary=vocabulary, absent=absent)

    def encode(self, events: Events) -> Events:
        """The events as a model takes them: with features, without columns."""
        return replace(events, features=self.features(columns_of(events), len(events)), columns={})

    def features(self, columns: Columns, size: int) -> NDArray[np.float32] | None:
        """Features [E, f] of the columns of `size` events, None where the schema has no columns."""
        if not self.schema.columns:
            return None
        return self.encoder.encode(columns or {next(iter(self.schema.columns)): np.full(size, None)})

    def to_json(self) -> bytes:
        """All of it as text."""
        values = {"schema": self.schema.to_dict(), "encoder": self.encoder.to_dict()}
        nodes = {} if self.nodes is None else {"nodes": self.nodes.to_dict()}
        return json.dumps({**values, **nodes}, indent=1).encode()

    @classmethod
    def from_json(cls, text: bytes) -> FittedSchema:
        """What `to_json` gave; anything else is an error."""
        values = json.loads(text)
        if not isinstance(values, Mapping) or values.keys() - {"nodes"} != {"schema", "encoder"}:
            raise ConfigError("expected a schema and its encoder")
        nodes = NodeEncoder.from_dict(values["nodes"]) if "nodes" in values else None
        found = cls(Schema.from_dict(values["schema"]), TableEncoder.from_dict(values["encoder"]), nodes)
        if not found.encoder.fits(found.schema.columns):
            raise ConfigError("the encoders are not those of the schema's columns")
        return found


def columns_of(events: Events) -> Columns:
    """The columns of events; plain features are the numbers f0, f1, ..."""
    if events.columns or events.features is None:
        return events.columns
    return {f"f{place}": column.astype(np.float64) for place, column in enumerate(events.features.T)}
