"""The adaptive block in one pass against the same operations one by one: values, last state and every gradient."""

import pytest
import torch

from tapgnn.compiled import scan_loops as loops
from tapgnn.compiled.adaptive_fused import fade_and_join
from tapgnn.compiled.flow import Flow
from tapgnn.compiled.layer_norm import join_and_normalise
from tapgnn.kernels import Adaptive, pass_gate
from tapgnn.kernels.adaptive import PINNED

WIDTH = 13


def block(lengths, alone, rates=2, transposed=False):
    """Weights with gradients, and the rest of what a block is given: chains of such lengths, messages and states."""
    generator = torch.Generator().manual_seed(sum(lengths) + rates)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    chain = torch.tensor([0, *lengths]).cumsum(0)
    rows = int(chain[-1])
    inbox = torch.cat([torch.zeros(1, dtype=torch.int64), torch.randint(1, 4, (rows,), generator=generator).cumsum(0)])
    inputs = rows if alone else 5
    index, role = (torch.randint(0, high, (int(inbox[-1]),), generator=generator) for high in (max(inputs, 1), 2))
    elapsed = 0.3 * torch.rand(rows, 2, generator=generator, dtype=torch.float64)
    flow = Flow(chain, inbox, index, role, index, torch.ones(rows), elapsed, elapsed)
    kernel = Adaptive(WIDTH, rates).double()
    carried = 3 * torch.rand(len(lengths), kernel.state_width, generator=generator, dtype=torch.float64)
    value, table = drawn(max(inputs, 1), WIDTH), drawn(inputs, WIDTH)
    if transposed:
        value, table = value.T.contiguous().T, table.T.contiguous().T
    weights = [value, 1 + 0.1 * drawn(2, WIDTH), kernel.rate().detach(), table, *(drawn(WIDTH) for _ in range(3))]
    row = None if alone else torch.randint(0, inputs, (rows,), generator=generator)
    return kernel, [tensor.requires_grad_() for tensor in weights], (index, flow, carried, row)


def one_by_one(kernel, weights, index, flow, carried, row):
    value, gate, rate, table, own, scale, shift = weights
    kernel.rate = lambda: rate
    mine = table if row is None else table.index_select(0, row)
    read, last = kernel.scan(*pass_gate(value, index, gate, flow), mine, flow, carried)
    return join_and_normalise(mine, own, read, scale, shift), last


SHAPES = [[3, 1, 5, 2], [1], [3, 0, 5, 0], [30, 40], []]


@pytest.mark.parametrize("lengths", SHAPES)
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("form", ["plain", "transposed", "no rates", "three threads"])
def test_the_one_pass_equals_the_operations_one_by_one(lengths, alone, form, monkeypatch):
    kernel, weights, rest = block(lengths, alone, 0 if form == "no rates" else 2, form == "transposed")
    if form == "three threads":
        monkeypatch.setattr(loops, "PARALLEL_FROM", 0)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    expected, expected_last = one_by_one(kernel, weights, *rest)
    found, found_last = fade_and_join(*weights, *rest)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found_last, expected_last)
    slope = torch.randn(found.T.shape, generator=torch.Generator().manual_seed(1), dtype=found.dtype).T
    slopes = [torch.autograd.grad(form, weights, slope) for form in (found, expected)]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other)


def test_slopes_of_a_long_chain_keep_most_digits_of_float32():
    _, weights, rest = block([4_000], alone=False)
    # Rates are always float64.
    short = [tensor if place == 2 else tensor.detach().float().requires_grad_() for place, tensor in enumerate(weights)]
    slopes = [
        torch.autograd.grad(fade_and_join(*form, *rest)[0].double().square().mean(), form) for form in (weights, short)
    ]
    for place, (true, found) in enumerate(zip(*slopes, strict=True)):
        if place == 2:  # nobody asks for the slopes of the rates that are pinned to 0
            true, found = true[:, PINNED:], found[:, PINNED:]
        assert float((found - true).abs().max()) < 1e-4 * float(true.abs().max())
