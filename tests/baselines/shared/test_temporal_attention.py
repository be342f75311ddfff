"""Temporal attention: the tables and the factored weights give the formula, neighbour by neighbour."""

import math

import numpy as np
import torch

from tapgnn import Events
from tapgnn.baselines.shared.temporal_attention import EventHistory, FixedTimeEncoding, TemporalAttention


def log_with_features(size=12, features=2):
    rng = np.random.default_rng(0)
    time = 1.7e9 + np.sort(rng.uniform(0, 1e6, size))
    return Events.from_arrays(
        rng.integers(0, 4, size), rng.integers(0, 4, size), time, rng.normal(size=(size, features))
    )


def by_the_formula(layer, encoding, log, own, time, rows, index, event):
    """Keys and values of every pair, from whole inputs and whole matrices."""
    heads, share = layer.heads, own.shape[1] // layer.heads
    key = torch.cat([layer.key.weight, layer.key_event.reshape(-1, layer.key_event.shape[2])], dim=1)
    value = torch.cat([layer.value.weight, layer.value_event.reshape(-1, layer.value_event.shape[2])], dim=1)
    found = torch.zeros_like(own)
    for r in range(len(own)):
        listed = [i for i in range(index.shape[1]) if index[r, i] >= 0]
        if not listed:
            continue
        query = layer.query(torch.cat([own[r], torch.ones(encoding.width, dtype=own.dtype)])).view(heads, share)
        gaps = torch.tensor([time[r] - log.time[event[r, i]] for i in listed], dtype=torch.float64)
        phases = torch.cos(gaps.unsqueeze(1) * encoding.frequency)
        vectors = torch.from_numpy(log.features[[event[r, i] for i in listed]]).double()
        inputs = torch.cat([rows[[index[r, i] for i in listed]], phases, vectors], dim=1)
        keys = (inputs @ key.T).view(-1, heads, share)
        values = (inputs @ value.T + layer.value.bias).view(-1, heads, share)
        weight = torch.softmax(torch.einsum("hd,nhd->hn", query, keys) / math.sqrt(share), dim=1)
        found[r] = torch.einsum("hn,nhd->hd", weight, values).reshape(-1)
    return found


def test_attention_over_tables_is_the_formula_in_values_and_gradients():
    torch.manual_seed(0)
    log = log_with_features()
    encoding = FixedTimeEncoding(log, 6)
    past = EventHistory(encoding, 2)
    for piece in log.chunks(5):
        past.append(piece)
    layer = TemporalAttention(8, 6, 2, heads=2).double()
    own, rows = torch.randn(4, 8, dtype=torch.float64), torch.randn(5, 8, dtype=torch.float64, requires_grad=True)
    index = np.array([[0, 1, -1], [4, 4, 2], [-1, -1, -1], [3, -1, -1]])
    event = np.where(index >= 0, np.array([[3, 1, 0], [2, 9, 10], [0, 0, 0], [11, 0, 0]]), -1)
    time = log.time[-1] + np.array([1.0, 20.0, 3.0, 500.0])
    seen = layer(own, encoding(time).double(), rows, index, past.table.double(), event)
    wanted = by_the_formula(layer, encoding, log, own, time, rows, index, event)
    # The tables are float32.
    torch.testing.assert_close(seen, wanted, rtol=1e-5, atol=1e-6)
    assert (seen[2] == 0).all()
    inputs = [rows, *layer.parameters()]
    got = torch.autograd.grad(seen.square().sum(), inputs)
    truth = torch.autograd.grad(wanted.square().sum(), inputs)
    for one, other in zip(got, truth, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_log_of_one_instant_has_an_encoding_too():
    log = Events.from_arrays([0, 1], [1, 2], [5.0, 5.0])
    encoding = FixedTimeEncoding(log, 4)
    assert torch.isfinite(encoding(np.array([5.0, 6.0]))).all()
    assert EventHistory(encoding, 0).table.shape[1:] == (1, 8)
