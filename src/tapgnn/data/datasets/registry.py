"""Registry: the paper's eight data sets by name, where they come from, and how one is found on this machine.

A name is looked up in the folder that the environment variable TAPGNN_DATA names, then in the cache folder
(TAPGNN_CACHE, or the platform's cache); nothing is fetched unless `download` is called. A damaged copy is never used: a
file must have one of its known checksums and the registered number of events. When a download was accepted with the
user's own checksum, or without one, the checksum of the file is stored next to it in FILE.sha256 and counts as known
from then on.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

from tapgnn.cache_folder import cache_folder
from tapgnn.data.datasets.tgb import SAME_EVENTS, has_tgb, is_tgb, read_tgb, tgb_file
from tapgnn.data.reading.reader import ReadOptions, read_chunks, read_events
from tapgnn.data.schema import Schema
from tapgnn.errors import DatasetError
from tapgnn.events import Events
from tapgnn.file_integrity import file_sha256

_REPOSITORY = "https://nrvis.com/download/data/dynamic"
_JODIE = "https://snap.stanford.edu/jodie"


@dataclass(frozen=True)
class Dataset:
    """A public data set.

    files      the file names that are looked for, in order of preference; a download is stored under the first
    sha256     checksum of the downloaded file (unpacked, if it comes in a zip), None if it is not known
    checksums  checksums of other copies that are known to be good, by file name
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

    @property
    def command(self) -> str:
        """The command that downloads it."""
        return f"tapgnn datasets download {self.name}" + ("" if self.sha256 else " --unverified")

    def known_checksums(self, path: Path) -> set[str]:
        """The checksums that a good copy of this file may have; empty if none is known."""
        own = {self.sha256} if path.name == self.files[0] else set()
        noted = checksum_file(path)
        kept = noted.read_text(encoding="utf-8", errors="replace").split()[:1] if noted.is_file() else []
        return {known for known in (*own, self.checksums.get(path.name), *map(str.lower, kept)) if known}


def checksum_file(path: Path) -> Path:
    """The file next to a data set that holds its checksum."""
    return path.with_name(f"{path.name}.sha256")


_BARE = {"wikipedia-nofeatures.csv": "b68d35966dd1c013bce7432184778eb6edb0766ad65cd66bb5ca7ed9876c81ab"}
# Of the copies of Network Repository that have a header (from_node_id, to_node_id, ...).
_WITH_HEADER = {
    "fb-forum": "4af43da710a410c7a2103e0344c4e3f3560e4ed7a8cc73b0975af87d3d6d9cb6",
    "soc-sign-bitcoinotc": "e38dd98d98ee58568de91cbbcbdbad8a52cee251a93aad8bcf7ca324b14f862c",
    "ia-escorts-dynamic": "39d9d24d890a77251fe9fe1477ba061563c370b37a3c238da4138639a36c351a",
    "ia-movielens-user2tags-10m": "5268b1cf3f944772ca444c293c06779c8ed5790170c3d72f0c65635a61952da8",
    "soc-wiki-elec": "164a122aeaa97aeaa19ba658015d86711cd2ef3e6b91b6bb37e538fab385390e",
    "ia-slashdot-reply-dir": "b40063b2ab027b2415bd313e63ca75f745c10d3c69f5f3d1c00fbc2c8592316f",
}


def _edges(name: str, nodes: int, events: int, bipartite: bool = False, sha256: str | None = None) -> Dataset:
    """An entry of Network Repository."""
    file, url = f"{name}.edges", f"{_REPOSITORY}/{name}.zip"
    return Dataset(name, url, "edges", nodes, events, bipartite, (file,), sha256, {file: _WITH_HEADER[name]})


_ENTRIES = (
    _edges("fb-forum", 899, 33_720, sha256="4aa6ba14f2440e582e1cec3357ef9a4ac8020fe72ec6b31a7ff746e291356088"),
    _edges("soc-sign-bitcoinotc", 5_881, 35_592),
    _edges("ia-escorts-dynamic", 16_730, 50_632, bipartite=True),
    _edges("ia-movielens-user2tags-10m", 20_537, 95_580, bipartite=True),
    _edges("soc-wiki-elec", 7_118, 107_071),
    _edges("ia-slashdot-reply-dir", 51_083, 140_778),
    Dataset(
        "wikipedia", f"{_JODIE}/wikipedia.csv", "jodie", 9_227, 157_474, True, ("wikipedia.csv", *_BARE), None, _BARE
    ),
    Dataset("reddit", f"{_JODIE}/reddit.csv", "jodie", 10_984, 672_447, True, ("reddit.csv",)),
)
DATASETS: Mapping[str, Dataset] = {entry.name: entry for entry in _ENTRIES}


