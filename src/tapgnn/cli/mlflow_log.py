"""--mlflow: a fit as a run of MLflow, with its settings, curves and results, and the model among its artifacts.

The experiment is named like the log and the run like the folder of the model. The artifacts of `model` are a model
folder as it stands: download it, and every command reads it.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapgnn.cli.output import plain
from tapgnn.errors import ConfigError

if TYPE_CHECKING:
    from tapgnn.training.link_prediction import TrainingProgress

# Of the results of a fit, what is not a figure: the settings, and where the data comes from.
TAGS = ("model_sha256", "data_sha256", "simulated", "interrupted")


class MLflowLog:
    """A run on the tracking server, or in the store, at an address. It exists from the first step on, and ends when it
    is closed: finished once it has the results, otherwise failed.
    """

    def __init__(self, address: str, name: str) -> None:
        # Without this, MLflow tells its makers that it is used.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        try:
            from mlflow import MlflowClient  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise ConfigError(
                "--mlflow needs the package mlflow-skinny, which is not installed; run pip install 'tapgnn[mlflow]'"
            ) from None
        self.address, self.name, self.experiment = address, name, "tapgnn"
        with self._refusing():
            self.client: Any = MlflowClient(tracking_uri=address)
        self.run: str | None = None
        self.status = "FAILED"

    def close(self) -> None:
        """End the run."""
        if self.run is not None:
            with self._refusing():
                self.client.set_terminated(self.run, self.status)

    def open(self, experiment: str) -> None:
        """Name the experiment, and find out whether the address answers."""
        self.experiment = experiment
        with self._refusing():
            self.client.get_experiment_by_name(experiment)

    def step(self, step: TrainingProgress) -> None:
        """Add a validation, against the number of training events."""
        if step.validation is None:
            return
        figures = {"loss": step.loss, f"validation_{step.metric}": step.validation, "events_per_s": step.events_per_s}
        self._measure(figures, step.epoch * step.total + step.done)

    def finish(self, results: Mapping[str, Any], folder: Path, files: list[str], more: list[str]) -> None:
        """Add settings, results, the files of the model, and what stands beside it."""
        from mlflow.entities import Param, RunTag  # type: ignore[import-not-found,unused-ignore]

        params = [Param(name, str(value)[:500]) for name, value in _flat(plain(results["settings"]), "")]
        tags = [RunTag(name, str(results[name])) for name in TAGS]
        with self._refusing():
            # A server takes at most a hundred at a time.
            for start in range(0, len(params), 100):
                self.client.log_batch(self._run(), params=params[start : start + 100], tags=tags if not start else [])
            parts = {name: results[name] for name in ("validation", "baselines", "classification")}
            self._measure(dict(_flat(plain(parts), "")), 0)
            for name in files:
                self.client.log_artifact(self._run(), str(folder / name), "model")
            for name in more:
                self.client.log_artifact(self._run(), str(folder / name))
        self.status = "FINISHED"

    def _measure(self, figures: Mapping[str, Any], step: int) -> None:
        """Add those that are finite numbers; a name may hold letters, digits, and some signs."""
        from mlflow.entities import Metric  # type: ignore[import-not-found,unused-ignore]

        now = int(1000 * time.time())
        kept = [
            Metric(re.sub(r"[^\w\-./ ]", "_", name), float(value), now, step)
            for name, value in figures.items()
            if isinstance(value, int | float) and math.isfinite(value)
        ]
        with self._refusing():
            for start in range(0, len(kept), 1000):
                self.client.log_batch(self._run(), metrics=kept[start : start + 1000])

    def _run(self) -> str:
        """The run, created when it is first needed."""
        if self.run is None:
            found = self.client.get_experiment_by_name(self.experiment)
            experiment = self.client.create_experiment(self.experiment) if found is None else found.experiment_id
            self.run = self.client.create_run(experiment, run_name=self.name).info.run_id
        return self.run

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Say in one line what MLflow refuses."""
        from mlflow.exceptions import MlflowException  # type: ignore[import-not-found,unused-ignore]

        try:
            yield
        except MlflowException as error:
            raise ConfigError(f"--mlflow {self.address}: {error}") from None


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """The values of nested objects by their path."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
