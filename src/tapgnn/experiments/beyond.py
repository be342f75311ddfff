"""beyond: the default preset without each of the parts that the paper does not have.

without-kernel has the mean of the paper in place of the adaptive kernel; without-pair-network scores a pair by
f(u, t) + g(v, t) alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapgnn.evaluation.questions import NAME
from tapgnn.experiments.experiment import Experiment, FinishedRun
from tapgnn.experiments.figures import ResultFigure, lines_figure
from tapgnn.experiments.link_training import LinkRuns, metric_table
from tapgnn.experiments.printed import LINK_DATASETS
from tapgnn.experiments.tables import ResultTable

VARIANTS: dict[str, dict[str, Any]] = {
    "without-kernel": {"kernel": "mean"},
    "without-sketches": {"options": {"sketch_width": 0}},
    "without-pair-memory": {"options": {"partners": 0}},
    "without-statistics": {"options": {"statistics": False, "time_width": 64}},
    "without-roles": {"options": {"roles": False}},
    "without-self-connection": {"options": {"self_connection": False}},
    "without-pair-network": {"options": {"head": "additive"}},
    "without-node-vectors": {"options": {"node_vectors": False}},
}
TRAINING = LinkRuns(VARIANTS)


def tables(finished: Sequence[FinishedRun]) -> list[ResultTable]:
    """Test AUC by variant and data set."""
    return [metric_table(finished, "auc", "beyond", "Parts of the default preset, AUC", LINK_DATASETS)]


def figures(finished: Sequence[FinishedRun]) -> list[ResultFigure]:
    """The same as a line for each variant."""
    return [lines_figure("beyond", tables(finished)[0])]


EXPERIMENT = Experiment(
    name="beyond",
    title="Parts of the default preset",
    datasets=LINK_DATASETS,
    methods=(NAME, *VARIANTS),
    perform=TRAINING.perform,
    tables=tables,
    figures=figures,
    settings=TRAINING.settings,
)
