"""Data: readers and writers, the registry of public data sets, splits, negatives, and the simulator.

This module exports what turns files into `Events` and back; names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapgnn.cache_folder import cache_folder
    from tapgnn.data.datasets.download import download
    from tapgnn.data.datasets.registry import (
        DATASETS,
        Dataset,
        dataset_path,
        find_dataset,
        get_dataset,
        load_dataset,
        missing_folder,
        stream_dataset,
    )
    from tapgnn.data.datasets.tgb import read_tgb
    from tapgnn.data.datasets.tgb_negatives import tgb_negatives
    from tapgnn.data.frames import frame_events, frame_schema
    from tapgnn.data.reading.reader import ReadReport, read_chunks, read_events, read_table
    from tapgnn.data.schema import Schema, SchemaRequest
    from tapgnn.data.statistics import Summary, describe, is_bipartite
    from tapgnn.data.writing import write_events, write_table

_HOMES = {
    "DATASETS": "tapgnn.data.datasets.registry",
    "Dataset": "tapgnn.data.datasets.registry",
    "ReadReport": "tapgnn.data.reading.reader",
    "Schema": "tapgnn.data.schema",
    "SchemaRequest": "tapgnn.data.schema",
    "Summary": "tapgnn.data.statistics",
    "cache_folder": "tapgnn.cache_folder",
    "dataset_path": "tapgnn.data.datasets.registry",
    "describe": "tapgnn.data.statistics",
    "download": "tapgnn.data.datasets.download",
    "find_dataset": "tapgnn.data.datasets.registry",
    "frame_events": "tapgnn.data.frames",
    "frame_schema": "tapgnn.data.frames",
    "get_dataset": "tapgnn.data.datasets.registry",
    "is_bipartite": "tapgnn.data.statistics",
    "load_dataset": "tapgnn.data.datasets.registry",
    "missing_folder": "tapgnn.data.datasets.registry",
    "read_chunks": "tapgnn.data.reading.reader",
    "read_events": "tapgnn.data.reading.reader",
    "read_table": "tapgnn.data.reading.reader",
    "read_tgb": "tapgnn.data.datasets.tgb",
    "stream_dataset": "tapgnn.data.datasets.registry",
    "tgb_negatives": "tapgnn.data.datasets.tgb_negatives",
    "write_events": "tapgnn.data.writing",
    "write_table": "tapgnn.data.writing",
}

__all__ = [
    "DATASETS",
    "Dataset",
    "ReadReport",
    "Schema",
    "SchemaRequest",
    "Summary",
    "cache_folder",
    "dataset_path",
    "describe",
    "download",
    "find_dataset",
    "frame_events",
    "frame_schema",
    "get_dataset",
    "is_bipartite",
    "load_dataset",
    "missing_folder",
    "read_chunks",
    "read_events",
    "read_table",
    "read_tgb",
    "stream_dataset",
    "tgb_negatives",
    "write_events",
    "write_table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
