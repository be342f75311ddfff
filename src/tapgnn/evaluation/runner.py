"""Runner: runs of methods, several at a time, each kept in a file of its own as soon as it has finished.

A run is one training or measurement, done in a process of its own. A stored run is done again only where its file is
missing, failed, or is of other settings, so that work resumes wherever it was killed. One of older code (`revisions`)
counts until it is repeated on request. Files are written whole or not at all. `tapgnn compare` and
`tapgnn reproduce` both work this way.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Protocol

import numba
import numpy as np
import torch

from tapgnn.baselines.shared.subprocess_run import SubprocessRun
from tapgnn.errors import ConfigError
from tapgnn.evaluation.revisions import is_older, revisions_of, stored_revisions
from tapgnn.file_integrity import write_atomically
from tapgnn.threads import thread_count

Found = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One run: its data set, what runs on it, and its seed; quick: on the first events of the data set alone."""

    dataset: str
    method: str
    seed: int
    quick: bool = False

    @property
    def place(self) -> str:
        """Its file in the folder of the runs."""
        return f"runs/{self.dataset}/{self.method}/{self.seed}.json"


class Work(Protocol):
    """What a run does, in a process of its own, and the settings that determine its outcome."""

    def perform(self, run: Run, /) -> dict[str, Any]:
        """What a run finds, as plain values."""

    def settings(self, run: Run, /) -> dict[str, Any]:
        """The settings of a run; a stored one counts only while they are the same."""


@dataclass(frozen=True)
class Progress:
    """A run starts (`found` is None), or has finished; `done` counts the finished ones of `total`."""

    run: Run
    done: int
    total: int
    found: Found | None = None


Listener = Callable[[Progress], None]


def perform_runs(
    work: Work,
    runs: Sequence[Run],
    folder: Path | None = None,
    processes: int = 1,
    threads: int = 1,
    listener: Listener | None = None,
    preload: str = __name__,
    again: bool = False,
) -> int:
    """Do the runs that the folder does not hold yet, and store them there; how many of them failed.

    Without a folder nothing is stored, and the listener alone gets what is found. `preload` names the module that new
    processes start with. With `again`, runs of older code are done as well. Ctrl-C ends the runs at work, and keeps
    the finished ones.
    """
    if processes < 1 or threads < 1:
        raise ConfigError(f"processes and threads must be at least 1, not {processes} and {threads}")
    tell = listener or (lambda progress: None)
    waiting = [run for run in runs if stored_run(work, run, folder, again) is None]
    done, failed = len(runs) - len(waiting), 0
    at_work: dict[Any, tuple[Run, SubprocessRun, float]] = {}
    try:
        while waiting or at_work:
            while waiting and len(at_work) < processes:
                run = waiting.pop(0)
                tell(Progress(run, done, len(runs)))
                started = SubprocessRun(work.perform, run, threads=threads, preload=preload)
                at_work[started.receiver] = run, started, time.perf_counter()
            for receiver in wait([*at_work]):
                run, started, start = at_work.pop(receiver)
                found = started.result()
                started.end()
                if folder is not None:
                    _store(work, run, folder, found, time.perf_counter() - start, threads)
                done, failed = done + 1, failed + ("error" in found)
                tell(Progress(run, done, len(runs), found))
    finally:
        for _, started, _ in at_work.values():
            started.end()
    return failed


def stored_run(work: Work, run: Run, folder: Path | None, again: bool = False) -> Found | None:
    """What a run found, where its file is there and counts; with `again`, one of older code does not."""
    if folder is None:
        return None
    values = read_run(folder / run.place)
    settings = json.loads(json.dumps(work.settings(run)))
    if values.get("settings") != settings or bool(values.get("quick")) != run.quick:
        return None
    if again and is_older(stored_revisions(values)):
        return None
    found = values.get("found")
    return found if isinstance(found, dict) and "error" not in found else None


def older_runs(work: Work, runs: Sequence[Run], folder: Path) -> list[Run]:
    """Those of the runs that the folder holds from older code."""
    held = [run for run in runs if stored_run(work, run, folder) is not None]
    return [run for run in held if stored_run(work, run, folder, again=True) is None]


def runs_in(folder: Path) -> Iterator[Run]:
    """The runs that have a file in a folder, whether it counts or not."""
    for path in folder.glob("runs/*/*/*.json"):
        dataset, method, seed = path.relative_to(folder / "runs").with_suffix("").parts
        if seed.isdecimal():
            yield Run(dataset, method, int(seed), bool(read_run(path).get("quick")))


def read_run(path: Path) -> dict[str, Any]:
    """The values in a file of a run; none where it is missing or no such file."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _store(work: Work, run: Run, folder: Path, found: Found, seconds: float, threads: int) -> None:
    """Store what a run found, with everything that determined it."""
    settings = work.settings(run)
    values = {
        **asdict(run),
        "settings": settings,
        "revisions": revisions_of(run.method, settings),
        "found": found,
        "seconds": round(seconds, 1),
        "versions": versions(threads),
    }
    write_atomically(folder / run.place, json.dumps(values, indent=1) + "\n")


def versions(threads: int | None = None) -> dict[str, str]:
    """The versions of the libraries, and the number of threads: by default, that of this process."""
    from tapgnn import __version__

    libraries = {library.__name__: str(library.__version__) for library in (torch, np, numba)}
    count = str(thread_count() if threads is None else threads)
    return {"tapgnn": __version__, **libraries, "python": platform.python_version(), "threads": count}
