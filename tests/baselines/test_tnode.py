"""TNODE: snapshots never see what comes after them, alignment undoes rotations, events never see themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines.pairs import labelled, sampler_of
from tapgnn.baselines.tnode import TNODE, SnapshotNetwork, SnapshotScorer, _borders, aligned
from tapgnn.errors import ConfigError
from tapgnn.events import Events
from tests.baselines.samples import busy_log, make, parts


@given(seed=st.integers(0, 999), nodes=st.integers(4, 12))
def test_alignment_undoes_any_rotation(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(nodes, 4)).astype(np.float32)
    turns = [np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2)]
    newcomer = rng.normal(size=(1, 4)).astype(np.float32)
    tables = [base, (base @ turns[0]).astype(np.float32), (np.vstack([base, newcomer]) @ turns[1]).astype(np.float32)]
    found = aligned(tables)
    for table in found:
        np.testing.assert_allclose(table[:nodes], base, atol=1e-4)
    np.testing.assert_allclose(found[2][nodes:], newcomer, atol=1e-4)


@given(size=st.integers(1, 80), seed=st.integers(0, 99), division=st.sampled_from([1, 2, 4, 8]))
def test_borders_lie_between_instants_and_coarse_ones_are_among_the_fine(size: int, seed: int, division: int) -> None:
    log = busy_log(size, seed=seed)
    fine, coarse = _borders(log, 8), _borders(log, division)
    assert fine[-1] == coarse[-1] == size
    assert set(coarse.tolist()) <= set(fine.tolist())
    assert coarse.tolist() == fine[8 // division - 1 :: 8 // division].tolist()
    for border in fine[fine < size].tolist():
        assert log.time[border - 1] < log.time[border]


def test_a_snapshot_does_not_depend_on_what_comes_after_it() -> None:
    log = busy_log()
    borders = np.unique(_borders(log, 4))
    method = TNODE(width=8, length=6, window=3)
    other = log.take(slice(0, int(borders[1]))).append(
        Events(
            log.dst[borders[1] :] * 0, log.src[borders[1] :] * 0 + 1, log.time[borders[1] :], vocabulary=log.vocabulary
        )
    )
    first, second = method._snapshots(log, borders), method._snapshots(other, borders)
    for mine, yours in zip(first[:2], second[:2], strict=True):
        np.testing.assert_array_equal(mine, yours)
    assert any(
        mine.shape != yours.shape or (mine != yours).any() for mine, yours in zip(first[2:], second[2:], strict=True)
    )


def test_a_training_event_is_scored_from_snapshots_that_ended_before_it() -> None:
    log = busy_log()
    borders = np.unique(_borders(log, 4))
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(len(log.vocabulary), 5)).astype(np.float32) for _ in borders]
    torch.manual_seed(0)
    network = SnapshotNetwork(tables, log.time[borders - 1], 3)
    pairs = labelled(log, sampler_of(log), 0)
    rows = np.flatnonzero((pairs.time > log.time[borders[0] - 1]) & (pairs.time <= log.time[borders[1] - 1]))
    before = float(network.loss(pairs, rows).detach())
    network.tables = [tables[0], *(table + 1 for table in tables[1:])]
    assert float(network.loss(pairs, rows).detach()) == before
    network.tables = [tables[0] + 1, *tables[1:]]
    assert float(network.loss(pairs, rows).detach()) != before


def test_the_table_of_outputs_answers_as_the_network_does_strangers_included() -> None:
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    tables = [rng.normal(size=(size, 5)).astype(np.float32) for size in (3, 6)]
    network = SnapshotNetwork(tables, np.array([1.0, 2.0]), 4)
    src, dst = rng.integers(-1, 9, size=(2, 40))
    np.testing.assert_allclose(SnapshotScorer(network).logits(src, dst), network.logits(src, dst), rtol=1e-5)


def test_the_number_of_snapshots_is_chosen_from_the_divisions() -> None:
    train, valid, _ = parts(busy_log())
    method = make("tnode", divisions=(1, 2, 4))
    method.fit(train, valid)
    assert isinstance(method, TNODE)
    assert method.details()["snapshots"] in (1, 2, 4)
    with pytest.raises(ConfigError, match="divide the largest"):
        TNODE(divisions=(3, 8))
