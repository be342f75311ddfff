"""What networks share: unseen nodes have one vector, the unit of time is the usual gap of a node, the mean layer is
PyTorch Geometric's."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.nn import SAGEConv

from tapgnn.baselines.shared.link_network import NodeVectors, SageLayer, median_gap
from tapgnn.events import Events


def test_unseen_nodes_share_the_unknown_vector_and_training_replaces_known_ones_by_it() -> None:
    torch.manual_seed(0)
    vectors = NodeVectors(Events.from_arrays([0, 2], [2, 5], [1.0, 2.0]), 4, dropout=0.5)
    vectors.eval()
    unknown = vectors.weight[0].expand(2, 4)
    torch.testing.assert_close(vectors(np.array([-1, 9])), unknown)
    assert len(torch.unique(vectors(np.array([0, 1, 2])), dim=0)) == 3
    vectors.train()
    replaced = (vectors(np.zeros(2_000, dtype=np.int64)) == vectors.weight[0]).all(dim=1)
    assert 900 < int(replaced.sum()) < 1_100


def test_the_median_gap_is_between_events_of_one_node_or_the_span() -> None:
    assert median_gap(Events.from_arrays([0, 0, 1], [1, 2, 2], [0.0, 3.0, 10.0])) == 7.0
    assert median_gap(Events.from_arrays([0, 2], [1, 3], [1.0, 5.0])) == 4.0
    assert median_gap(Events.from_arrays([0], [1], [1.0])) == 1.0


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
