"""TPNet: the logit is the formula, neighbour by neighbour; it tells pairs that repeat from others."""

import copy

import numpy as np
import pytest
import torch
from torch.nn.functional import relu

from tapgnn.baselines.sampled.recent_links import recent_links
from tapgnn.baselines.sampled.tpnet import TPNet
from tapgnn.errors import ConfigError
from tests.baselines.shared.test_learner import make, parts, random_log

NO_EVENTS = random_log().take(slice(0, 0))


def test_the_logit_is_the_formula():
    train, valid, _ = parts(random_log(features=1))
    one = make(TPNet, neighbours=3)
    one.fit(train, valid)
    network, (past, walks) = one.network, copy.deepcopy(one.state)
    src, dst = (grid.ravel() for grid in np.meshgrid([-1, 0, 1, 5, 99], [2, 3, 98]))
    when = np.full(len(src), train.time[-1] + 0.5)
    scores = one.score(src, dst, when)

    def f(a, b):
        products = torch.from_numpy(walks.replay(NO_EVENTS, np.array([a]), np.array([b]), when[:1]))[0]
        return relu(network.relative[0](torch.log(1.0 + relu(products))))

    def h(own, other):
        met, inputs = recent_links(past, np.array([own]), when[:1], 3)
        rows = torch.zeros(3, one.width)
        for place, node in enumerate(met.node[0].tolist()):
            if node >= 0:
                told = network.node(network.vectors(np.array([node])))[0] + network.link(inputs[0, place])
                rows[place] = told + network.both(torch.cat([f(own, node), f(other, node)]))
        return network.mixer(rows[None])[0]

    pairs = list(zip(src.tolist(), dst.tolist(), strict=True))
    with torch.no_grad():
        wanted = [network.head(torch.cat([h(u, v), h(v, u), f(u, v)])).item() for u, v in pairs]
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-5)


def test_impossible_settings_are_refused():
    for setting in ("layers", "neighbours", "steps", "dimensions"):
        with pytest.raises(ConfigError, match=f"{setting} must be at least 1"):
            TPNet(**{setting: 0})
    with pytest.raises(ConfigError, match="decay must be at least 0"):
        TPNet(decay=-1.0)