def get_dataset(name: str) -> Dataset:
    """The entry of a registered data set; the error for an unknown name lists the known ones."""
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise DatasetError(f"there is no data set {name!r}{hint}; the data sets are {', '.join(DATASETS)}")
    return DATASETS[name]


def find_dataset(name: str) -> Path | None:
    """The file of a registered data set on this machine: in TAPGNN_DATA, else in the cache, else None."""
    entry = get_dataset(name)
    folders = [Path(given) for given in (os.environ.get("TAPGNN_DATA"), cache_folder()) if given]
    return next((path for folder in folders for file in entry.files if (path := folder / file).is_file()), None)


def missing_folder() -> str:
    """A warning if TAPGNN_DATA does not name a folder, otherwise an empty string."""
    given = os.environ.get("TAPGNN_DATA")
    return f"TAPGNN_DATA is set to {given}, which is not a folder" if given and not Path(given).is_dir() else ""


def registered_name(name_or_path: str | Path) -> str:
    """The name itself; that of the registered data set with the same events, if only this one is on this machine."""
    text = str(name_or_path)
    twin = SAME_EVENTS.get(text)
    return twin if twin and not Path(text).exists() and not has_tgb(text) and find_dataset(twin) else text


def dataset_path(name_or_path: str | Path) -> Path:
    """The file that a user means: a path, or the name of a data set that is on this machine."""
    text = registered_name(name_or_path)
    if text not in DATASETS:
        path = Path(name_or_path)
        if path.exists() or path.suffix or len(path.parts) > 1:
            return path
        if is_tgb(text):
            return tgb_file(text)
    found = find_dataset(text)
    if found is None:
        entry, remark = DATASETS[text], missing_folder()
        raise DatasetError(
            f"{text} is not on this machine; run '{entry.command}', or set TAPGNN_DATA to a folder that contains "
            f"{entry.files[-1]}{f' ({remark})' if remark else ''}"
        )
    return found


def load_dataset(name_or_path: str | Path, **options: Unpack[ReadOptions]) -> Events:
    """Read a file, or a registered data set by its name; `options` are those of `read_events`.

    A data set of the Temporal Graph Benchmark, such as 'tgbl-wiki', is read from the files of `py-tgb`, or from the
    registered data set that has its events.
    """
    path, name = dataset_path(name_or_path), registered_name(name_or_path)
    if is_tgb(name) and path != Path(name):
        return _from_tgb(name, options)
    entry = _verified(name, path)
    events = read_events(path, **options)
    _check_count(entry, path, len(events))
    return events


def stream_dataset(name_or_path: str | Path, size: int, **options: Unpack[ReadOptions]) -> Iterator[Events]:
    """`load_dataset` in chunks, as `read_chunks` cuts them; a Temporal Graph Benchmark data set is held in memory."""
    path, name = dataset_path(name_or_path), registered_name(name_or_path)
    if is_tgb(name) and path != Path(name):
        yield from _from_tgb(name, options).chunks(size)
        return
    entry, count = _verified(name, path), 0
    for chunk in read_chunks(path, size, **options):
        count += len(chunk)
        yield chunk
    _check_count(entry, path, count)


def _from_tgb(name: str, options: ReadOptions) -> Events:
    events, report = read_tgb(name, vocabulary=options.get("vocabulary")), options.get("report")
    if report is not None:
        report.format, report.rows = "tgb", len(events)
        report.schema = Schema(columns=dict.fromkeys(events.columns, "number"))
    return events


def _verified(name_or_path: str | Path, path: Path) -> Dataset | None:
    """The entry of a data set that was requested by name; the checksum of its file must be known."""
    entry = DATASETS.get(str(name_or_path))
    known = set() if entry is None else entry.known_checksums(path)
    if known and (found := file_sha256(path)) not in known:
        raise DatasetError(
            f"{path} is damaged, or not a known copy of {name_or_path}: its SHA-256 is {found}, expected "
            f"{' or '.join(sorted(known))}; download the file again, pass its path instead of the name to use it as it "
            f"is, or, if you trust it, write its SHA-256 to {checksum_file(path).name} next to it"
        )
    return entry


def _check_count(entry: Dataset | None, path: Path, count: int) -> None:
    if entry is not None and count != entry.events:
        raise DatasetError(
            f"{path} contains {count:,} events, but {entry.name} has {entry.events:,}; "
            "download the file again, or pass its path instead of the name to use it as it is"
        )
