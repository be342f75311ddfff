"""Every fast scan against a plain loop: outputs, gradients, odd sizes, both forms, poisoned memory."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from tapgnn.compiled import parallel, scan_ops, scan_plain
from tapgnn.model.backend import COMPILED

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6}


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch):
    """Uninitialised memory is NaN, so that reading it shows."""
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def chains(rng, rows, segments):
    """Random offsets [segments + 1] over the rows; some chains are empty."""
    return torch.tensor([0, *np.sort(rng.integers(0, rows + 1, segments - 1)), rows]) if segments else torch.tensor([0])


@st.composite
def problems(draw, dtype=None):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, segments, groups = draw(st.integers(0, 30)), draw(st.integers(1, 6)), draw(st.integers(0, 3))
    size = draw(st.integers(1, 37)) + groups
    kind = dtype or draw(st.sampled_from([torch.float32, torch.float64]))
    value = torch.tensor(rng.normal(size=(rows, size)), dtype=kind)
    decay = torch.tensor(rng.uniform(0, 1, size=(rows, groups))) if groups else None
    initial = torch.tensor(rng.normal(size=(segments, size)), dtype=torch.float64)
    return value, decay, initial, chains(rng, rows, segments)


def naive_sum(value, decay, initial, chain):
    width = value.shape[1]
    rows, last = [], []
    for c in range(len(chain) - 1):
        total = initial[c]
        for i in range(chain[c], chain[c + 1]):
            if decay is not None:
                total = total * decay[i][scan_plain.channel_groups(width, decay.shape[1])]
            total = total + value[i].double()
            rows.append(total)
        last.append(total)
    return (torch.stack(rows) if rows else value.double()).to(value.dtype), torch.stack(last)


def naive_max(value, initial, chain):
    rows, last = [], []
    for c in range(len(chain) - 1):
        best = initial[c]
        for i in range(chain[c], chain[c + 1]):
            best = torch.maximum(best, value[i])
            rows.append(best)
        last.append(best)
    return (torch.stack(rows) if rows else value), torch.stack(last)


def close(first, second, dtype):
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@given(problems())
@pytest.mark.parametrize("form", [scan_ops.scan_sum, scan_plain.scan_sum])
def test_sums_equal_the_loop(form, problem):
    close(form(*problem), naive_sum(*problem), problem[0].dtype)


@given(problems())
@pytest.mark.parametrize("form", [scan_ops.scan_max, scan_plain.scan_max])
def test_maxima_equal_the_loop(form, problem):
    value, _, initial, chain = problem
    initial = initial.to(value.dtype)
    close(form(value, initial, chain), naive_max(value, initial, chain), value.dtype)


def slopes(form, tensors, chain):
    """Gradients of a random but fixed combination of everything the scan returns."""
    leaves = [None if t is None else t.clone().requires_grad_() for t in tensors]
    out = form(*leaves, chain)
    generator = torch.Generator().manual_seed(1)
    loss = sum((o.double() * torch.randn(o.shape, generator=generator, dtype=torch.float64)).sum() for o in out)
    present = [t for t in leaves if t is not None]
    return torch.autograd.grad(loss, present, materialize_grads=True)


@given(problems(dtype=torch.float64))
@pytest.mark.parametrize("form", [scan_ops.scan_sum, scan_plain.scan_sum])
def test_gradients_of_sums_equal_those_of_the_loop(form, problem):
    *tensors, chain = problem
    close(slopes(form, tensors, chain), slopes(naive_sum, tensors, chain), torch.float64)


@given(problems(dtype=torch.float64))
@pytest.mark.parametrize("form", [scan_ops.scan_max, scan_plain.scan_max])
def test_gradients_of_maxima_equal_those_of_the_loop(form, problem):
    value, _, initial, chain = problem
    close(slopes(form, [value, initial], chain), slopes(naive_max, [value, initial], chain), torch.float64)


def small_problem():
    rng = np.random.default_rng(5)
    chain = torch.tensor([0, 3, 3, 7])
    value, initial = (torch.tensor(rng.normal(size=shape)).requires_grad_() for shape in ((7, 4), (3, 4)))
    decay = torch.tensor(rng.uniform(0.1, 1, (7, 2))).requires_grad_()
    return value, decay, initial, chain


def test_gradcheck_passes_for_values_rates_and_initial_states():
    value, _, initial, chain = small_problem()
    elapsed = torch.rand(7, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    rate = torch.tensor([0.0, 0.7], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda v, r, s: scan_ops.scan_sum(v, torch.exp(-elapsed * r), s, chain), (value, rate, initial))
    assert gradcheck(lambda v, s: scan_ops.scan_sum(v, None, s, chain), (value, initial))
    assert gradcheck(lambda v, s: scan_ops.scan_max(v, s, chain), (value, initial))


def test_gradcheck_passes_for_the_softmax_weighted_mean():
    value, _, initial, chain = small_problem()
    alpha = torch.randn(7, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(4)).requires_grad_()

    def mean(alpha, value, initial):
        peak = alpha.detach()
        total = torch.cat([value, torch.ones_like(alpha)], dim=1) * torch.exp(alpha - peak)
        carried = torch.cat([initial, torch.ones(3, 1, dtype=torch.float64)], dim=1)
        _, running, _, last = COMPILED.scans.scan_logsumexp(
            peak, total, torch.zeros(3, 1, dtype=torch.float64), carried, chain
        )
        return running[:, :-1] / running[:, -1:], last[:, :-1] / last[:, -1:]

    assert gradcheck(mean, (alpha, value, initial))


def test_large_scores_do_not_overflow():
    chain = torch.tensor([0, 3])
    peak = torch.tensor([[1000.0], [-1000.0], [1001.0]])
    total = torch.tensor([[2.0, 1.0], [5.0, 1.0], [4.0, 1.0]])
    start = torch.full((1, 1), -torch.inf), torch.zeros(1, 2, dtype=torch.float64)
    _, running, _, _ = COMPILED.scans.scan_logsumexp(peak, total, *start, chain)
    mean = running[:, 0] / running[:, 1]
    expected = (2 * np.exp(-1.0) + 4) / (np.exp(-1.0) + 1)
    torch.testing.assert_close(mean, torch.tensor([2.0, 2.0, expected], dtype=torch.float32))


@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(1, 20))
def test_gathered_sums_and_their_gradients_equal_plain_torch(seed, weighted, width):
    rng = np.random.default_rng(seed)
    messages, rows, receivers = rng.integers(0, 30), rng.integers(1, 9), rng.integers(1, 9)
    inbox = chains(rng, messages, receivers)
    index = torch.tensor(rng.integers(0, rows, messages))
    results = []
    for form in (scan_ops.gather_sum, scan_plain.gather_sum):
        value = torch.tensor(np.random.default_rng(seed).normal(size=(rows, width))).requires_grad_()
        weight = torch.tensor(np.random.default_rng(seed).normal(size=messages)).requires_grad_() if weighted else None
        out = form(value, index, weight, inbox)
        (out * torch.arange(out.numel()).view_as(out)).sum().backward()
        results.append([out.detach(), value.grad, *([weight.grad] if weighted else [])])
    close(*results, torch.float64)


def test_two_threads_give_the_bits_of_one():
    rng = np.random.default_rng(0)
    value, chain = torch.tensor(rng.normal(size=(4001, 64)), dtype=torch.float32), chains(rng, 4001, 300)
    initial = torch.zeros(300, 64, dtype=torch.float64)
    results = []
    for threads in (2, 1):  # the suite goes on with one
        torch.set_num_threads(threads)
        results.append(scan_ops.scan_sum(value, None, initial, chain)[0])
    assert parallel.PARALLEL_FROM < 4001 * 64
    assert torch.equal(*results)


@pytest.mark.parametrize("form", [scan_ops.scan_sum, scan_plain.scan_sum])
def test_a_chain_of_a_million_keeps_its_digits_in_float32(form):
    rows = 1_000_000
    value = torch.full((rows, 1), 0.1, dtype=torch.float32)
    running, last = form(value, None, torch.zeros(1, 1, dtype=torch.float64), torch.tensor([0, rows]))
    exact = torch.arange(1, rows + 1, dtype=torch.float64).unsqueeze(1) * value[0, 0].double()
    assert ((running.double() - exact) / exact).abs().max() < 1e-4
    assert abs(float(last[0, 0] / exact[-1, 0]) - 1) < 1e-10
