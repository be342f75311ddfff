"""TNODE: snapshots never see what comes after them, and events never see themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines.shared.labelled_pairs import labelled
from tapgnn.baselines.static.skipgram import SkipGram
from tapgnn.baselines.static.snapshots import SnapshotNetwork, Snapshots
from tapgnn.baselines.static.tnode import TNODE, _borders
from tapgnn.data.negatives import rng_for, training_sampler
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Ints
from tests.baselines.samples import busy_log, make, parts


@given(size=st.integers(1, 80), seed=st.integers(0, 99), division=st.sampled_from([1, 2, 4, 8]))
def test_borders_lie_between_instants_and_coarse_ones_are_among_the_fine(size: int, seed: int, division: int) -> None:
    log = busy_log(size, seed=seed)
    fine, coarse = _borders(log, 8), _borders(log, division)
    assert fine[-1] == coarse[-1] == size
    assert set(coarse.tolist()) <= set(fine.tolist())
    assert coarse.tolist() == fine[8 // division - 1 :: 8 // division].tolist()
    for border in fine[fine < size].tolist():
        assert log.time[border - 1] < log.time[border]


def numbered_log() -> Events:
    """Its nodes have rows in order of first appearance."""
    log = busy_log()
    return Events.from_arrays(log.src, log.dst, log.time)


def test_a_snapshot_does_not_depend_on_what_comes_after_it() -> None:
    log = numbered_log()
    borders = np.unique(_borders(log, 4))
    method = TNODE(width=8, length=6, window=3)
    later = slice(int(borders[1]), None)
    changed = Events(log.dst[later] * 0, log.src[later] * 0 + 1, log.time[later], vocabulary=log.vocabulary)
    other = log.take(slice(0, int(borders[1]))).append(changed)
    first, second = method._snapshots(log, borders), method._snapshots(other, borders)
    for place in range(len(borders)):
        mine, yours = first.table(place), second.table(place)
        assert np.array_equal(mine, yours) == (place < 2)


def test_every_node_has_a_vector_from_the_snapshot_of_its_first_event_on() -> None:
    log = numbered_log()
    borders = np.unique(_borders(log, 4))
    found = TNODE(width=8, length=6, window=3)._snapshots(log, borders)
    for place, border in enumerate(borders.tolist()):
        here = np.unique(np.concatenate([log.src[:border], log.dst[:border]]))
        assert here.tolist() == list(range(found.size[place]))
        assert found.table(place).any(axis=1).all()


def some_snapshots(sizes: list[int], ends: np.ndarray, width: int = 5) -> Snapshots:
    found = Snapshots(np.array(sizes), ends, width)
    found.rows[:] = np.random.default_rng(0).normal(size=found.rows.shape)
    return found


def test_a_training_event_is_scored_from_snapshots_that_ended_before_it() -> None:
    log = busy_log()
    borders = np.unique(_borders(log, 4))
    snapshots = some_snapshots([len(log.vocabulary)] * len(borders), log.time[borders - 1])
    torch.manual_seed(0)
    network = SnapshotNetwork(snapshots, 3)
    pairs = labelled(log, training_sampler(log), rng_for(0, "training"))
    rows = np.flatnonzero((pairs.time > log.time[borders[0] - 1]) & (pairs.time <= log.time[borders[1] - 1]))
    before = float(network.loss(pairs, rows).detach())
    snapshots.rows[snapshots.start[1] :] += 1
    assert float(network.loss(pairs, rows).detach()) == before
    snapshots.rows[: snapshots.start[1]] += 1
    assert float(network.loss(pairs, rows).detach()) != before


def test_a_table_of_outputs_gives_the_scores_of_the_network_for_unseen_nodes_too() -> None:
    torch.manual_seed(0)
    network = SnapshotNetwork(some_snapshots([3, 8], np.array([1.0, 2.0])), 4)
    src, dst = np.random.default_rng(0).integers(-1, 8, size=(2, 40))
    with torch.no_grad():
        truth = network.head(*(network(nodes, np.full(40, 2)) for nodes in (src, dst))).squeeze(1)
    for nodes in (np.arange(-1, 8), np.unique(np.concatenate([src, dst]))):
        np.testing.assert_allclose(network.scorer(nodes)(src, dst), truth, rtol=1e-4, atol=1e-5)


def test_all_unseen_nodes_have_one_score() -> None:
    train, valid, _ = parts(busy_log())
    method = make("tnode")
    method.fit(train, valid)
    unseen = np.array([-1, int(max(train.src.max(), train.dst.max())) + 1, 99])
    scores = method.score(np.repeat(train.src[:1], 3), unseen, np.full(3, 1e3))
    np.testing.assert_allclose(scores, scores[0], rtol=1e-6)


def test_the_number_of_snapshots_is_selected_from_the_divisions() -> None:
    train, valid, _ = parts(busy_log())
    method = make("tnode", divisions=(1, 2, 4))
    method.fit(train, valid)
    assert isinstance(method, TNODE)
    assert method.details()["snapshots"] in (1, 2, 4)
    for divisions in ((3, 8), (0, 8), ()):
        with pytest.raises(ConfigError, match="divide the largest"):
            TNODE(divisions=divisions)


def test_snapshots_are_learned_once_per_fit_however_many_divisions_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train, valid, _ = parts(busy_log())
    trained: list[int] = []
    train_model = SkipGram.train

    def counted(model: SkipGram, walks: Ints) -> None:
        trained.append(id(model))
        train_model(model, walks)

    monkeypatch.setattr(SkipGram, "train", counted)
    make("tnode", divisions=(1, 2, 4)).fit(train, valid)
    assert len(trained) == len(np.unique(_borders(train, 4)))
    assert len(set(trained)) == 1
