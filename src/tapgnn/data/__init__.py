"""Data: readers and writers, the registry of public data sets, splits, negatives, and the simulator.

This page exports what turns files into `Events` and back.
"""

from tapgnn.data.download import checksum, download
from tapgnn.data.readers import ReadReport, read_chunks, read_events
from tapgnn.data.registry import (
    DATASETS,
    Dataset,
    cache_folder,
    dataset_path,
    find_dataset,
    get_dataset,
    load_dataset,
    read_tgb,
)
from tapgnn.data.statistics import describe, is_bipartite, repetition
from tapgnn.data.writers import write_events

__all__ = [
    "DATASETS",
    "Dataset",
    "ReadReport",
    "cache_folder",
    "checksum",
    "dataset_path",
    "describe",
    "download",
    "find_dataset",
    "get_dataset",
    "is_bipartite",
    "load_dataset",
    "read_chunks",
    "read_events",
    "read_tgb",
    "repetition",
    "write_events",
]
