"""Node2Vec: vectors from second-order walks, with p and q selected on validation."""

from __future__ import annotations

import numpy as np
import pytest

from tapgnn.baselines.shared.labelled_pairs import PairClassifier, labelled
from tapgnn.baselines.static.node2vec import Node2Vec
from tapgnn.baselines.static.skipgram import SkipGram
from tapgnn.data.negatives import rng_for, training_sampler
from tapgnn.errors import ConfigError, StateError
from tapgnn.events import Ints
from tests.baselines.samples import busy_log, make, parts, popularity_auc


def test_vectors_and_scores_that_are_not_finite_are_refused_with_the_cure() -> None:
    log = busy_log()
    pairs = labelled(log, training_sampler(log), rng_for(0, "training"))
    table = np.ones((len(log.vocabulary), 3), dtype=np.float32)
    table[2, 1] = np.nan
    with pytest.raises(ConfigError, match=r"vectors of 1 of \d+ nodes are not finite; lower the learning rate"):
        PairClassifier(table, pairs)
    with pytest.raises(ConfigError, match="scores are not finite; lower the learning rate"):
        pairs.auc(np.full(len(pairs), np.nan))
    for name in ("htne", "graphsage", "tnode"):
        # An infinite step leaves no finite weight, whatever the gradient: infinity times 0 is not a number either.
        with pytest.raises(ConfigError, match="diverged"):
            make(name, learning_rate=np.inf).fit(log, log)


def test_it_learns_which_destinations_are_chosen() -> None:
    method = Node2Vec(width=16, walks=10, length=20, window=5, grid=(1.0,))
    assert popularity_auc(method) > 0.95
    assert method.details()["valid_auc"] > 0.7  # type: ignore[operator]


def test_p_and_q_come_from_the_grid_and_a_query_before_the_fit_is_refused() -> None:
    train, valid, _ = parts(busy_log())
    method = make("node2vec", grid=(1.0, 0.25, 4.0))
    with pytest.raises(StateError, match="call fit first"):
        method.score(valid.src, valid.dst, valid.time)
    method.fit(train, valid)
    assert isinstance(method, Node2Vec)
    assert {method.details()["p"], method.details()["q"]} <= {1.0, 0.25, 4.0}


def test_a_setting_is_selected_by_the_very_fit_that_gives_the_scores_and_none_is_fitted_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train, valid, _ = parts(busy_log())
    corpora: list[int] = []
    train_model = SkipGram.train

    def counted(model: SkipGram, walks: Ints) -> None:
        corpora.append(len(walks))
        train_model(model, walks)

    monkeypatch.setattr(SkipGram, "train", counted)
    method = make("node2vec", grid=(1.0, 0.25, 4.0))
    method.fit(train, valid)
    nodes = len(np.unique(np.concatenate([train.src, train.dst])))
    assert corpora == [2 * nodes] * 5
    pairs = labelled(valid, training_sampler(train), rng_for(0, "validation"))
    scores = method.score(pairs.src, pairs.dst, pairs.time)
    assert pairs.auc(scores) == pytest.approx(method.details()["valid_auc"])  # type: ignore[arg-type]
