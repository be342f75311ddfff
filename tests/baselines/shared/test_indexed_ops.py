"""Indexed operations: the loops give what copied rows would give, with their gradients, whatever is padding."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines.shared.indexed_ops import dot_products, weighted_sums


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
def test_dot_products_and_weighted_sums_are_those_of_copied_rows(drawn):
    rows, index, query, weight = drawn
    copies = gathered(rows, index, query.shape[1])
    torch.testing.assert_close(dot_products(query, rows, index), torch.einsum("rhd,rnhd->rhn", query, copies))
    torch.testing.assert_close(weighted_sums(weight, rows, index), torch.einsum("rhn,rnhd->rhd", weight, copies))


@pytest.mark.parametrize("shared", [True, False])
def test_the_gradients_are_those_of_the_formulas(shared):
    rows, index, query, weight = case(1, 3, 4, 3, 2, 3, shared)
    assert torch.autograd.gradcheck(lambda q, r: dot_products(q, r, index), (query, rows))
    assert torch.autograd.gradcheck(lambda w, r: weighted_sums(w, r, index), (weight, rows))


def test_only_the_gradient_that_is_asked_for_is_taken():
    rows, index, query, weight = case(2, 3, 4, 3, 2, 3, False)
    dot_products(query, rows.detach(), index).sum().backward()
    weighted_sums(weight.detach(), rows, index).sum().backward()
    assert query.grad is not None
    assert rows.grad is not None
    assert weight.grad is None
