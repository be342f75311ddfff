"""Registry: the paper's eight data sets by name, where they come from, and how one is found on this machine.

A name is looked up in the folder of the environment variable TAPGNN_DATA, then in the cache folder (TAPGNN_CACHE, or
the platform's cache); nothing is fetched unless `download` is called. A file that does not hold the registered number
of events is refused, so that a damaged copy never passes for the data set. The counts are those of the files.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

from tapgnn.data.readers import ReadOptions, read_events
from tapgnn.errors import DatasetError
from tapgnn.events import Events, Vocabulary

_REPOSITORY = "https://nrvis.com/download/data/dynamic"
_JODIE = "https://snap.stanford.edu/jodie"


@dataclass(frozen=True)
class Dataset:
    """A public data set.

    files      the names it may have in a folder, the best first; a download is stored under the first
    sha256     of the file that a download leaves (out of its zip, where it comes in one), None where it is not known
    checksums  of other copies that are known to be good, by file name
    """

    name: str
    url: str
    format: str
    nodes: int
    events: int
    bipartite: bool
    files: tuple[str, ...]
    sha256: str | None = None
    checksums: Mapping[str, str] = field(default_factory=dict)


def _edges(
    name: str, nodes: int, events: int, checksum: str, *, bipartite: bool = False, sha256: str | None = None
) -> Dataset:
    """An entry of Network Repository, with the checksum of its copy with a header (from_node_id, to_node_id, ...)."""
    file = f"{name}.edges"
    return Dataset(
        name, f"{_REPOSITORY}/{name}.zip", "edges", nodes, events, bipartite, (file,), sha256, {file: checksum}
    )


_ENTRIES = (
    _edges(
        "fb-forum",
        899,
        33_720,
        "4af43da710a410c7a2103e0344c4e3f3560e4ed7a8cc73b0975af87d3d6d9cb6",
        sha256="4aa6ba14f2440e582e1cec3357ef9a4ac8020fe72ec6b31a7ff746e291356088",
    ),
    _edges(
        "soc-sign-bitcoinotc",
        5_881,
        35_592,
        "e38dd98d98ee58568de91cbbcbdbad8a52cee251a93aad8bcf7ca324b14f862c",
    ),
    _edges(
        "ia-escorts-dynamic",
        16_730,
        50_632,
        "39d9d24d890a77251fe9fe1477ba061563c370b37a3c238da4138639a36c351a",
        bipartite=True,
    ),
    _edges(
        "ia-movielens-user2tags-10m",
        20_537,
        95_580,
        "5268b1cf3f944772ca444c293c06779c8ed5790170c3d72f0c65635a61952da8",
        bipartite=True,
    ),
    _edges(
        "soc-wiki-elec",
        7_118,
        107_071,
        "164a122aeaa97aeaa19ba658015d86711cd2ef3e6b91b6bb37e538fab385390e",
    ),
    _edges(
        "ia-slashdot-reply-dir",
        51_083,
        140_778,
        "b40063b2ab027b2415bd313e63ca75f745c10d3c69f5f3d1c00fbc2c8592316f",
    ),
    Dataset(
        "wikipedia",
        f"{_JODIE}/wikipedia.csv",
        "jodie",
        9_227,
        157_474,
        True,
        ("wikipedia.csv", "wikipedia-nofeatures.csv"),
        checksums={"wikipedia-nofeatures.csv": "b68d35966dd1c013bce7432184778eb6edb0766ad65cd66bb5ca7ed9876c81ab"},
    ),
    Dataset("reddit", f"{_JODIE}/reddit.csv", "jodie", 10_984, 672_447, True, ("reddit.csv",)),
)
DATASETS: Mapping[str, Dataset] = {entry.name: entry for entry in _ENTRIES}


def get_dataset(name: str) -> Dataset:
    """The entry of a registered data set; an unknown name is an error that lists the known ones."""
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise DatasetError(f"no data set is called {name!r}{hint}; the names are {', '.join(DATASETS)}")
    return DATASETS[name]


def cache_folder() -> Path:
    """Where downloads are kept: TAPGNN_CACHE, or the folder that the platform has for such files."""
    if chosen := os.environ.get("TAPGNN_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "tapgnn"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tapgnn"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tapgnn"


def find_dataset(name: str) -> Path | None:
    """The file of a registered data set on this machine: in TAPGNN_DATA, else in the cache, else None."""
    entry = get_dataset(name)
    given = os.environ.get("TAPGNN_DATA")
    folders = [*([Path(given)] if given else []), cache_folder()]
    return next((path for folder in folders for file in entry.files if (path := folder / file).is_file()), None)


def dataset_path(name_or_path: str | Path) -> Path:
    """The file behind what a user typed: a path, or the name of a data set that is here."""
    text = str(name_or_path)
    if text not in DATASETS:
        path = Path(name_or_path)
        if path.exists() or path.suffix or len(path.parts) > 1:
            return path
    found = find_dataset(text)
    if found is None:
        file = DATASETS[text].files[-1]
        raise DatasetError(
            f"{text} is not on this machine; run 'tapgnn datasets download {text}', "
            f"or set TAPGNN_DATA to a folder that holds {file}"
        )
    return found


def load_dataset(name_or_path: str | Path, **options: Unpack[ReadOptions]) -> Events:
    """Read a file, or a registered data set by its name; `options` are those of `read_events`."""
    path = dataset_path(name_or_path)
    events = read_events(path, **options)
    entry = DATASETS.get(str(name_or_path))
    if entry is not None and len(events) != entry.events:
        raise DatasetError(
            f"{path} holds {len(events):,} events, but {entry.name} has {entry.events:,}; "
            "get the file again, or pass its path instead of the name to use it as it is"
        )
    return events


def read_tgb(name: str, *, root: str = "datasets", vocabulary: Vocabulary | None = None) -> Events:
    """Read a link data set of the Temporal Graph Benchmark, such as 'tgbl-wiki', from the files of `py-tgb`.

    `py-tgb` asks at the keyboard when its files are missing, so they are looked for first; `root` is relative to its
    own folder, as in its `LinkPropPredDataset`.
    """
    try:
        loader = importlib.import_module("tgb.linkproppred.dataset").LinkPropPredDataset
        info = importlib.import_module("tgb.utils.info")
    except ImportError:
        raise DatasetError(f"{name} needs the package py-tgb; run 'pip install py-tgb'") from None
    version = int(info.DATA_VERSION_DICT.get(name, 1))
    folder = Path(info.PROJ_DIR + root) / name.replace("-", "_")
    file = folder / f"{name}_edgelist{f'_v{version}' if version > 1 else ''}.csv"
    if not file.is_file():
        raise DatasetError(f"{name}: {file} is not there; download it with py-tgb (LinkPropPredDataset) first")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            columns = loader(name=name, root=root).full_data
    except Exception as error:
        raise DatasetError(f"{name}: py-tgb cannot read {file} ({error}); download it again") from error
    return Events.from_arrays(
        columns["sources"],
        columns["destinations"],
        columns["timestamps"],
        columns["edge_feat"],
        vocabulary=vocabulary,
    )
