"""sensitivity: the preset `paper` by batch size, number of layers, embedding width and dropout (Section 4.4).

One setting is changed at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapgnn.experiments.experiment import Experiment, FinishedRun
from tapgnn.experiments.figures import Panel, ResultFigure
from tapgnn.experiments.link_training import DRAWN, LinkRuns, metric_table
from tapgnn.experiments.printed import LINK_DATASETS
from tapgnn.experiments.tables import ResultTable, Value

# By parameter of the estimator: its title, and the values that it takes.
SETTINGS: dict[str, tuple[str, tuple[float, ...]]] = {
    "chunk": ("batch size", (64, 128, 256, 512, 1024)),
    "layers": ("layers", (1, 2, 3, 4)),
    "width": ("embedding width", (16, 32, 64, 128, 256)),
    "dropout": ("dropout", (0.0, 0.2, 0.4, 0.6)),
}
VARIANTS: dict[str, dict[str, Any]] = {
    f"{name}-{value}": {"preset": "paper", name: value} for name, (_, values) in SETTINGS.items() for value in values
}
TRAINING = LinkRuns(VARIANTS)


def tables(finished: Sequence[FinishedRun]) -> list[ResultTable]:
    """Test AUC by setting and data set, a table for each setting."""
    made = []
    for name, (title, _) in SETTINGS.items():
        own = [each for each in finished if each.run.method.startswith(f"{name}-")]
        made.append(metric_table(own, "auc", f"sensitivity-{name}", f"AUC by {title}", LINK_DATASETS, note=DRAWN))
    return made


def figures(finished: Sequence[FinishedRun]) -> list[ResultFigure]:
    """A panel for each setting, a line for each data set."""
    panels = []
    for (name, (title, values)), table in zip(SETTINGS.items(), tables(finished), strict=True):
        rows: dict[str, Any] = dict(table.rows)
        nothing = (Value(None),) * len(LINK_DATASETS)
        columns = zip(*(rows.get(f"{name}-{value}", nothing) for value in values), strict=True)
        lines = dict(zip(LINK_DATASETS, columns, strict=True))
        panels.append(Panel(title, [str(value) for value in values], lines, title))
    return [ResultFigure("sensitivity", panels)]


EXPERIMENT = Experiment(
    name="sensitivity",
    title="Sensitivity of the preset paper",
    datasets=LINK_DATASETS,
    methods=tuple(VARIANTS),
    perform=TRAINING.perform,
    tables=tables,
    figures=figures,
    settings=TRAINING.settings,
    seeds=1,
)
