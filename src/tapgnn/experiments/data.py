"""data: the statistics of the data sets, and the size of the graph that is never built (Tables 1 and 2).

Differences from the printed numbers are those of the files: what is described is what `tapgnn datasets` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapgnn.data.datasets.registry import DATASETS
from tapgnn.data.statistics import describe
from tapgnn.evaluation.runner import Run
from tapgnn.experiments.experiment import Experiment, FinishedRun
from tapgnn.experiments.link_training import read_log
from tapgnn.experiments.printed import printed_data
from tapgnn.experiments.tables import ResultTable, Value

# Of a table: the key of a statistic here and in the paper, its title, factor and format.
STATISTICS = (
    ("nodes", "nodes", "|V|", 1.0, ",.0f"),
    ("events", "events", "|E|", 1.0, ",.0f"),
    ("repetition", "repetition", "repetition %", 100.0, ".1f"),
    ("density", "density", "density", 1.0, ".4f"),
    ("degree_max", "degree_max", "d max", 1.0, ",.0f"),
    ("degree_mean", "degree_mean", "d mean", 1.0, ".2f"),
    ("timespan_days", "timespan_days", "days", 1.0, ",.2f"),
)
LINKS = (
    ("events", "events", "|E|", 1.0, ",.0f"),
    ("temporal_nodes", "", "|V^T|", 1.0, ",.0f"),
    ("message_links", "links", "|E^T|", 1.0, ",.0f"),
    ("ratio", "ratio", "|E^T| / |E|", 1.0, ",.0f"),
)


def perform(run: Run) -> dict[str, Any]:
    """The statistics of a data set."""
    return describe(read_log(run))


def tables(finished: Sequence[FinishedRun]) -> list[ResultTable]:
    """The statistics of the data sets, and the links of G_MP."""
    note = "In brackets what the paper prints, rounded as there."
    return [
        _table(finished, "data", "Data sets", STATISTICS, note),
        _table(finished, "data-links", "Events, temporal nodes and message links", LINKS, note),
    ]


def _table(
    finished: Sequence[FinishedRun],
    name: str,
    title: str,
    columns: Sequence[tuple[str, str, str, float, str]],
    note: str,
) -> ResultTable:
    printed, rows = printed_data(), []
    for each in finished:
        own = printed[each.run.dataset]
        cells = [
            Value(factor * float(each.found[key]), printed=own.get(theirs), form=form)
            for key, theirs, _, factor, form in columns
        ]
        rows.append((each.run.dataset, tuple(cells)))
    return ResultTable(name, title, ("data set", *(column[2] for column in columns)), rows, note=note)


EXPERIMENT = Experiment(
    name="data",
    title="Data sets",
    datasets=tuple(DATASETS),
    methods=("statistics",),
    perform=perform,
    tables=tables,
    seeds=1,
)
