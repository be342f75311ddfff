"""Writing: the tables and figures of an experiment as files, made of all its finished runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tapgnn.evaluation.revisions import stored_revisions
from tapgnn.evaluation.runner import read_run
from tapgnn.experiments.experiment import Experiment
from tapgnn.experiments.tables import ResultTable
from tapgnn.file_integrity import write_atomically


def write_results(experiment: Experiment, out: Path) -> list[ResultTable]:
    """Write NAME.json, every table as Markdown, LaTeX and CSV, and every figure as SVG and PNG."""
    of_runs, folder = experiment.folder_of_runs(out), out / experiment.name
    finished = list(experiment.finished(of_runs))
    made, figures = experiment.tables(finished), experiment.figures(finished)
    for table in made:
        write_atomically(folder / f"{table.name}.md", f"# {table.title}\n\n{table.markdown()}")
        write_atomically(folder / f"{table.name}.tex", table.latex())
        write_atomically(folder / f"{table.name}.csv", table.csv())
    for figure in figures:
        for form in ("svg", "png"):
            write_atomically(folder / f"{figure.name}.{form}", figure.drawn(form))
    values = {
        "experiment": experiment.name,
        "title": experiment.title,
        **_about([read_run(of_runs / each.run.place) for each in finished]),
        "tables": {table.name: table.plain() for table in made},
        "figures": [figure.name for figure in figures],
    }
    write_atomically(folder / f"{experiment.name}.json", json.dumps(values, indent=1) + "\n")
    return made


def _about(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many runs there are, their seeds, the versions that they ran with, and their time together.

    revisions: the lowest numbers (`tapgnn.evaluation.revisions`) among the runs of each method.
    """
    revisions: dict[str, dict[str, int]] = {}
    for run in runs:
        lowest = revisions.setdefault(run["method"], {})
        lowest |= {name: min(number, lowest.get(name, number)) for name, number in stored_revisions(run).items()}
    libraries = sorted({library for run in runs for library in run["versions"]})
    return {
        "runs": len(runs),
        "revisions": revisions,
        "seeds": sorted({run["seed"] for run in runs}),
        "versions": {name: sorted({run["versions"].get(name, "") for run in runs}) for name in libraries},
        "seconds": round(sum(run["seconds"] for run in runs), 1),
    }
