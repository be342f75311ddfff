"""Registry: the paper's eight data sets by name, where they come from, and how one is found on this machine.

A name is looked up in the folder of the environment variable TAPGNN_DATA, then in the cache folder (TAPGNN_CACHE, or
the platform's cache); nothing is fetched unless `download` is called. A damaged copy never passes for the data set: a
file must have one of the checksums that are known for it, and the registered number of events. Where a download was
accepted with a checksum of the user's own, or with none, that of the file is kept beside it in FILE.sha256 and is known
from then on. The counts are those of the files.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

import pooch

from tapgnn.data.datasets.tgb import is_tgb, read_tgb, tgb_file
from tapgnn.data.reading.reader import ReadOptions, read_chunks, read_events
from tapgnn.errors import DatasetError
from tapgnn.events import Events
from tapgnn.file_integrity import file_sha256

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

    @property
    def command(self) -> str:
        """What fetches it from its public address."""
        return f"tapgnn datasets download {self.name}" + ("" if self.sha256 else " --unverified")

    def known_checksums(self, path: Path) -> set[str]:
        """Those that a good copy of this file may have; none where nobody knows."""
        own = {self.sha256} if path.name == self.files[0] else set()
        noted = note_of(path)
        kept = noted.read_text(encoding="utf-8", errors="replace").split()[:1] if noted.is_file() else []
        return {known for known in (*own, self.checksums.get(path.name), *map(str.lower, kept)) if known}


def note_of(path: Path) -> Path:
    """The file beside a data set that holds its checksum."""
    return path.with_name(f"{path.name}.sha256")


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
    return Path(os.environ.get("TAPGNN_CACHE") or pooch.os_cache("tapgnn"))


def find_dataset(name: str) -> Path | None:
    """The file of a registered data set on this machine: in TAPGNN_DATA, else in the cache, else None."""
    entry = get_dataset(name)
    given = os.environ.get("TAPGNN_DATA")
    folders = [*([Path(given)] if given else []), cache_folder()]
    return next((path for folder in folders for file in entry.files if (path := folder / file).is_file()), None)


def missing_folder() -> str:
    """A remark where TAPGNN_DATA names no folder, else an empty one."""
    given = os.environ.get("TAPGNN_DATA")
    return f"TAPGNN_DATA is {given}, where no folder is" if given and not Path(given).is_dir() else ""


def dataset_path(name_or_path: str | Path) -> Path:
    """The file behind what a user typed: a path, or the name of a data set that is here."""
    text = str(name_or_path)
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
            f"{text} is not on this machine; run '{entry.command}', or set TAPGNN_DATA to a folder that holds "
            f"{entry.files[-1]}{f' ({remark})' if remark else ''}"
        )
    return found


def load_dataset(name_or_path: str | Path, **options: Unpack[ReadOptions]) -> Events:
    """Read a file, or a registered data set by its name; `options` are those of `read_events`.

    A name of the Temporal Graph Benchmark, such as 'tgbl-wiki', is read from the files of `py-tgb`.
    """
    path = dataset_path(name_or_path)
    if is_tgb(str(name_or_path)) and path != Path(name_or_path):
        return _from_tgb(str(name_or_path), options)
    entry = _verified(name_or_path, path)
    events = read_events(path, **options)
    _check_count(entry, path, len(events))
    return events


def stream_dataset(name_or_path: str | Path, size: int, **options: Unpack[ReadOptions]) -> Iterator[Events]:
    """The same in chunks, as `read_chunks` gives them; a data set of the Temporal Graph Benchmark comes whole."""
    path = dataset_path(name_or_path)
    if is_tgb(str(name_or_path)) and path != Path(name_or_path):
        yield from _from_tgb(str(name_or_path), options).chunks(size)
        return
    entry, count = _verified(name_or_path, path), 0
    for chunk in read_chunks(path, size, **options):
        count += len(chunk)
        yield chunk
    _check_count(entry, path, count)


def _from_tgb(name: str, options: ReadOptions) -> Events:
    events, report = read_tgb(name, vocabulary=options.get("vocabulary")), options.get("report")
    if report is not None:
        report.format, report.rows = "tgb", len(events)
    return events


def _verified(name_or_path: str | Path, path: Path) -> Dataset | None:
    """The entry that a file stands for, if it was asked for by name; its bytes must be known ones."""
    entry = DATASETS.get(str(name_or_path))
    known = set() if entry is None else entry.known_checksums(path)
    if known and (found := file_sha256(path)) not in known:
        raise DatasetError(
            f"{path} is damaged, or not the known copy of {name_or_path}: its SHA-256 is {found}, expected "
            f"{' or '.join(sorted(known))}; get the file again, pass its path instead of the name to use it as it is, "
            f"or, if you trust it, write its SHA-256 into {note_of(path).name} beside it"
        )
    return entry


def _check_count(entry: Dataset | None, path: Path, count: int) -> None:
    if entry is not None and count != entry.events:
        raise DatasetError(
            f"{path} holds {count:,} events, but {entry.name} has {entry.events:,}; "
            "get the file again, or pass its path instead of the name to use it as it is"
        )
