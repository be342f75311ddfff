"""Node2Vec and what it shares with others: vectors from walks, a linear score of pairs, settings by validation."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tapgnn.baselines.shared.labelled_pairs import PairClassifier, Pairs, labelled, rows_of
from tapgnn.baselines.static.node2vec import Node2Vec
from tapgnn.baselines.static.skipgram import SkipGram, sentences
from tapgnn.baselines.static.static_vectors import best_of
from tapgnn.data.negatives import training_sampler
from tapgnn.errors import ConfigError, StateError
from tapgnn.events import Floats, Ints
from tests.baselines.samples import busy_log, make, parts, popularity_auc


def groups_walks(seed: int) -> Ints:
    """Walks that stay within one of two groups, 0..4 or 5..9."""
    rng = np.random.default_rng(seed)
    return rng.integers(5, size=(400, 10)) + 5 * (np.arange(400) % 2)[:, None]


def test_nodes_that_walk_together_have_similar_vectors() -> None:
    model = SkipGram(width=16, window=4, negatives=5, epochs=3, seed=0)
    model.learn(sentences(groups_walks(0)))
    unit = model.table(10) / np.linalg.norm(model.table(10), axis=1, keepdims=True)
    likeness = unit @ unit.T
    assert likeness[:5, :5].mean() > likeness[:5, 5:].mean() + 0.3


def test_skip_gram_repeats_itself_and_knows_nothing_of_a_node_that_no_walk_reached() -> None:
    first, second = (SkipGram(8, 3, 5, 1, seed=4) for _ in range(2))
    for model in (first, second):
        model.learn(sentences(groups_walks(1)))
    np.testing.assert_array_equal(first.table(12), second.table(12))
    assert (first.table(12)[10:] == 0).all()
    assert (first.table(12)[:10] != 0).all()


def test_skip_gram_goes_on_from_what_it_has_learnt() -> None:
    model = SkipGram(8, 3, 5, 1, seed=0)
    model.learn(sentences(groups_walks(0)))
    before = model.table(12)
    model.learn([["3", "11", "3", "11"]])
    after = model.table(12)
    assert (after[11] != 0).any()
    assert (after[3] != before[3]).any()
    # Only words of the new walks move.
    np.testing.assert_array_equal(after[:3], before[:3])


def test_walks_become_sentences_without_their_padding() -> None:
    walks = np.array([[3, 1, -1], [2, -1, -1], [0, 0, 2]])
    assert sentences(walks) == [["3", "1"], ["2"], ["0", "0", "2"]]
    assert sentences(walks, shortest=2) == [["3", "1"], ["0", "0", "2"]]


def test_without_gensim_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ConfigError, match=r"pip install 'tapgnn\[peers\]'"):
        SkipGram(8, 3, 5, 1, 0)


def test_pairs_are_the_events_and_as_many_others_that_never_name_the_true_destination() -> None:
    log = busy_log()
    pairs = labelled(log, training_sampler(log), 3, "training")
    size = len(log)
    assert pairs.label.tolist() == [1] * size + [0] * size
    np.testing.assert_array_equal(pairs.src[size:], log.src)
    np.testing.assert_array_equal(pairs.time[size:], log.time)
    assert (pairs.dst[size:] != log.dst).all()
    assert (pairs.dst[:size] == log.dst).all()


def test_the_classifier_finds_a_linear_rule_and_gives_strangers_the_vector_zero() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(40, 3)).astype(np.float32)
    src, dst = rng.integers(40, size=(2, 2_000))
    label = (table[src, 0] - 2 * table[dst, 1] > 0).astype(np.int64)
    classifier = PairClassifier(table, Pairs(src, dst, np.zeros(2_000), label))
    assert Pairs(src, dst, np.zeros(2_000), label).auc(classifier.logits(src, dst)) > 0.99
    rows = np.array([-1, 40, 2])
    assert (rows_of(table, rows)[:2] == 0).all()
    assert classifier.logits(rows[:1], rows[:1]) == classifier.logits(rows[1:2], rows[1:2])


def test_vectors_and_scores_that_are_not_finite_are_refused_with_the_cure() -> None:
    log = busy_log()
    pairs = labelled(log, training_sampler(log), 0, "training")
    table = np.ones((len(log.vocabulary), 3), dtype=np.float32)
    table[2, 1] = np.nan
    with pytest.raises(ConfigError, match=r"vectors of 1 of \d+ nodes are not finite; lower the learning rate"):
        PairClassifier(table, pairs)
    with pytest.raises(ConfigError, match="scores are not finite; lower the learning rate"):
        pairs.auc(np.full(len(pairs), np.nan))
    for name, settings in (("htne", {"epochs": 3}), ("graphsage", {}), ("tnode", {})):
        with pytest.raises(ConfigError, match="went astray"):
            make(name, learning_rate=1e36, **settings).fit(log, log)


class Constant:
    """A scorer that prefers destinations by a fixed table."""

    def __init__(self, worth: list[float]) -> None:
        self.worth = np.array(worth)

    def logits(self, src: Ints, dst: Ints) -> Floats:
        return self.worth[dst]


def test_the_best_setting_is_that_of_the_exam_and_the_first_where_there_is_none() -> None:
    exam = Pairs(np.zeros(2, dtype=np.int64), np.array([0, 1]), np.zeros(2), np.array([1, 0]))
    scorers = {"wrong": Constant([0.0, 1.0]), "right": Constant([1.0, 0.0])}
    assert best_of(scorers, scorers.__getitem__, exam)[::2] == ("right", 1.0)
    nothing = Pairs(exam.src[:0], exam.dst[:0], exam.time[:0], exam.label[:0])
    assert best_of(scorers, scorers.__getitem__, nothing)[::2] == ("wrong", 0.5)
    with pytest.raises(StateError, match="no setting"):
        best_of([], scorers.__getitem__, exam)


def test_it_learns_which_destinations_are_chosen() -> None:
    method = Node2Vec(width=16, walks=10, length=20, window=5, grid=(1.0,))
    assert popularity_auc(method) > 0.95
    assert method.details()["valid_auc"] > 0.7  # type: ignore[operator]


def test_p_and_q_come_from_the_grid_and_nothing_is_asked_before_the_fit() -> None:
    train, valid, _ = parts(busy_log())
    method = make("node2vec", grid=(1.0, 0.25, 4.0))
    with pytest.raises(StateError, match="call fit first"):
        method.score(valid.src, valid.dst, valid.time)
    method.fit(train, valid)
    assert isinstance(method, Node2Vec)
    assert {method.details()["p"], method.details()["q"]} <= {1.0, 0.25, 4.0}


def test_a_setting_is_chosen_by_the_very_fit_that_answers_and_none_is_fitted_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train, valid, _ = parts(busy_log())
    corpora: list[int] = []
    learn = SkipGram.learn

    def counted(model: SkipGram, walks: list[list[str]]) -> None:
        corpora.append(len(walks))
        learn(model, walks)

    monkeypatch.setattr(SkipGram, "learn", counted)
    method = make("node2vec", grid=(1.0, 0.25, 4.0))
    method.fit(train, valid)
    nodes = len(np.unique(np.concatenate([train.src, train.dst])))
    assert corpora == [2 * nodes] * 5
    exam = labelled(valid, training_sampler(train), 0, "validation")
    scores = method.score(exam.src, exam.dst, exam.time)
    assert exam.auc(scores) == pytest.approx(method.details()["valid_auc"])  # type: ignore[arg-type]
