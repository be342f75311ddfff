"""Comparison: any methods under one protocol and over several seeds, each run in a process of its own.

For every seed all methods get the same questions (`tapgnn.evaluation.questions`), and `measure` treats them alike.
docs/comparison.md says how each method uses the validation events. The runs are those of `tapgnn.evaluation.runner`:
with a folder they are stored, and finished ones are not done again, except those of older code.

The training time of a first run includes the compilation of loops. `memory_mb` is the peak resident size of the process
(ru_maxrss) minus its peak just before the fit, when library and data are loaded. A run that fails, or whose process
dies, is a run with `error`, and the others continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tapgnn.data.datasets.tgb_negatives import BoardNegatives
from tapgnn.data.schema import Schema
from tapgnn.errors import ConfigError
from tapgnn.estimator import TAPGNN
from tapgnn.evaluation.harness import (
    FORMS,
    NAMES,
    Maker,
    averages,
    given_to,
    make_method,
    measured,
    with_dense_features,
)
from tapgnn.evaluation.protocols import ProtocolName, find_protocol
from tapgnn.evaluation.questions import NAME, Assessment
from tapgnn.evaluation.runner import Found, Listener, Progress, Run, perform_runs, stored_run, versions
from tapgnn.events import Events, events_fingerprint

# Of all runs, in place of the name of a data set: a comparison is of one log.
LOG = "log"


@dataclass(frozen=True)
class Comparison:
    """The work of a comparison: methods with the questions of a seed.

    assessments   the questions of a seed
    make          a method from its name and seed; where it is None, `make_method`
    params        what that gives TAP-GNN
    shared        the settings that all runs have in common
    own           those of TAP-GNN: its model and its training
    """

    assessments: Callable[..., Assessment]
    make: Maker | None
    params: Mapping[str, Any]
    shared: Mapping[str, Any]
    own: Mapping[str, Any]

    def perform(self, run: Run, /) -> dict[str, Any]:
        """Build a method, and measure it."""
        questions = self.assessments(seed=run.seed)
        build = self.make or partial(make_method, window=questions.window, **self.params)
        return measured(build, run.method, questions)

    def settings(self, run: Run, /) -> dict[str, Any]:
        """The log, the protocol and, of TAP-GNN, the model and its training."""
        if run.method != NAME:
            return dict(self.shared)
        return {**self.shared, **self.own, "training": {**self.own["training"], "seed": run.seed}}


def compare(
    events: Events,
    methods: Sequence[str] = ("all",),
    protocol: ProtocolName = "strict",
    seeds: int = 5,
    estimator: TAPGNN | None = None,
    processes: int = 1,
    threads: int = 1,
    folder: str | Path | None = None,
    listener: Listener | None = None,
    make: Maker | None = None,
    schema: Schema | None = None,
    negatives: BoardNegatives | None = None,
) -> dict[str, Any]:
    """Run every method under one protocol; metrics and costs by method, with protocol, seeds, versions and data.

    TAP-GNN is as the estimator is configured, whose `lag` counts for all methods (`tapgnn.baselines.lag`) and whose
    `seed` is the first. `negatives` as in `evaluate`. With a folder finished runs are kept there, and not done again.
    Ctrl-C keeps the finished runs; before the first there is nothing to keep, and the KeyboardInterrupt is raised.

    New processes import the calling script, which must keep its own work under `if __name__ == "__main__"`. `make`
    builds your own methods from name and seed, and must be importable.
    """
    names = chosen_methods(methods) if make is None else list(dict.fromkeys(methods))
    rules = find_protocol(protocol).for_any_method()
    estimator = estimator or TAPGNN()
    resolved, params = estimator.resolved(), {**estimator.get_params(), "schema": schema}
    first, lag = params.pop("seed"), estimator.lag
    if seeds < 1 or threads < 1 or processes < 1:
        raise ConfigError(f"seeds, processes and threads must be at least 1, not {seeds}, {processes} and {threads}")
    split = with_dense_features(rules.split(events), schema)
    data = {
        "sha256": events_fingerprint(events),
        "events": len(events),
        "nodes": len(events.vocabulary),
        **{f"{part}_events": len(getattr(split, part)) for part in ("train", "valid", "test")},
    }
    work = Comparison(
        partial(FORMS[rules.form], split, rules, lag=lag, **given_to(rules, split, negatives)),
        make,
        params,
        {
            "protocol": protocol,
            "lag": lag,
            "data_sha256": data["sha256"],
            "schema": None if schema is None else schema.to_dict(),
        },
        {name: resolved[name] for name in ("model", "training")},
    )
    runs = [Run(LOG, name, seed) for seed in range(first, first + seeds) for name in names]
    found, interrupted = _perform(work, runs, folder, processes, threads, listener)
    ended = [name for name in names if any(run.method == name for run in found)]
    return {
        "methods": {
            name: summary([{"seed": run.seed, **found[run]} for run in runs if run.method == name and run in found])
            for name in ended
        },
        "protocol": protocol,
        "lag": lag,
        "settings": resolved,
        "seeds": sorted({run.seed for run in found}),
        "interrupted": interrupted,
        "versions": versions(threads),
        "data": data,
    }


def _perform(
    work: Comparison,
    runs: Sequence[Run],
    folder: str | Path | None,
    processes: int,
    threads: int,
    listener: Listener | None,
) -> tuple[dict[Run, Found], bool]:
    """What every run found, those that the folder held included, and whether Ctrl-C interrupted the others."""
    place = None if folder is None else Path(folder)
    found = {run: kept for run in runs if (kept := stored_run(work, run, place, again=True)) is not None}

    def tell(progress: Progress) -> None:
        if progress.found is not None:
            found[progress.run] = progress.found
        if listener is not None:
            listener(progress)

    try:
        perform_runs(work, runs, place, processes, threads, tell, preload="tapgnn.evaluation.harness", again=True)
    except KeyboardInterrupt:
        if not found:
            raise
        return found, True
    return found, False


def chosen_methods(names: Sequence[str]) -> list[str]:
    """The names in order without duplicates; 'all' stands for every method, and an unknown name is an error."""
    chosen = list(dict.fromkeys(NAMES if "all" in names else names))
    unknown = [name for name in chosen if name not in NAMES]
    if unknown or not chosen:
        what = f"there is no method {unknown[0]!r}" if unknown else "no method was given"
        raise ConfigError(f"{what}; the methods are {', '.join(NAMES)}, or all")
    return chosen


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The row of a method from its runs, one per seed: averages of those that finished, how many failed, and the runs.

    `error` is the message of the first failed run; `alternatives` have averages of their own.
    """
    errors = [run["error"] for run in runs if "error" in run]
    finished = [run for run in runs if "error" not in run]
    row: dict[str, Any] = {}
    if finished:
        row = {**averages(finished), "sees_history": bool(finished[0]["sees_history"])}
        if names := finished[0].get("alternatives"):
            row["alternatives"] = {name: averages([run["alternatives"][name] for run in finished]) for name in names}
    if errors:
        row["error"] = errors[0]
    return {**row, "failed": len(errors), "runs": list(runs)}
