"""reproduce: the tables and figures of the paper, one command each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tapgnn.cli.options import argument, command, listed, option
from tapgnn.cli.output import Output, check_folder, say
from tapgnn.cli.progress import RunScreen
from tapgnn.errors import ConfigError, DatasetError

if TYPE_CHECKING:
    from rich.table import Table

    from tapgnn.evaluation.runner import Found, Run
    from tapgnn.experiments.experiment import Experiment
    from tapgnn.experiments.tables import ResultTable

NameArgument = Annotated[
    str,
    argument(
        "NAME",
        "The experiment: data, links, kernels, ablation, sensitivity, nodes, latency, direct, map or beyond; or all.",
    ),
]


@command
def reproduce(
    name: NameArgument,
    output: Output,
    datasets: str | None = option("A,B,...", "Data sets, of those of the experiment.", "all"),
    methods: str | None = option("A,B,...", "Methods, of those of the experiment.", "all"),
    seeds: int | None = option("N", "Number of runs of every method, each with its own seed.", "of the experiment"),
    again: bool = option(
        "", "Repeat stored runs of older code, whose results may differ.", False, "--again", default=False
    ),
    quick: bool = option("", "Try it out: one seed, the first events alone.", False, "--quick", default=False),
    processes: int = option("N", "Number of runs at a time; what measures time has one.", default=1),
    threads: int = option(
        "N", "Number of threads for each run, in all libraries; what measures time has one.", default=1
    ),
    out: Path = option(
        "FOLDER", "Results go to a folder of the experiment's name in this one.", default=Path("results")
    ),
) -> None:
    """Run an experiment of the paper, and write its tables and figures, with the numbers that the paper prints.

    Every finished run is kept in a file of its own. A reproduction that was stopped anywhere, by Ctrl-C or worse, goes
    on where it was when the same command is given again; runs of other settings than today's are done again. Those of
    older code count, and are listed, until --again repeats them.
    """
    from tapgnn.experiments import EXPERIMENTS, find_experiment

    if name == "all" and (datasets or methods):
        raise ConfigError("--datasets and --methods are those of one experiment; name it in place of 'all'")
    out, plan = out / ("quick" if quick else ""), {}
    for experiment in map(find_experiment, EXPERIMENTS if name == "all" else (name,)):
        try:
            plan[experiment] = _runs(experiment, listed(datasets), listed(methods), seeds, quick)
        except DatasetError as error:
            if name != "all":
                raise
            say(f"{experiment.name} is left out: {error}")
    if not plan:
        raise DatasetError("no data set is on this machine; see 'tapgnn datasets list'")
    for experiment in plan:
        check_folder(out / experiment.name)
    failed, results = 0, {}
    for experiment, runs in plan.items():
        failures, tables = _perform(experiment, runs, out, processes, threads, again)
        for table in tables:
            output.show(table.title, shown(table))
        say(f"results in {out / experiment.name}")
        if failures:
            place = experiment.folder_of_runs(out) / "runs"
            say(f"{failures} of {len(runs)} runs failed; see above, or 'error' in the files in {place}")
        failed += failures
        results[experiment.name] = {table.name: table.plain() for table in tables}
    found = {"tables": results[name]} if name != "all" else {"experiments": results}
    output.result({"experiment": name, "failed": failed, **found})
    if failed:
        raise typer.Exit(1)


def _runs(
    experiment: Experiment,
    datasets: Sequence[str] | None,
    methods: Sequence[str] | None,
    seeds: int | None,
    quick: bool,
) -> list[Run]:
    """The runs that are asked for; every data set of them is on this machine."""
    from tapgnn.data.datasets.registry import dataset_path

    runs = experiment.runs(datasets or experiment.datasets, methods, seeds, quick)
    if not datasets:
        present = _present(experiment)
        runs = [run for run in runs if run.dataset in present]
    for dataset in dict.fromkeys(run.dataset for run in runs):
        dataset_path(dataset)
    return runs


def _perform(
    experiment: Experiment, runs: Sequence[Run], out: Path, processes: int, threads: int, again: bool
) -> tuple[int, list[ResultTable]]:
    """How many runs failed, and the tables of all that is finished, which are written after Ctrl-C, too."""
    from tapgnn.evaluation.runner import older_runs, perform_runs
    from tapgnn.experiments.writing import write_results

    if experiment.timed:
        processes = threads = 1
    folder, preload = experiment.folder_of_runs(out), "tapgnn.experiments.link_training"
    if not again and (older := older_runs(experiment, runs, folder)):
        say(f"{len(older)} of {len(runs)} runs are of older code, whose results may differ; --again repeats them")
    try:
        with RunScreen(experiment.title, len(runs), words, metrics) as screen:
            failed = perform_runs(experiment, runs, folder, processes, threads, screen.tell, preload, again)
    finally:
        tables = write_results(experiment, out)
    return failed, tables


def _present(experiment: Experiment) -> list[str]:
    """The data sets of an experiment that are on this machine; a line for each of the others."""
    from tapgnn.data.datasets.registry import dataset_path, find_dataset

    present = [name for name in experiment.datasets if find_dataset(name) is not None]
    for name in experiment.datasets:
        if name not in present:
            try:
                dataset_path(name)
            except DatasetError as error:
                if not present:
                    raise
                say(f"left out: {error}")
    return present


def words(run: Run) -> str:
    """What a run is called."""
    return f"{run.dataset}, {run.method}, seed {run.seed}"


def metrics(found: Found) -> str:
    """What is said of a finished run."""
    return ", ".join(f"{key} {found[key]:.4f}" for key in ("auc", "accuracy") if key in found) or "done"


def shown(table: ResultTable) -> Table:
    """A table for the screen."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, caption=table.note or None, caption_justify="left")
    for place, title in enumerate(table.header):
        made.add_column(title, justify="right" if place else "left", overflow="fold")
    for label, texts in table.texts("[bold]{}[/bold]", " ±{}", r"\[{}]"):
        made.add_row(label, *texts)
    return made
