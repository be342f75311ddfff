"""links: future link prediction, all methods on six data sets (the table of Section 4.3).

tap-gnn is the preset `paper` with the kernel that is best on the validation events of a data set; tap-gnn-direct is
TAP-GNN*, its weights of seed 0 with direct aggregation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapgnn.evaluation.harness import NAMES
from tapgnn.evaluation.questions import NAME
from tapgnn.experiments.experiment import Experiment, FinishedRun
from tapgnn.experiments.link_training import LinkRuns, metric_table
from tapgnn.experiments.printed import LINK_DATASETS, printed_links
from tapgnn.experiments.tables import ResultTable, Value

KERNELS = ("gcn", "mean", "pool", "attention")
VARIANTS: dict[str, dict[str, Any]] = {
    **{f"paper-{kernel}": {"preset": "paper", "kernel": kernel} for kernel in KERNELS},
    "published": {"preset": "published"},
}
METRICS = {"auc": "AUC", "accuracy": "accuracy"}
TRAINING = LinkRuns(VARIANTS, directly=[f"paper-{kernel}" for kernel in KERNELS])


def tables(finished: Sequence[FinishedRun]) -> list[ResultTable]:
    """AUC and accuracy by method and data set."""
    chosen = {dataset: best_kernel(finished, dataset) for dataset in LINK_DATASETS}
    best = [each for each in finished if each.run.method == chosen[each.run.dataset]]
    named = [FinishedRun(replace(each.run, method="tap-gnn"), each.found) for each in best]
    directly = [(each, found) for each in best if (found := each.found.get("alternatives", {}).get("direct"))]
    named += [FinishedRun(replace(each.run, method="tap-gnn-direct"), found) for each, found in directly]
    kernels = ", ".join(f"{dataset} {kernel.removeprefix('paper-')}" for dataset, kernel in chosen.items() if kernel)
    note = "Mean and standard deviation over the seeds; in brackets what the paper prints."
    if kernels:
        note += f" tap-gnn: the preset paper with the kernel that is best on validation ({kernels})."
    if directly:
        apart = max(abs(each.found["auc"] - found["auc"]) for each, found in directly)
        note += " tap-gnn-direct: its weights of seed 0, aggregated directly; "
        note += f"their AUC differs by {apart:.0e} at most." if apart else "their AUC is the same in every digit."
    rest = (LINK_DATASETS, printed_links(), note)
    made = [
        metric_table([*named, *finished], metric, f"links-{metric}", f"Future link prediction, {title}", *rest)
        for metric, title in METRICS.items()
    ]
    return [*made, margins(finished), differences(made[0])]


def margins(finished: Sequence[FinishedRun]) -> ResultTable:
    """The default against the best of the other methods, and how often it is ahead of it on the same questions."""
    rows = []
    for dataset in LINK_DATASETS:
        found: dict[str, dict[int, float]] = {}
        for each in finished:
            if each.run.dataset == dataset:
                found.setdefault(each.run.method, {})[each.run.seed] = each.found["auc"]
        own = found.pop(NAME, {})
        if own and found:
            name = max(found, key=lambda method: np.mean([*found[method].values()]))
            pairs = [own[seed] - auc for seed, auc in found[name].items() if seed in own]
            ahead = f"{sum(pair > 0 for pair in pairs)} of {len(pairs)}"
            cells: tuple[Value | str, ...] = (
                Value.of([*own.values()]),
                Value.of([*found[name].values()]),
                name,
                Value.of(pairs),
                ahead,
            )
            rows.append((dataset, cells))
    header = ("data set", NAME, "best other", "its name", "difference, seed by seed", "seeds ahead")
    return ResultTable("links-margin", f"AUC of {NAME} against the best of the others", header, rows)


def differences(table: ResultTable) -> ResultTable:
    """How much higher the AUC of each method is than the paper prints."""
    rows: list[tuple[str, tuple[Value | str, ...]]] = []
    for method, cells in table.rows:
        found = {
            dataset: cell.mean - cell.printed
            for dataset, cell in zip(table.header[1:], cells, strict=True)
            if isinstance(cell, Value) and cell.mean is not None and cell.printed is not None
        }
        if found:
            ends = [
                f"{found[name]:+.3f} ({name})"
                for name in (min(found, key=found.__getitem__), max(found, key=found.__getitem__))
            ]
            rows.append((method, (Value(float(np.mean([*found.values()])), form="+.3f"), *ends, str(len(found)))))
    header = ("method", "mean", "lowest", "highest", "data sets")
    return ResultTable("links-difference", "AUC here less AUC in the paper", header, rows)


def best_kernel(finished: Sequence[FinishedRun], dataset: str) -> str:
    """The kernel of the preset `paper` with the highest mean AUC on the validation events."""
    by_kernel: dict[str, list[float]] = {}
    for each in finished:
        if each.run.dataset == dataset and each.run.method.startswith("paper-"):
            by_kernel.setdefault(each.run.method, []).append(each.found["details"]["selection_auc"])
    return max(by_kernel, key=lambda name: sum(by_kernel[name]) / len(by_kernel[name]), default="")


EXPERIMENT = Experiment(
    name="links",
    title="Future link prediction",
    datasets=LINK_DATASETS,
    methods=(*NAMES, *VARIANTS),
    perform=TRAINING.perform,
    tables=tables,
    settings=TRAINING.settings,
)
