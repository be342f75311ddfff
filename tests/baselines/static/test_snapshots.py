"""Snapshots: alignment undoes rotations, and the reader is an LSTM over whole sequences with their zeros."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines.static.snapshots import SnapshotNetwork, Snapshots


def filled(tables: list[np.ndarray]) -> Snapshots:
    found = Snapshots(np.array([len(table) for table in tables]), np.arange(len(tables)) * 1.0, tables[0].shape[1])
    for place, table in enumerate(tables):
        found.table(place)[:] = table
    return found


def growing(rng: np.random.Generator, count: int, width: int) -> Snapshots:
    return filled([rng.normal(size=(size, width)) for size in np.cumsum(rng.integers(0, 4, size=count) + 1)])


@given(seed=st.integers(0, 999), nodes=st.integers(4, 12))
def test_alignment_undoes_any_rotation(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(nodes, 4)).astype(np.float32)
    turns = [np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2)]
    newcomer = rng.normal(size=(1, 4)).astype(np.float32)
    found = filled([base, base @ turns[0], np.vstack([base, newcomer]) @ turns[1]])
    found.align()
    for place in range(3):
        np.testing.assert_allclose(found.table(place)[:nodes], base, atol=1e-4)
    np.testing.assert_allclose(found.table(2)[nodes:], newcomer, atol=1e-4)


@given(seed=st.integers(0, 999))
def test_aligning_some_of_the_aligned_is_aligning_these_up_to_one_rotation(seed: int) -> None:
    snapshots = growing(np.random.default_rng(seed), 4, 3)
    # So many nodes that the best rotation is one.
    snapshots = filled([np.vstack([np.eye(3) * 5, snapshots.table(place)]) for place in range(4)])
    places = np.array([1, 3])
    plain = snapshots.coarsen(places)
    snapshots.align()
    found = snapshots.coarsen(places)
    # Inner products between any two rows, of one snapshot or of two, do not know about a common rotation.
    np.testing.assert_allclose(found.rows @ found.rows.T, plain.rows @ plain.rows.T, atol=1e-3)


@given(seed=st.integers(0, 999), count=st.integers(1, 20), asked=st.integers(1, 40))
def test_the_reader_is_an_lstm_over_all_snapshots_with_zeros_before_the_first(
    seed: int, count: int, asked: int
) -> None:
    rng = np.random.default_rng(seed)
    snapshots = growing(rng, count, 4)
    torch.manual_seed(seed)
    reader = SnapshotNetwork(snapshots, 3)
    nodes = rng.integers(-1, snapshots.size[-1] + 2, size=asked)
    read = rng.integers(0, count + 1, size=asked)
    whole = np.zeros((count, asked, 4), dtype=np.float32)
    for place in range(count):
        here = (nodes >= 0) & (nodes < snapshots.size[place])
        whole[place, here] = snapshots.table(place)[nodes[here]]
    outputs, _ = reader.lstm(torch.from_numpy(whole))
    outputs = torch.cat([torch.zeros(1, asked, 3), outputs])
    expected = outputs[torch.from_numpy(read), torch.arange(asked)]
    found = reader(nodes, read)
    torch.testing.assert_close(found, expected)
    weight = torch.randn(asked, 3)
    for mine, yours in zip(
        torch.autograd.grad((found * weight).sum(), list(reader.lstm.parameters())),
        torch.autograd.grad((expected * weight).sum(), list(reader.lstm.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(mine, yours, rtol=1e-4, atol=1e-5)
