"""Facts of pairs for the head: the loops and plain torch give the same numbers, and pairs that never met give none."""

import numpy as np
import torch

from tapgnn.model.features.pair_encoder import PairEncoder, encode_pairs
from tapgnn.model.features.recent_partners import MET, PAIR_FACTS


def some_facts(size=200):
    rng = np.random.default_rng(0)
    facts = rng.gamma(2.0, size=(size, PAIR_FACTS))
    facts[:, MET] = rng.random(size) < 0.6
    facts[facts[:, MET] == 0, 1:] = np.nan
    return facts


def test_loops_encode_as_plain_torch_does():
    facts = some_facts()
    encoder = PairEncoder(5).double()
    encoder.calibrate(torch.from_numpy(facts))
    found = encode_pairs(facts, encoder.arrays())
    np.testing.assert_allclose(found, encoder(torch.from_numpy(facts)), rtol=1e-12, atol=1e-12)
    assert found.shape == (len(facts), encoder.width)


def test_pairs_that_never_met_are_all_zero_and_others_say_that_they_met():
    facts = some_facts()
    encoder = PairEncoder(3).double()
    encoder.calibrate(torch.from_numpy(facts))
    met, encoded = facts[:, MET] == 1, encoder(torch.from_numpy(facts)).numpy()
    assert not encoded[~met].any()
    assert (encoded[met, 0] == 1).all()
    # Scaled by those that met alone.
    np.testing.assert_allclose(encoded[met, 1:PAIR_FACTS].mean(axis=0), 0.0, atol=1e-9)


def test_a_log_in_which_nobody_met_twice_leaves_it_as_it_is():
    encoder = PairEncoder(3)
    before = encoder.edges.clone()
    encoder.calibrate(torch.full((4, PAIR_FACTS), torch.nan).index_fill(1, torch.tensor([MET]), 0.0))
    assert torch.equal(encoder.edges, before)
