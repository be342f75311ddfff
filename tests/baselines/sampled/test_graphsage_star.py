"""GraphSAGE*: a representation is the recursion of its formula over the events strictly before the query."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tapgnn.baselines.sampled.graphsage_star import GraphSAGEStar
from tapgnn.errors import ConfigError
from tests.baselines.samples import busy_log, make, parts, popularity_auc, queries


def test_the_scores_are_the_recursion_of_the_formula() -> None:
    train, valid, stream = parts(busy_log())
    method = make("graphsage-star")
    assert isinstance(method, GraphSAGEStar)
    method.fit(train, valid)
    method.observe(valid)
    network = method.network
    assert not network.training
    src, dst, _ = queries(stream, len(train.vocabulary))
    time = 1e3

    def h(node: int, when: float, layer: int) -> torch.Tensor:
        if layer == 0:
            return network.vectors(np.array([node]))[0]
        depth = 2 - layer
        met = method.state.uniform(np.array([node]), np.array([when]), method.neighbours, method.seed + depth)
        near = [
            h(u, t, layer - 1) for u, t in zip(met.node[met.mask].tolist(), met.time[met.mask].tolist(), strict=True)
        ]
        assert all(t < when for t in met.time[met.mask].tolist())
        module = network.layers[layer - 1]
        mean = torch.stack(near).mean(dim=0) if near else torch.zeros(method.width)
        return torch.relu(module.own(h(node, when, layer - 1)) + module.mean(mean))

    found = method.score(src, dst, np.full(len(src), time))
    with torch.no_grad():
        ends = [torch.stack([h(int(node), time, 2) for node in side]) for side in (src, dst)]
        expected = network.head(*ends).squeeze(1)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-6)


def test_it_learns_which_destinations_are_chosen() -> None:
    method = GraphSAGEStar(width=16, epochs=5, batch=20, neighbours=5, learning_rate=0.01)
    assert popularity_auc(method) > 0.9


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="neighbours must be at least 1"):
        GraphSAGEStar(neighbours=0)
