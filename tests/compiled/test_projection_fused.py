"""The projection in one pass against plain torch: values and every gradient, wherever the rows stand."""

import pytest
import torch

from tapgnn.compiled.projection_fused import JoinWeights, join_rows, plain_join_rows
from tapgnn.compiled.row_lookup import Rows


def projection(queries, here, carried, width=13):
    """Rows, what is known of queries, and the weights, with gradients."""
    generator = torch.Generator().manual_seed(queries + here + carried)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    place = (
        torch.randint(-1, here + carried, (queries,), generator=generator) if here + carried else -torch.ones(queries)
    )
    row = torch.randint(0, 6, (queries,), generator=generator)
    rows = Rows(place.long(), row, drawn(here, width).requires_grad_(), drawn(carried, width), drawn(6, width))
    return rows, drawn(queries, width).requires_grad_(), JoinWeights(*(drawn(width).requires_grad_() for _ in range(4)))


@pytest.mark.parametrize(("queries", "here", "carried"), [(23, 7, 4), (9, 0, 0), (9, 3, 0), (0, 3, 2)])
@pytest.mark.parametrize("layout", ["rows", "columns", "one number"])
def test_the_one_pass_equals_plain_torch(queries, here, carried, layout):
    rows, known, weights = projection(queries, here, carried)
    # The one pass uses up what it is given, as it is a product of its own making.
    forms = [form(rows, known * 1, weights) for form in (join_rows, plain_join_rows)]
    torch.testing.assert_close(*forms)
    grad = torch.randn(forms[0].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    if layout == "columns":
        grad = grad.T.contiguous().T
    elif layout == "one number":
        grad = torch.ones((), dtype=torch.float64).expand(grad.shape)
    learned = [rows.here, known, *weights]
    for one, other in zip(*(torch.autograd.grad(form, learned, grad) for form in forms), strict=True):
        torch.testing.assert_close(one, other)
