"""The adaptive block in one pass against the same operations one by one: values, last state and every gradient."""

import pytest
import torch

from tapgnn.compiled import parallel
from tapgnn.kernels import Adaptive
from tapgnn.kernels.adaptive import PINNED
from tapgnn.kernels.flow import Flow
from tapgnn.kernels.kernel import BlockEnd, BlockInputs
from tapgnn.model.backend import COMPILED, PLAIN

WIDTH = 13


def block(lengths, alone, rates=2, transposed=False, joined=True):
    """A kernel, weights with gradients, and the rest of what a block is given: chains of such lengths and states."""
    generator = torch.Generator().manual_seed(sum(lengths) + rates)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    chain = torch.tensor([0, *lengths]).cumsum(0)
    rows = int(chain[-1])
    inbox = torch.cat([torch.zeros(1, dtype=torch.int64), torch.randint(1, 4, (rows,), generator=generator).cumsum(0)])
    inputs = rows if alone else 5
    index, role = (torch.randint(0, high, (int(inbox[-1]),), generator=generator) for high in (max(inputs, 1), 2))
    elapsed = 0.3 * torch.rand(rows, 2, generator=generator, dtype=torch.float64)
    kernel = Adaptive(WIDTH, rates).double()
    carried = 3 * torch.rand(len(lengths), kernel.state_width, generator=generator, dtype=torch.float64)
    value, table = drawn(max(inputs, 1), WIDTH), drawn(inputs, WIDTH)
    if transposed:
        value, table = value.T.contiguous().T, table.T.contiguous().T
    weights = [value, 1 + 0.1 * drawn(2, WIDTH), kernel.rate().detach()]
    weights += [table, *(drawn(WIDTH) for _ in range(3))] if joined else []
    row = None if alone else torch.randint(0, inputs, (rows,), generator=generator)
    flow = (chain, inbox, index, role, index, torch.ones(rows), elapsed, elapsed)
    return kernel, [tensor.requires_grad_() for tensor in weights], (index, flow, carried, row, table.detach())


def run(backend, kernel, weights, index, flow, carried, row, table):
    value, gate, rate, *end = weights
    kernel.rate = lambda: rate
    own = BlockEnd(*end[1:]) if end else None
    inputs = BlockInputs(value, index, gate, end[0] if end else table, row, own, value[:0])
    return kernel.run_block(inputs, Flow(*flow, backend.scans), carried)


SHAPES = [[3, 1, 5, 2], [1], [3, 0, 5, 0], [30, 40], []]


@pytest.mark.parametrize("lengths", SHAPES)
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("form", ["plain", "transposed", "no rates", "three threads"])
def test_the_one_pass_equals_the_operations_one_by_one(lengths, alone, joined, form, monkeypatch):
    kernel, weights, rest = block(lengths, alone, 0 if form == "no rates" else 2, form == "transposed", joined)
    if form == "three threads":
        monkeypatch.setattr(parallel, "PARALLEL_FROM", 0)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    expected, expected_last = run(PLAIN, kernel, weights, *rest)
    found, found_last = run(COMPILED, kernel, weights, *rest)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found_last, expected_last)
    grad = torch.randn(found.T.shape, generator=torch.Generator().manual_seed(1), dtype=found.dtype).T
    grads = [torch.autograd.grad(form, weights, grad) for form in (found, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_of_a_long_chain_keep_most_digits_of_float32():
    kernel, weights, rest = block([4_000], alone=False)
    # Rates are always float64.
    short = [tensor if place == 2 else tensor.detach().float().requires_grad_() for place, tensor in enumerate(weights)]
    grads = [
        torch.autograd.grad(run(COMPILED, kernel, form, *rest)[0].double().square().mean(), form)
        for form in (weights, short)
    ]
    for place, (true, found) in enumerate(zip(*grads, strict=True)):
        if place == 2:  # nobody asks for the gradients of the rates that are pinned to 0
            true, found = true[:, PINNED:], found[:, PINNED:]
        assert float((found - true).abs().max()) < 1e-4 * float(true.abs().max())
