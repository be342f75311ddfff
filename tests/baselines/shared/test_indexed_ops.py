"""Gathering: the loops are the sums they stand for, with their gradients, whatever is padding."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines.shared.indexed_ops import dots, mixture


def gathered(rows, index, heads):
    """rows [R, n, H, d] by copying, zero where the index is -1."""
    found = rows[index.clamp(min=0)].expand(-1, -1, heads, -1)
    return found * (index >= 0)[:, :, None, None]


def case(seed, size, listed, stock, heads, width, shared):
    torch.manual_seed(seed)
    rows = torch.randn(stock, 1 if shared else heads, width, dtype=torch.float64, requires_grad=True)
    index = torch.randint(-1, stock, (size, listed))
    query = torch.randn(size, heads, width, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(size, heads, listed, dtype=torch.float64, requires_grad=True)
    return rows, index, query, weight


cases = st.builds(
    case,
    st.integers(0, 999),
    st.integers(0, 5),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 5),
    st.booleans(),
)


@given(cases)
def test_dots_and_mixtures_are_what_copies_of_the_rows_would_give(drawn):
    rows, index, query, weight = drawn
    copies = gathered(rows, index, query.shape[1])
    torch.testing.assert_close(dots(query, rows, index), torch.einsum("rhd,rnhd->rhn", query, copies))
    torch.testing.assert_close(mixture(weight, rows, index), torch.einsum("rhn,rnhd->rhd", weight, copies))


@pytest.mark.parametrize("shared", [True, False])
def test_the_gradients_are_those_of_the_formulas(shared):
    rows, index, query, weight = case(1, 3, 4, 3, 2, 3, shared)
    assert torch.autograd.gradcheck(lambda q, r: dots(q, r, index), (query, rows))
    assert torch.autograd.gradcheck(lambda w, r: mixture(w, r, index), (weight, rows))


def test_only_the_gradient_that_is_asked_for_is_taken():
    rows, index, query, weight = case(2, 3, 4, 3, 2, 3, False)
    dots(query, rows.detach(), index).sum().backward()
    mixture(weight.detach(), rows, index).sum().backward()
    assert query.grad is not None
    assert rows.grad is not None
    assert weight.grad is None
