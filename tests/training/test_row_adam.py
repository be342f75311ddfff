"""The optimizer of the node vectors."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.training.row_adam import RowAdam


@given(
    steps=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=7), min_size=1, max_size=6),
    width=st.integers(1, 9),
)
def test_rows_move_as_under_sparse_adam_also_where_they_repeat_and_the_others_stand_still(steps, width):
    torch.manual_seed(0)
    start = torch.randn(6, width, dtype=torch.float64)
    tables = [start.clone().requires_grad_() for _ in range(2)]
    optimizers = [RowAdam([tables[0]], lr=0.1), torch.optim.SparseAdam([tables[1]], lr=0.1)]
    for rows in steps:
        slope = torch.randn(len(rows), width, dtype=torch.float64)
        for table, optimizer in zip(tables, optimizers, strict=True):
            optimizer.zero_grad()
            found = torch.nn.functional.embedding(torch.tensor(rows), table, sparse=True)
            (found * slope).sum().backward()
            optimizer.step()
    torch.testing.assert_close(tables[0], tables[1], rtol=1e-10, atol=1e-12)
    still = [row for row in range(6) if row not in {row for rows in steps for row in rows}]
    assert torch.equal(tables[0][still], start[still])
