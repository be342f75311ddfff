"""Experiments: the tables and figures of the paper, one file each, run by `tapgnn reproduce`.

`find_experiment(name)` gives an `Experiment`; its module is imported only then.
"""

from __future__ import annotations

from importlib import import_module

from tapgnn.errors import ConfigError
from tapgnn.experiments.experiment import Experiment

EXPERIMENTS = (
    "data",
    "links",
    "kernels",
    "ablation",
    "sensitivity",
    "nodes",
    "latency",
    "direct",
    "map",
    "beyond",
)


def find_experiment(name: str) -> Experiment:
    """The experiment of this name; an unknown one is an error that lists them."""
    if name not in EXPERIMENTS:
        raise ConfigError(f"there is no experiment {name!r}; the experiments are {', '.join(EXPERIMENTS)}")
    found: Experiment = import_module(f"tapgnn.experiments.{name}").EXPERIMENT
    return found
