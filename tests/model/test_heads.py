"""Heads: what is written out, forward and backward, is what its formula says."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Config
from tapgnn.compiled.pair_score import plain_weigh_pairs, weigh_pairs
from tapgnn.model.backend import COMPILED
from tapgnn.model.heads import Direct, PairInputs, make_head


def rows(*shape, grad=False):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=grad)


@given(left=st.integers(1, 4), blocks=st.integers(0, 3), width=st.integers(1, 9), seed=st.integers(0, 99))
def test_weighed_pairs_and_their_gradients_are_those_of_the_plain_form(left, blocks, width, seed):
    torch.manual_seed(seed)
    given_rows = [rows(left * (1 + blocks), width, grad=True), rows(3, width, grad=True)]
    found = []
    for form in (weigh_pairs, plain_weigh_pairs):
        scores = form(given_rows[0], left, given_rows[1])
        weights = torch.cos(torch.arange(len(scores), dtype=torch.float64))
        found.append((scores, *torch.autograd.grad((scores * weights).sum(), given_rows)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("statistics", "walks", "facts"), [(5, 3, 4), (5, 0, 0), (0, 3, 0), (5, 0, 4), (0, 0, 4)])
@pytest.mark.parametrize("blocks", [1, 2])
def test_the_direct_network_has_the_value_and_the_gradients_of_its_layers(statistics, walks, facts, blocks):
    torch.manual_seed(0)
    left = 4
    network = Direct(Config(head_width=6), statistics, walks, facts).double()
    torch.nn.init.normal_(network.bias)
    ends, pairs, met = rows(left * (1 + blocks), statistics), rows(left * blocks, walks), rows(left * blocks, facts)
    hidden = network.bias.expand(left * blocks, -1)
    if statistics:
        hidden = hidden + network.of_right(ends[left:]) + network.of_left(ends[:left]).repeat(blocks, 1)
    if walks:
        hidden = hidden + network.of_walks(pairs)
    if facts:
        hidden = hidden + network.of_pairs(met)
    plain = network.out(torch.relu(network.second(torch.relu(hidden))))
    known = (ends if statistics else None, pairs if walks else None, met if facts else None)
    found = network(PairInputs(ends, *known, left))
    torch.testing.assert_close(found, plain, rtol=1e-10, atol=1e-12)
    weights = list(network.parameters())
    for one, other in zip(
        *(torch.autograd.grad(scores.square().sum(), weights) for scores in (found, plain)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("head", ["dot", "role-dot", "additive", "mlp"])
def test_right_ends_in_blocks_score_as_pairs_one_by_one(head):
    torch.manual_seed(0)
    network = make_head(Config(head=head, width=8, head_width=6), 5, 3, 4).double()
    for weight in network.parameters():
        torch.nn.init.normal_(weight)
    z, statistics, walks, facts = rows(9, 8), rows(9, 5), rows(6, 3), rows(6, 4)
    together = network(PairInputs(z, statistics, walks, facts, 3), COMPILED)
    for q in range(6):
        pair = [q % 3, 3 + q]
        alone = network(PairInputs(z[pair], statistics[pair], walks[[q]], facts[[q]], 1), COMPILED)
        torch.testing.assert_close(alone, together[[q]], rtol=1e-10, atol=1e-12)
