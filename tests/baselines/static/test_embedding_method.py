"""Embedding methods: settings are selected by validation alone."""

from __future__ import annotations

import numpy as np
import pytest

from tapgnn.baselines.shared.labelled_pairs import Pairs
from tapgnn.baselines.static.embedding_method import select
from tapgnn.errors import ConfigError
from tapgnn.events import Floats, Ints


class Constant:
    """A scorer that prefers destinations by a fixed table."""

    def __init__(self, worth: list[float]) -> None:
        self.worth = np.array(worth)

    def __call__(self, src: Ints, dst: Ints) -> Floats:
        return self.worth[dst]


def test_the_setting_with_the_best_validation_auc_is_selected_and_the_first_without_validation() -> None:
    pairs = Pairs(np.zeros(2, dtype=np.int64), np.array([0, 1]), np.zeros(2), np.array([1, 0]))
    scorers = {"wrong": Constant([0.0, 1.0]), "right": Constant([1.0, 0.0])}
    assert select(scorers, scorers.__getitem__, pairs)[::2] == ("right", 1.0)
    nothing = Pairs(pairs.src[:0], pairs.dst[:0], pairs.time[:0], pairs.label[:0])
    assert select(scorers, scorers.__getitem__, nothing)[::2] == ("wrong", 0.5)
    with pytest.raises(ConfigError, match="no setting"):
        select([], scorers.__getitem__, pairs)
