"""The projection in one pass against plain torch: values and every gradient, wherever the rows stand."""

import pytest
import torch

from tapgnn.compiled.projection_fused import Weights, join_rows, plainly_join_rows
from tapgnn.compiled.row_lookup import Rows


def projection(queries, here, carried, facts=5, width=13):
    """Rows, facts, what is added to them, and the weights, with gradients."""
    generator = torch.Generator().manual_seed(queries + here + carried)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    place = (
        torch.randint(-1, here + carried, (queries,), generator=generator) if here + carried else -torch.ones(queries)
    )
    row = torch.randint(0, 6, (queries,), generator=generator)
    rows = Rows(place.long(), row, drawn(here, width).requires_grad_(), drawn(carried, width), drawn(6, width))
    shapes = ((width, facts), *[(width,)] * 4)
    weights = Weights(*(drawn(*shape).requires_grad_() for shape in shapes))
    return rows, drawn(queries, facts), drawn(queries, width).requires_grad_(), weights


@pytest.mark.parametrize(("queries", "here", "carried"), [(23, 7, 4), (9, 0, 0), (9, 3, 0), (0, 3, 2)])
@pytest.mark.parametrize("with_more", [False, True])
@pytest.mark.parametrize("layout", ["rows", "columns", "one number"])
def test_the_one_pass_equals_plain_torch(queries, here, carried, with_more, layout):
    rows, facts, more, weights = projection(queries, here, carried)
    learned = [rows.here, *weights, *([more] if with_more else [])]
    forms = [form(rows, facts, more if with_more else None, weights) for form in (join_rows, plainly_join_rows)]
    torch.testing.assert_close(*forms)
    slope = torch.randn(forms[0].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    if layout == "columns":
        slope = slope.T.contiguous().T
    elif layout == "one number":
        slope = torch.ones((), dtype=torch.float64).expand(slope.shape)
    for one, other in zip(*(torch.autograd.grad(form, learned, slope) for form in forms), strict=True):
        torch.testing.assert_close(one, other)
