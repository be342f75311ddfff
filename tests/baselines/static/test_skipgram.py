"""Skip-gram: similar vectors for nodes that walk together, reproducible, and continued by further walks."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tapgnn.baselines.static.skipgram import SkipGram, _sentences
from tapgnn.errors import ConfigError
from tapgnn.events import Ints


def groups_walks(seed: int) -> Ints:
    """Walks that stay within one of two groups, 0..4 or 5..9."""
    rng = np.random.default_rng(seed)
    return rng.integers(5, size=(400, 10)) + 5 * (np.arange(400) % 2)[:, None]


def test_nodes_that_walk_together_have_similar_vectors() -> None:
    model = SkipGram(width=16, window=4, negatives=5, epochs=3, seed=0)
    model.train(groups_walks(0))
    unit = model.table(10) / np.linalg.norm(model.table(10), axis=1, keepdims=True)
    likeness = unit @ unit.T
    assert likeness[:5, :5].mean() > likeness[:5, 5:].mean() + 0.3


def test_skip_gram_repeats_itself_and_knows_nothing_of_a_node_that_no_walk_reached() -> None:
    first, second = (SkipGram(8, 3, 5, 1, seed=4) for _ in range(2))
    for model in (first, second):
        model.train(groups_walks(1))
    np.testing.assert_array_equal(first.table(12), second.table(12))
    assert (first.table(12)[10:] == 0).all()
    assert (first.table(12)[:10] != 0).all()


def test_skip_gram_continues_from_what_it_has_learned() -> None:
    model = SkipGram(8, 3, 5, 1, seed=0)
    model.train(groups_walks(0))
    before = model.table(12)
    model.train(np.array([[3, 11, 3, 11]]))
    after = model.table(12)
    assert (after[11] != 0).any()
    assert (after[3] != before[3]).any()
    # Only words of the new walks move.
    np.testing.assert_array_equal(after[:3], before[:3])


def test_walks_become_sentences_without_their_padding() -> None:
    walks = np.array([[3, 1, -1], [2, -1, -1], [0, 0, 2]])
    assert _sentences(walks) == [["3", "1"], ["2"], ["0", "0", "2"]]


def test_without_gensim_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ConfigError, match=r"pip install 'tapgnn\[peers\]'"):
        SkipGram(8, 3, 5, 1, 0)
