"""HTNE: the intensity is that of the formula, its gradients are sparse, and padding adds nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import softplus

from tapgnn.baselines.static.htne import HTNE, HawkesNetwork
from tapgnn.errors import ConfigError
from tapgnn.events import Events
from tests.baselines.samples import busy_log, make, parts


def intensity(network: HawkesNetwork, x: int, y: int, history: list[int], ages: list[float]) -> torch.Tensor:
    """The definition, term by term."""
    e = network.vectors.weight
    g = lambda a, b: -(e[a] - e[b]).square().sum()  # noqa: E731
    past = [(h, age) for h, age in zip(history, ages, strict=True) if h >= 0]
    if not past:
        return g(x, y)
    weight = torch.softmax(torch.stack([g(x, h) for h, _ in past]), dim=0)
    rate = softplus(network.rate.weight[x, 0])
    return g(x, y) + sum(w * torch.exp(-rate * age) * g(h, y) for w, (h, age) in zip(weight, past, strict=True))


@given(seed=st.integers(0, 999))
def test_the_intensity_and_its_gradient_are_those_of_the_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    network = HawkesNetwork(6, 4)
    torch.nn.init.normal_(network.vectors.weight)
    torch.nn.init.normal_(network.rate.weight)
    source, target = rng.integers(6, size=3), rng.integers(6, size=(3, 2))
    history = rng.integers(6, size=(3, 4))
    history[np.arange(4) >= rng.integers(5, size=3)[:, None]] = -1
    age = rng.random((3, 4))
    found = network(source, target, history, age)
    expected = torch.stack(
        [
            torch.stack([intensity(network, int(x), int(y), past.tolist(), ages.tolist()) for y in row])
            for x, row, past, ages in zip(source, target, history, age, strict=True)
        ]
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    upstream = torch.randn(3, 2)
    (found * upstream).sum().backward()
    sparse = [network.vectors.weight.grad, network.rate.weight.grad]
    assert all(grad is not None and grad.is_sparse for grad in sparse)
    wanted = torch.autograd.grad(
        (expected * upstream).sum(), [network.vectors.weight, network.rate.weight], materialize_grads=True
    )
    for grad, want in zip(sparse, wanted, strict=True):
        assert grad is not None
        torch.testing.assert_close(grad.to_dense(), want, rtol=1e-3, atol=1e-3)


def test_the_length_of_history_is_selected_from_the_candidates() -> None:
    train, valid, _ = parts(busy_log())
    method = make("htne", histories=(1, 4))
    method.fit(train, valid)
    assert isinstance(method, HTNE)
    assert method.details()["history"] in (1, 4)
    with pytest.raises(ConfigError, match="positive lengths"):
        HTNE(histories=())


def test_learning_lifts_the_intensity_of_what_happened_above_chance() -> None:
    rng = np.random.default_rng(0)
    # Two groups that never meet.
    ends = rng.integers(6, size=(2, 400)) + 6 * (np.arange(400) % 2)
    log = Events.from_arrays(*ends, np.arange(400) * 1.0)
    table = HTNE(width=8, epochs=8, batch=50, learning_rate=0.02)._table(log, 3)
    rows = log.vocabulary.known_rows(np.arange(12))
    distance = np.square(table[rows][:, None] - table[rows][None]).sum(axis=2)
    same = (np.arange(12) < 6)[:, None] == (np.arange(12) < 6)[None]
    assert distance[~same].mean() > 2 * distance[same & ~np.eye(12, dtype=bool)].mean()
