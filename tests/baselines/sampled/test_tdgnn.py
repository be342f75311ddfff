"""TDGNN: the weights are those of the formula, and no event sees itself, which would gain a great deal."""

import numpy as np
import pytest
import torch

from tapgnn import Events
from tapgnn.baselines.sampled.tdgnn import TDGNN
from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.neighbourhood import distinct, frontiers
from tapgnn.evaluation.metrics import auc


def noise(size=1_600, nodes=40, seed=3):
    """Events without any rule: nothing in their past tells them apart from other pairs."""
    rng = np.random.default_rng(seed)
    return Events.from_arrays(rng.integers(0, nodes, size), rng.integers(0, nodes, size), np.arange(size, dtype=float))


class Leaky(TDGNN):
    """The public variant: neighbours with t_i <= t, from a log that contains the event of the query."""

    def _embed(self, events, node, time):
        # What lies strictly before the next number after t is what lies at t or before.
        return super()._embed(events, node, np.nextafter(time, np.inf))


def noise_auc(method, log, border):
    """AUC of the last events of a log against the same events with their destinations shuffled."""
    one = method(0, width=32, epochs=8, learning_rate=1e-2, vector_rate=1.0, neighbours=5)
    train = log.slice(0, border)
    one.fit(train, train.slice(0, 0))
    asked = log.slice(border, len(log))
    other = np.random.default_rng(0).permutation(asked.dst)
    dst, time = np.concatenate([asked.dst, other]), np.tile(asked.time, 2)
    scores = one.replay(asked, np.tile(asked.src, 2), dst, time)
    return auc(np.repeat([1, 0], len(asked)), scores)


def test_the_public_variant_in_which_an_event_sees_itself_is_far_better_on_noise_and_ours_is_at_chance():
    log = noise()
    assert noise_auc(Leaky, log, 1_200) > 0.75
    assert noise_auc(TDGNN, log, 1_200) == pytest.approx(0.5, abs=0.1)


@torch.no_grad()
def test_the_layers_are_the_formula():
    log = noise(size=60, nodes=6)
    one = TDGNN(0, width=8, neighbours=4)
    one.network = one._build(log)
    one.network.eval()
    network, graph = one.network, Adjacency(log)

    def h(node, time, layer):
        if layer == 0:
            return network.vectors(np.array([node]))[0]
        before = [e for e in range(len(log)) if log.time[e] < time and node in (log.src[e], log.dst[e])]
        ends = [(u, log.time[e]) for e in before for u in _others(log, e, node)][-4:]
        met = torch.zeros(8)
        if ends:
            ages = torch.tensor([(time - when) / network.unit for _, when in ends], dtype=torch.float32)
            weight = torch.softmax(-network.rate.exp()[layer - 1] * ages, dim=0)
            met = (weight.unsqueeze(1) * torch.stack([h(u, time, layer - 1) for u, _ in ends])).sum(dim=0)
        return torch.relu(network.layers[layer - 1](0.5 * (h(node, time, layer - 1) + met)))

    asked = np.array([0, 3, 99]), np.array([20.0, 59.5, 30.0])
    roots, place = distinct(*asked)
    nodes, layered = frontiers(lambda node, time, depth: graph.latest(node, time, 4), *roots, 2, "query")
    found = network(nodes, layered, graph)[torch.from_numpy(place)]
    wanted = torch.stack([h(int(node), float(time), 2) for node, time in zip(*asked, strict=True)])
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def _others(log, event, node):
    """The neighbours that one event gives a node; a self-loop gives it itself, twice."""
    src, dst = int(log.src[event]), int(log.dst[event])
    return [src, src] if src == dst else [dst if src == node else src]
