"""Data: readers and writers, the registry of public data sets, splits, negatives, and the simulator.

This module exports what turns files into `Events` and back.
"""

from tapgnn.data.datasets.download import download
from tapgnn.data.datasets.registry import (
    DATASETS,
    Dataset,
    cache_folder,
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
