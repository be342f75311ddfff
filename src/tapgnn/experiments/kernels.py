"""kernels: AUC of the preset `paper` with each of its four kernels (Section 4.4, the figure of convolution kernels).

The runs are those of `links`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapgnn.experiments.experiment import Experiment, FinishedRun
from tapgnn.experiments.figures import ResultFigure, lines_figure
from tapgnn.experiments.link_training import metric_table
from tapgnn.experiments.links import KERNELS, TRAINING
from tapgnn.experiments.printed import LINK_DATASETS
from tapgnn.experiments.tables import ResultTable

METHODS = tuple(f"paper-{kernel}" for kernel in KERNELS)


def tables(finished: Sequence[FinishedRun]) -> list[ResultTable]:
    """Test AUC by kernel and data set."""
    note = "The paper shows these numbers in a figure, without printing them."
    return [metric_table(finished, "auc", "kernels", "Kernels of the preset paper, AUC", LINK_DATASETS, note=note)]


def figures(finished: Sequence[FinishedRun]) -> list[ResultFigure]:
    """The same as a line for each kernel."""
    return [lines_figure("kernels", tables(finished)[0])]


EXPERIMENT = Experiment(
    name="kernels",
    title="Kernels of the preset paper",
    datasets=LINK_DATASETS,
    methods=METHODS,
    perform=TRAINING.perform,
    tables=tables,
    figures=figures,
    settings=TRAINING.settings,
    runs_of="links",
)
