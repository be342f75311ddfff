"""A table of payments with columns of every kind and gaps, models of it, and its rows in every form."""

import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from tapgnn import Config, Vocabulary, save_model
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.data.schema import Schema
from tapgnn.model.files import SCHEMA
from tapgnn.online.journal.event_rows import RowReader

from ..streams import tiny_model

START = 1_000_000_000.0
SCHEMA_OF_PAYMENTS = Schema(
    "card_id",
    "merchant_id",
    "timestamp",
    "is_fraud",
    "transaction_id",
    {"amount": "number", "channel": "category", "online": "boolean", "country": "category"},
    dropped=("note",),
    bipartite=True,
)
READER_OF_PAYMENTS = RowReader(SCHEMA_OF_PAYMENTS, Config(origin=START, span=1e6))
_folders = tempfile.TemporaryDirectory(prefix="tapgnn-payments-")


def payments(size=40, seed=0, start=START):
    """Rows of the table; about a fifth of the cells is missing, ids coincide on both sides."""
    rng = np.random.default_rng(seed)
    time = start + np.cumsum(rng.choice([0.0, 1.0, 2.5], size))
    rows = []
    for number in range(size):
        row = {
            "transaction_id": f"t{number}",
            "card_id": int(rng.integers(0, 8)),
            "merchant_id": int(rng.integers(0, 5)),
            "timestamp": float(time[number]),
            "amount": round(float(rng.lognormal(3, 2)), 2),
            "channel": ["ecom", "chip", "strange é"][int(rng.integers(0, 3))],
            "online": bool(rng.random() < 0.5),
            "country": f"c{rng.integers(0, 30)}",
            "is_fraud": int(rng.random() < 0.2),
        }
        for name in ("amount", "channel", "online", "country", "is_fraud"):
            if rng.random() < 0.2:
                row[name] = None
        rows.append(row)
    return rows


NOTES = ["urgent", "gift", None, "12.5", "urgent é", "yes"]


def noted_payments(size=12, start=START):
    """Payments with a note, which the model drops."""
    rows = payments(size, seed=5, start=start)
    for number, row in enumerate(rows):
        row["note"] = NOTES[number % len(NOTES)]
    return rows


def saved_payments_model(name="all", seed=0, dtype="float64", **changes):
    """The folder of a model of payments, with the columns of the schema changed."""
    schema = Schema.from_dict({**SCHEMA_OF_PAYMENTS.to_dict(), **changes})
    table = FittedSchema.fit(FittedSchema(schema, None).read(payments(200, seed=9), Vocabulary())[0], schema)
    folder = Path(_folders.name) / f"{name}-{seed}-{dtype}"
    if not folder.exists():
        numbers, codes = table.encoder.widths
        model = tiny_model("adaptive", Vocabulary(), seed, edge_features=numbers, edge_categories=codes)
        save_model(model.to(getattr(torch, dtype)), folder, more={SCHEMA: table.to_json()})
    return folder


def as_json(rows):
    return json.dumps({"events": rows}).encode()


def as_lines(rows):
    return "\n".join(json.dumps(row) for row in rows).encode()


def as_arrow(rows):
    """Rows as an Arrow stream, a column each."""
    return arrow_bytes(pa.Table.from_pylist(rows))


def arrow_bytes(table):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def as_events(rows):
    """Rows as the reader of tables makes them, in the order of their times."""
    return FittedSchema(SCHEMA_OF_PAYMENTS, None).read(rows, Vocabulary())[0]
