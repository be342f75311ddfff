"""What a classifier of events is compared with: trivial rules, and gradient-boosted trees (scikit-learn).

    new pair         the two have not met               surprising link    the less expected, the higher
    busy source      its recent events                  new source         the younger, the higher
    busy destination
    trees, columns   on the event's own features alone
    trees, counts    on these and on the plain facts of its ends and of the pair

The trees take the best of some SETTINGS on validation, so that they are no straw men: with few rare events the defaults
overfit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.data.splits import split_strict
from tapgnn.evaluation.metrics import auc, average_precision
from tapgnn.events import Events, Floats, Ints
from tapgnn.model import Model
from tapgnn.training import classification
from tapgnn.training.classification import Cut, Part, column_groups, describe_events, describe_part, labelled_parts

Rows = NDArray[np.float32]
Score = Callable[[Rows], Floats]
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "medium": {"learning_rate": 0.05, "max_leaf_nodes": 16, "max_iter": 200, "l2_regularization": 5.0},
    "small": {"learning_rate": 0.03, "max_leaf_nodes": 8, "max_iter": 150, "l2_regularization": 5.0},
}


@dataclass(frozen=True)
class BaselineResult:
    """How one of them does on validation and test."""

    valid_auc: float
    valid_ap: float
    test_auc: float
    test_ap: float


def measure_baselines(
    model: Model, events: Events, seed: int = 0, cut: Cut = split_strict
) -> dict[str, BaselineResult]:
    """Every reference on the parts that `train_classifier` trains, chooses and tests on; one pass over the log."""
    train, valid, (test, truth) = labelled_parts(events, cut)
    rng, state = np.random.default_rng(seed), model.empty_state()
    kept: list[Part] = []
    for part, labels in (train, valid):
        described, state = describe_part(model, state, part, labels, rng, describe_events)
        kept.append(described)
    scores = {**_rules(model), **_trees(model, kept[0], kept[1], seed)}
    found: dict[str, list[Floats]] = {name: [] for name in scores}
    for piece in test.chunks(classification.PIECE):
        rows, state = describe_events(model, state, piece)
        for name, score in scores.items():
            found[name].append(score(rows))
    known = truth >= 0
    return {
        name: _reference(kept[1].labels, score(kept[1].rows), truth[known], np.concatenate(found[name])[known])
        for name, score in scores.items()
    }


def _reference(valid: Ints, valid_scores: Floats, truth: Ints, scores: Floats) -> BaselineResult:
    on_valid = auc(valid, valid_scores), average_precision(valid, valid_scores)
    return BaselineResult(*on_valid, auc(truth, scores), average_precision(truth, scores))


def _rules(model: Model) -> dict[str, Score]:
    names = [name for group in model.description.values() for name in group]
    middle = len(model.config.half_lives) // 2
    rules = {
        "new pair": ("pair_met", -1.0),
        "surprising link": ("link_logit", -1.0),
        "busy source": (f"source_recent_{middle}_as_source", 1.0),
        "busy destination": (f"destination_recent_{middle}_as_destination", 1.0),
        "new source": ("source_age", -1.0),
    }
    return {rule: _column(names.index(column), sign) for rule, (column, sign) in rules.items() if column in names}


def _column(place: int, sign: float) -> Score:
    """A column as a score; what is missing counts as 0, which is new and quiet."""
    return lambda rows: sign * np.nan_to_num(rows[:, place].astype(np.float64))


def _trees(model: Model, train: Part, valid: Part, seed: int) -> dict[str, Score]:
    groups = column_groups(model)
    given = {"trees, counts": np.concatenate([groups["facts"], groups["features"]])}
    if len(groups["features"]):
        given = {"trees, columns": groups["features"], **given}
    return {name: _best_trees(train, valid, columns, seed) for name, columns in given.items()}


def _best_trees(train: Part, valid: Part, columns: Ints, seed: int) -> Score:
    from sklearn.ensemble import HistGradientBoostingClassifier

    # Trees refuse a column of which nothing is known.
    telling = [column for column in columns if np.ptp(np.nan_to_num(train.rows[:, column], nan=-1e9)) > 0]
    telling = [column for column in telling if np.isfinite(train.rows[:, column]).sum() > 1]
    best, chosen = -1.0, None
    for options in SETTINGS.values():
        trees = HistGradientBoostingClassifier(early_stopping=False, random_state=seed, **options)
        trees.fit(train.rows[:, telling], train.labels)
        found = average_precision(valid.labels, trees.decision_function(valid.rows[:, telling]))
        if found > best:
            best, chosen = found, trees
    return lambda rows: np.asarray(chosen.decision_function(rows[:, telling]))  # type: ignore[union-attr]
