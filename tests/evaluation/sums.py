"""An experiment whose runs only add: what `python -m tests.evaluation.sums FOLDER N` does until its N-th step, when it
is killed without a warning.
"""

import os
import signal
import sys
from pathlib import Path

from tapgnn.errors import EventError
from tapgnn.evaluation.runner import perform_runs
from tapgnn.experiments.experiment import Experiment
from tapgnn.experiments.tables import ResultTable, Value

DATASETS, METHODS, SEEDS = ("one", "two"), ("plus", "times", "fails"), 3
NUMBERS = {"one": 1, "two": 2}


def perform(run):
    if run.method == "fails":
        raise EventError("no such sum")
    found = NUMBERS[run.dataset] + run.seed if run.method == "plus" else NUMBERS[run.dataset] * run.seed
    return {"auc": float(found), "process": os.getpid()}


def tables(finished):
    rows = []
    for method in METHODS[:2]:
        found = [
            [each.found["auc"] for each in finished if each.run.method == method and each.run.dataset == name]
            for name in DATASETS
        ]
        rows.append((method, tuple(Value.of(values, printed=3.0) for values in found)))
    return [ResultTable("sums", "Sums", ("method", *DATASETS), rows, best="max", note="All of them.")]


def experiment(**changes):
    return Experiment(
        **{
            "name": "sums",
            "title": "Sums",
            "datasets": DATASETS,
            "methods": METHODS,
            "perform": perform,
            "tables": tables,
            "seeds": SEEDS,
            **changes,
        }
    )


def main():
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    told = []

    def stop(progress):
        told.append(progress)
        if len(told) == steps:
            os.kill(os.getpid(), signal.SIGKILL)

    sums = experiment()
    perform_runs(sums, sums.runs(methods=METHODS[:2]), folder, processes=2, listener=stop)


if __name__ == "__main__":
    main()
