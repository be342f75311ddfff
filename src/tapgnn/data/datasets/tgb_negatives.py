"""The negatives of the Temporal Graph Benchmark: what each validation and test event is ranked against.

`py-tgb` keeps them beside the events, a pickled dictionary {(source, destination, time): destinations} for each part.
They are read without running what a pickle may contain: nothing but arrays of numpy is built.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tapgnn.data.datasets.tgb import tgb_file
from tapgnn.errors import DatasetError
from tapgnn.events import Events, Ints

# The parts of a split, and what py-tgb calls them.
PARTS = {"valid": "val", "test": "test"}
BoardNegatives = Callable[[str, Events], Ints]


def tgb_negatives(name: str, root: str = "datasets") -> BoardNegatives | None:
    """The negatives [E, n] of a part ('valid' or 'test') of a data set, as rows of its vocabulary; -1 fills up.

    None where `py-tgb` has no such files on this machine; every event is then ranked among all destinations.
    """
    try:
        files = {part: negatives_file(tgb_file(name, root), part) for part in PARTS}
    except DatasetError:
        return None
    if not all(file.is_file() for file in files.values()):
        return None
    return lambda part, events: read_negatives(files[part], events)


def negatives_file(edges: Path, part: str) -> Path:
    """The file of a part beside that of the events."""
    return edges.with_name(edges.name.replace("_edgelist", f"_{PARTS[part]}_ns")).with_suffix(".pkl")


def read_negatives(file: Path, events: Events) -> Ints:
    """[E, n] the negatives of each event, as rows of the vocabulary; -1 where an event has fewer than others."""
    lists = _load(file)
    ids = events.vocabulary.ids
    keys = zip(events.src.tolist(), events.dst.tolist(), events.time.tolist(), strict=True)
    found = [np.asarray(lists.get((ids[src], ids[dst], time), ())) for src, dst, time in keys]
    missing = next((row for row, each in enumerate(found) if not len(each)), None)
    if missing is not None:
        event = (ids[events.src[missing]], ids[events.dst[missing]], events.time[missing])
        raise DatasetError(f"{file} has no negatives for the event {event}; download it again with py-tgb")
    counts = np.array([len(each) for each in found])
    rows = events.vocabulary.add(np.concatenate(found))
    padded = np.full((len(found), counts.max(initial=0)), -1, dtype=np.int64)
    padded[np.arange(padded.shape[1]) < counts[:, None]] = rows
    return padded


_KINDS = {("numpy", "ndarray"), ("numpy", "dtype")}


class _Arrays(pickle.Unpickler):
    """Builds arrays of numpy, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        inside = module.startswith(("numpy.core.", "numpy._core."))
        if (inside and name in ("_reconstruct", "scalar", "_frombuffer")) or (module, name) in _KINDS:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it contains {module}.{name}")


def _load(file: Path) -> Mapping[Any, Any]:
    try:
        with open(file, "rb") as stream:
            lists = _Arrays(stream).load()
    except Exception as error:  # a damaged pickle fails in many ways
        raise DatasetError(f"{file} cannot be read ({error}); download it again with py-tgb") from error
    if not isinstance(lists, dict):
        raise DatasetError(f"{file} does not hold negatives by event; download it again with py-tgb")
    return lists
