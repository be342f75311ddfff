"""Experiment: a table or figure of the paper as a list of runs, and what is made of their results.

`settings` is everything besides the code that determines the outcome of a run; a stored run counts only while its
settings are today's (`tapgnn.evaluation.runner`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tapgnn.errors import ConfigError
from tapgnn.evaluation.runner import Run, runs_in, stored_run
from tapgnn.experiments.figures import ResultFigure
from tapgnn.experiments.tables import ResultTable

# Events of a data set that a quick run reads, and its number of seeds.
QUICK_EVENTS, QUICK_SEEDS = 2_500, 1


@dataclass(frozen=True)
class FinishedRun:
    """A run with what it found."""

    run: Run
    found: Mapping[str, Any]


@dataclass(frozen=True)
class Experiment:
    """What `tapgnn reproduce NAME` does.

    perform    does a run, in a process of its own, and gives plain values
    tables     what is made of all finished runs
    settings   the settings of a run, beside its data set, method and seed
    figures    likewise
    seeds      how many seeds a method has, where none are given
    runs_of    the experiment that has the same runs, and their files
    timed      its runs measure time, and are done one after the other on one thread
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    perform: Callable[[Run], dict[str, Any]]
    tables: Callable[[Sequence[FinishedRun]], list[ResultTable]]
    settings: Callable[[Run], dict[str, Any]] = field(default=lambda run: {})
    figures: Callable[[Sequence[FinishedRun]], list[ResultFigure]] = field(default=lambda finished: [])
    seeds: int = 5
    runs_of: str = ""
    timed: bool = False

    def folder_of_runs(self, out: Path) -> Path:
        """Where the files of its runs are, among the results of all experiments."""
        return out / (self.runs_of or self.name)

    def finished(self, folder: Path) -> Iterator[FinishedRun]:
        """All finished runs in the folder of its runs that are of today's settings, in the order of the experiment."""
        datasets, methods = self.datasets, self.methods
        runs = [run for run in runs_in(folder) if run.dataset in datasets and run.method in methods]
        for run in sorted(runs, key=lambda run: (datasets.index(run.dataset), methods.index(run.method), run.seed)):
            found = stored_run(self, run, folder)
            if found is not None:
                yield FinishedRun(run, found)

    def runs(
        self,
        datasets: Sequence[str] | None = None,
        methods: Sequence[str] | None = None,
        seeds: int | None = None,
        quick: bool = False,
    ) -> list[Run]:
        """The runs that are asked for, seed by seed; names that the experiment does not have are an error."""
        chosen = _chosen("data set", datasets, self.datasets), _chosen("method", methods, self.methods)
        count = (QUICK_SEEDS if quick else self.seeds) if seeds is None else seeds
        if count < 1:
            raise ConfigError(f"seeds must be at least 1, not {count}")
        return [
            Run(dataset, method, seed, quick) for seed in range(count) for dataset in chosen[0] for method in chosen[1]
        ]


def _chosen(kind: str, names: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The names without duplicates; all where none are given."""
    chosen = list(dict.fromkeys(known if names is None else names))
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise ConfigError(f"there is no {kind} {unknown[0]!r} in this experiment; it has {', '.join(known)}")
    return chosen
