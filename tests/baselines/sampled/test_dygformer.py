"""DyGFormer: counts and sequences by the definition, padding that changes nothing, and pairs that it tells apart."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from tapgnn import Events
from tapgnn.baselines.sampled.dygformer import DyGFormer, count_members
from tapgnn.baselines.sampled.recent_links import recent_links
from tapgnn.errors import ConfigError
from tests.baselines.shared.test_learner import parts, random_log


def test_a_member_is_counted_in_its_own_history_and_in_the_other_one():
    rng = np.random.default_rng(0)
    left, right = rng.integers(-1, 4, size=(2, 30, 7))
    found = count_members(left, right)
    assert found.shape == (60, 7, 2)
    for row in range(60):
        for place, member in enumerate((left if row < 30 else right)[row % 30].tolist()):
            both = [side[row % 30].tolist().count(member) for side in (left, right)]
            assert found[row, place].tolist() == (both if member >= 0 else [0, 0])


def test_a_history_starts_with_the_node_itself_and_then_lists_whom_it_met_last():
    train, valid, _ = parts(random_log(features=2))
    one = DyGFormer(width=16, epochs=1, neighbours=4, patch=3)
    one.fit(train, valid)
    node, time = np.array([0, 99, 1, -1]), np.full(4, train.time[-1] + 1.0)
    links = recent_links(one.state, node, time, 4)
    members, inputs = one._sequences(node, links)
    assert members.shape == (4, 6)
    assert members[0].tolist() == [0, *links.met.node[0].tolist(), -1]
    assert members[2].tolist() == [1, *links.met.node[2].tolist(), -1]
    assert members[1].tolist() == [99, -1, -1, -1, -1, -1]
    assert members[3, 0] >= 0
    assert torch.equal(inputs[:, 0], torch.cat([torch.ones(4, 16), torch.zeros(4, 2)], dim=1))
    assert torch.equal(inputs[:, 1:5], links.inputs)
    assert not inputs[torch.from_numpy(members < 0)].any()


@torch.no_grad()
def test_empty_patches_change_nothing():
    log = random_log()
    one = DyGFormer(width=16, neighbours=5, patch=2)
    network = one._build(log).eval()
    rng = np.random.default_rng(0)
    members, links = rng.integers(0, 5, size=(8, 6)), torch.randn(8, 6, 16)
    members[:, 4:], links[:, 4:] = -1, 0.0
    scores = [
        network(kept, given, torch.from_numpy(count_members(kept[:4], kept[4:])))
        for kept, given in ((members, links), (members[:, :4], links[:, :4]))
    ]
    torch.testing.assert_close(*scores, rtol=1e-5, atol=1e-6)


def test_it_learns_that_pairs_repeat_whoever_they_are():
    """Half of the nodes come only after training: no vector of a node can tell."""
    rng = np.random.default_rng(0)
    partner = rng.permutation(20)
    first, second = rng.integers(20, size=300), rng.integers(20, size=300) + 20
    src = np.concatenate([first, second])
    dst = np.where(src < 20, partner[src % 20] + 100, partner[src % 20] + 120)
    log = Events.from_arrays(src, dst, np.arange(600.0))
    one = DyGFormer(width=16, epochs=8, batch=20, neighbours=5, patch=2, learning_rate=0.01)
    one.fit(log.slice(0, 300), log.slice(0, 0))
    one.observe(log.slice(300, 450))
    test = log.slice(450, 600)
    wrong = test.dst[rng.permutation(len(test))]
    differs = wrong != test.dst
    asked = np.tile(test.src, 2), np.concatenate([test.dst, wrong]), np.tile(test.time, 2)
    scores = one.replay(test, *asked)[np.concatenate([differs, differs])]
    assert roc_auc_score(np.repeat([1, 0], differs.sum()), scores) > 0.9


def test_impossible_settings_are_refused():
    with pytest.raises(ConfigError, match="heads must divide the width 16"):
        DyGFormer(heads=3)
    with pytest.raises(ConfigError, match="patch must be at least 1"):
        DyGFormer(patch=0)
