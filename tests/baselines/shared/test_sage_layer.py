"""The mean layer is PyTorch Geometric's."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.nn import SAGEConv

from tapgnn.baselines.shared.sage_layer import SageLayer


def test_the_layer_is_the_mean_layer_of_pytorch_geometric_with_its_gradients() -> None:
    torch.manual_seed(0)
    rows = torch.randn(7, 5, requires_grad=True)
    own, index = np.array([0, 3, 6]), np.array([[1, 2, 2], [4, -1, -1], [-1, -1, -1]])
    ours, theirs = SageLayer(5, 4), SAGEConv((5, 5), 4)
    with torch.no_grad():
        ours.mean.weight.copy_(theirs.lin_l.weight)
        ours.own.weight.copy_(theirs.lin_r.weight)
        ours.own.bias.copy_(theirs.lin_l.bias)
    edges = torch.tensor([[1, 2, 2, 4], [0, 0, 0, 1]])
    found, expected = ours(rows, own, index), theirs((rows, rows[torch.from_numpy(own)]), edges)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad((layer**2).sum(), rows)[0] for layer in (found, expected)]
    torch.testing.assert_close(*gradients)
