"""ablation: the preset `paper` without its projection, and without its temporal activation (Section 4.4).

Without the projection, a pair is scored from the embeddings themselves; without time, nothing but the order of events
is left of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapgnn.experiments.experiment import Experiment, FinishedRun
from tapgnn.experiments.figures import ResultFigure, lines_figure
from tapgnn.experiments.link_training import LinkRuns, metric_table
from tapgnn.experiments.printed import LINK_DATASETS
from tapgnn.experiments.tables import ResultTable

_NO_TIME = {"time_width": 0, "log_pause": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper"},
    "without-projection": {"preset": "paper", "options": {"projection": False, "log_pause": False}},
    "without-time": {"preset": "paper", "options": _NO_TIME},
}
TRAINING = LinkRuns(VARIANTS)


def tables(finished: Sequence[FinishedRun]) -> list[ResultTable]:
    """Test AUC by variant and data set."""
    note = "The paper shows these numbers in a figure, without printing them."
    return [metric_table(finished, "auc", "ablation", "Parts of the preset paper, AUC", LINK_DATASETS, note=note)]


def figures(finished: Sequence[FinishedRun]) -> list[ResultFigure]:
    """The same as a line for each variant."""
    return [lines_figure("ablation", tables(finished)[0])]


EXPERIMENT = Experiment(
    name="ablation",
    title="Parts of the preset paper",
    datasets=LINK_DATASETS,
    methods=tuple(VARIANTS),
    perform=TRAINING.perform,
    tables=tables,
    figures=figures,
    settings=TRAINING.settings,
)
