"""doctor: what this installation consists of, and whether it works."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import typer

from tapgnn.cli.options import command, option
from tapgnn.cli.output import Output, say
from tapgnn.threads import VARIABLES, set_threads

# A library of each extra.
EXTRAS = {
    "serve": "uvicorn",
    "postgres": "psycopg",
    "kafka": "confluent-kafka",
    "otel": "opentelemetry-sdk",
    "sweep": "optuna",
    "peers": "torch-geometric",
    "tgb": "py-tgb",
    "tensorboard": "tensorboard",
    "mlflow": "mlflow-skinny",
}


@command
def doctor(
    output: Output,
    test: bool = option("", "Train, save, load and ask a small model.", "yes", "--test/--no-test", default=True),
) -> None:
    """Show versions, threads, folders and compiled code, and test the installation in about ten seconds.

    Send the output along with a report of a bug. The exit code is 1 if the test fails.
    """
    found: dict[str, Any] = {"versions": _versions(), "extras": _extras()}
    found |= {"threads": _threads(), "folders": _folders(), "devices": _devices()}
    from rich.table import Table

    for title, rows in found.items():
        table = Table(box=None, show_header=False)
        for name, value in rows.items():
            table.add_row(name, str(value))
        output.show(title, table)
    found["test"] = _self_test() if test else None
    output.result(found)
    if test and found["test"]["failure"] is not None:
        raise typer.Exit(1)


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    from tapgnn.evaluation.runner import versions

    set_threads(1)
    return versions() | {name: version(name) for name in ("polars", "pyarrow", "scikit-learn", "safetensors")}


def _extras() -> dict[str, str]:
    """The extras, each with the version of its library, or how to install it."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name, library in EXTRAS.items():
        try:
            found[name] = f"{library} {version(library)}"
        except PackageNotFoundError:
            found[name] = f"not installed; pip install 'tapgnn[{name}]'"
    return found


def _threads() -> dict[str, str]:
    """What the threads hang on."""
    named = {name: os.environ.get(name, "not set") for name in ("NUMBA_NUM_THREADS", *VARIABLES)}
    return {"processors": str(os.cpu_count()), **named}


def _folders() -> dict[str, str]:
    """Where compiled loops and data sets are kept."""
    from tapgnn.compiled.jit import PACKAGE
    from tapgnn.data import cache_folder

    chosen = os.environ.get("NUMBA_CACHE_DIR")
    loops = Path(chosen) if chosen else PACKAGE
    kept = sum(1 for _ in loops.rglob("*.nbc"))
    writable = os.access(loops if loops.exists() else loops.parent, os.W_OK)
    cure = "" if writable else "; not writable, so every process compiles: set NUMBA_CACHE_DIR to a folder that is"
    return {
        "compiled loops": f"{loops} ({kept:,} kept{cure})",
        "data sets": os.environ.get("TAPGNN_DATA", "TAPGNN_DATA is not set"),
        "downloads": str(cache_folder()),
    }


def _devices() -> dict[str, str]:
    """Where torch could compute; the command line uses the CPU."""
    import torch

    count = torch.cuda.device_count()
    names = [torch.cuda.get_device_name(place) for place in range(count)]
    return {"cpu": "used", "cuda": ", ".join(names) or "none that torch can use"}


def _self_test() -> dict[str, Any]:
    """Train a small model, save it, load it, and compare what both answer."""
    import numpy as np

    from tapgnn.data.simulation.payment_stream import simulate
    from tapgnn.estimator import TAPGNN

    start, failure = time.perf_counter(), None
    say(
        "test: training, saving, loading and asking a small model; the first time, loops are compiled (a minute or two)"
    )
    try:
        log = simulate(1_500, accounts=100, merchants=30, days=30, fraud=0.1)
        model = TAPGNN(width=16, epochs=1).fit(log)
        model.fit_classifier(log)
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            again = TAPGNN.load(folder)
        pairs = (["a00001", "a00002"], ["m0001", "m0002"])
        if not np.array_equal(model.score(*pairs), again.score(*pairs)):
            failure = "a loaded model gives other scores than the one that was saved"
    except Exception as error:  # whatever is wrong is what is to be reported
        failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
    seconds = round(time.perf_counter() - start, 1)
    say(f"test: passed in {seconds} s" if failure is None else f"test: failed after {seconds} s: {failure}")
    return {"seconds": seconds, "failure": failure}
