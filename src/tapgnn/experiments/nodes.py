"""nodes: dynamic node classification, AUC of the positive label of an event (Section 4.3).

Every method learns future links without labels and is frozen; then a small network learns the label from what the
method makes of both ends just before an event, and the features of the event (`representation_classifier`: balanced
batches, at most ten epochs without a better validation). The log is cut along time, 70 / 15 / 15. Only methods that
can describe nodes that they were not trained on take part, as in the paper.

tapgnn is the default with its own classifier, which learns from facts of the event; tapgnn-representations has the
classifier of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tapgnn.data.splits import Split, split_strict
from tapgnn.evaluation.harness import TAPGNNMethod, make_method, with_dense_features
from tapgnn.evaluation.metrics import auc
from tapgnn.evaluation.questions import NAME
from tapgnn.evaluation.runner import Run
from tapgnn.events import Events
from tapgnn.experiments.experiment import Experiment, FinishedRun
from tapgnn.experiments.link_training import LinkRuns, metric_table, read_log
from tapgnn.experiments.printed import printed_nodes
from tapgnn.experiments.tables import ResultTable
from tapgnn.training.classification import ClassifierProtocol, labelled_parts, train_classifier
from tapgnn.training.representation_classifier import fit_representations

# The first events of Wikipedia in whose three parts there are events of both kinds.
QUICK_EVENTS = 8_000
BASELINES = ("graphsage-star", "ctdne", "tgat", "jodie", "tgn")
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper"},
    "published": {"preset": "published"},
    "tapgnn-representations": {},
    NAME: {},
}
TRAINING = LinkRuns(VARIANTS)


def perform(run: Run) -> dict[str, Any]:
    """Train a method on links, then a classifier on top of it."""
    events = read_log(run, QUICK_EVENTS)
    about = {"labels": int((np.asarray(events.labels) > 0).sum()), "columns": len(events.columns)}
    split = split_strict(events)
    if run.method in VARIANTS:
        method = TAPGNNMethod(run.seed, **VARIANTS[run.method])
        method.fit(split.train, split.valid)
        protocol: ClassifierProtocol = "facts" if run.method == NAME else "paper"
        found = train_classifier(method.model, method.encoded(events), run.seed, protocol)
        return {"auc": found.test_auc, "valid_auc": found.valid_auc, **about}
    return {**_classify(run, with_dense_features(split)), **about}


def _classify(run: Run, split: Split) -> dict[str, float]:
    """AUC of a published method on validation and test."""
    method: Any = make_method(run.method, run.seed)
    method.fit(split.train, split.valid)
    method.forget()
    log = split.train.append(split.valid).append(split.test)
    node, time = np.concatenate([log.src, log.dst]), np.tile(log.time, 2)
    ends = method.represent(log, node, time)
    rows = [ends[: len(log)], ends[len(log) :], *([] if log.features is None else [log.features])]
    described = _parts(log, np.concatenate(rows, axis=1))
    (train, train_labels), (valid, valid_labels), (test, test_labels) = described
    classifier, valid_auc = fit_representations(train, train_labels, valid, valid_labels, run.seed)
    with torch.no_grad():
        return {"auc": auc(test_labels, classifier(test).numpy()), "valid_auc": valid_auc}


def _parts(log: Events, described: NDArray[np.float32]) -> list[tuple[torch.Tensor, NDArray[np.int64]]]:
    """Descriptions and labels of the labelled events of each part."""
    parts, start = [], 0
    for part, labels in labelled_parts(log):
        known = labels >= 0
        parts.append((torch.from_numpy(described[start : start + len(part)][known]), labels[known]))
        start += len(part)
    return parts


def tables(finished: Sequence[FinishedRun]) -> list[ResultTable]:
    """Test AUC by method and data set."""
    featured = sorted({each.run.dataset for each in finished if each.found["columns"]})
    note = "In brackets what the paper prints, which gives every method the 172 features of an event. "
    note += f"With features here: {', '.join(featured)}." if featured else "Here the events have no features."
    title = "Dynamic node classification, AUC"
    return [metric_table(finished, "auc", "nodes", title, EXPERIMENT.datasets, printed_nodes(), note)]


EXPERIMENT = Experiment(
    name="nodes",
    title="Dynamic node classification",
    datasets=("wikipedia", "reddit"),
    methods=(*BASELINES, *VARIANTS),
    perform=perform,
    tables=tables,
    settings=TRAINING.settings,
)
