"""The Temporal Graph Benchmark: its data sets by name (tgbl-wiki, tgbn-trade, ...), from the files of `py-tgb`.

Of a few the events are a registered data set, which stands in where `py-tgb` or its files are missing: the features of
the events are then those that the registered file has.
"""

from __future__ import annotations

import contextlib
import importlib
import io
from pathlib import Path
from typing import Any

from tapgnn.errors import DatasetError
from tapgnn.events import Events
from tapgnn.vocabulary import Vocabulary

# Data sets with the events of a registered one: the same ids, times and order.
SAME_EVENTS = {"tgbl-wiki": "wikipedia"}
_LOADERS = {
    "tgbl-": ("tgb.linkproppred.dataset", "LinkPropPredDataset"),
    "tgbn-": ("tgb.nodeproppred.dataset", "NodePropPredDataset"),
}


def is_tgb(name: str) -> bool:
    """Whether a name belongs to the benchmark: link prediction (tgbl-...) or node properties (tgbn-...).

    >>> is_tgb("tgbl-wiki"), is_tgb("wikipedia")
    (True, False)
    """
    return name.startswith(tuple(_LOADERS))


def read_tgb(name: str, *, root: str = "datasets", vocabulary: Vocabulary | None = None) -> Events:
    """Read the events of a Temporal Graph Benchmark data set, such as 'tgbl-wiki' (the edges, for 'tgbn-...').

    `root` is relative to the folder of `py-tgb`, as in its `LinkPropPredDataset`.
    """
    file, loader = tgb_file(name, root), _loader(name)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            columns = loader(name=name, root=root).full_data
    except Exception as error:
        raise DatasetError(f"{name}: py-tgb cannot read {file} ({error}); download it again") from error
    vectors = columns["edge_feat"]
    named = {} if vectors is None else {f"f{place}": vectors[:, place] for place in range(vectors.shape[1])}
    return Events.from_arrays(
        columns["sources"], columns["destinations"], columns["timestamps"], vocabulary=vocabulary, columns=named
    )


def has_tgb(name: str) -> bool:
    """Whether `py-tgb` and its file of this data set are on this machine."""
    try:
        return tgb_file(name).is_file()
    except DatasetError:
        return False


def tgb_file(name: str, root: str = "datasets") -> Path:
    """The file that `py-tgb` reads; checked first, because `py-tgb` prompts or downloads when a file is missing."""
    loader = _loader(name)
    info = importlib.import_module("tgb.utils.info")
    version = int(info.DATA_VERSION_DICT.get(name, 1))
    folder = Path(info.PROJ_DIR + root) / name.replace("-", "_")
    ending = f"{f'_v{version}' if version > 1 else ''}.csv"
    kinds = ("edgelist", "node_labels") if name.startswith("tgbn-") else ("edgelist",)
    for file in (folder / f"{name}_{kind}{ending}" for kind in kinds):
        if not file.is_file():
            raise DatasetError(f"{name}: {file} does not exist; download it with py-tgb ({loader.__name__}) first")
    return folder / f"{name}_edgelist{ending}"


def _loader(name: str) -> Any:
    """The `py-tgb` class that reads this data set."""
    module, kind = next((entry for prefix, entry in _LOADERS.items() if name.startswith(prefix)), _LOADERS["tgbl-"])
    try:
        return getattr(importlib.import_module(module), kind)
    except ImportError:
        raise DatasetError(f"{name} needs the package py-tgb; run 'pip install py-tgb'") from None
