"""TGAT: each (node, time) once gives what a recursion over every neighbour of every neighbour gives."""

import numpy as np
import pytest
import torch

from tapgnn.baselines.sampled.tgat import TGAT
from tests.baselines.shared.test_learner import make, parts, queries, random_log


@torch.no_grad()
def recursive(method, node, time, layer):
    """h [d] of one (node, time), from the definition."""
    network, past = method.network, method.state
    if layer == 0:
        return network.vectors(np.array([node]))
    own = recursive(method, node, time, layer - 1)
    met = past.latest(np.array([node]), np.array([time]), method.neighbours)
    here = met.mask[0]
    pairs = zip(met.node[0][here], met.time[0][here], strict=True)
    rows = torch.cat([own, *(recursive(method, int(u), float(t), layer - 1) for u, t in pairs)])
    index = np.where(met.mask, np.arange(met.node.shape[1]) + 1, -1)
    attention, merge = network.attention[layer - 1], network.merge[layer - 1]
    seen = attention(own, network.encoding(np.array([time])), rows, index, past.table, met.event)
    return merge(seen, own)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_computing_each_node_and_time_once_changes_nothing(layers):
    train, valid, test = parts(random_log(size=60, features=1))
    one = make(TGAT, layers=layers, neighbours=3)
    one.fit(train, valid)
    one.observe(valid)
    src, dst, time = (column[-6:] for column in queries(test, 9))
    scores = one.replay(test, src, dst, time)
    for place in range(len(src)):
        ends = [recursive(one, int(node), float(time[place]), layers) for node in (src[place], dst[place])]
        assert one.network.head(*ends).item() == pytest.approx(scores[place], rel=1e-4, abs=1e-5)
