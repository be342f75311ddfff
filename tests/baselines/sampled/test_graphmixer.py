"""GraphMixer: the encoders are the formula; it learns whom others choose."""

import numpy as np
import pytest
import torch

from tapgnn.baselines.sampled.graphmixer import GraphMixer
from tapgnn.baselines.sampled.recent_links import recent_links
from tapgnn.errors import ConfigError
from tests.baselines.samples import popularity_auc
from tests.baselines.shared.test_learner import make, parts, random_log


def test_the_logit_is_the_formula():
    train, valid, _ = parts(random_log(features=1))
    one = make(GraphMixer, neighbours=3, recent=5)
    one.fit(train, valid)
    network, past = one.network, one.state
    src, dst = (grid.ravel() for grid in np.meshgrid([-1, 0, 1, 5, 99], [2, 3, 98]))
    when = np.full(len(src), train.time[-1] + 0.5)
    scores = one.score(src, dst, when)

    def h(node):
        at, now = np.array([node]), when[:1]
        _, inputs = recent_links(past, at, now, 3)
        rows = [network.link(link) if link.any() else torch.zeros(one.width) for link in inputs[0]]
        met = past.latest(at, now, 5).node[0]
        own = network.vectors(at)[0]
        mean = network.vectors(met[met >= 0]).mean(dim=0) if (met >= 0).any() else torch.zeros(one.width)
        return torch.cat([network.mixer(torch.stack(rows)[None])[0], own + mean])[None]

    with torch.no_grad():
        wanted = [network.head(h(u), h(v)).item() for u, v in zip(src.tolist(), dst.tolist(), strict=True)]
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-5)


def test_it_learns_which_destinations_are_chosen():
    assert popularity_auc(GraphMixer(width=16, epochs=5, batch=20, neighbours=5, learning_rate=0.01)) > 0.9


@pytest.mark.parametrize("setting", ["layers", "neighbours", "recent"])
def test_impossible_settings_are_refused(setting):
    with pytest.raises(ConfigError, match=f"{setting} must be at least 1"):
        GraphMixer(**{setting: 0})
