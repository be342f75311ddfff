"""MLP-Mixer: the block is the formula, with the mean over all places."""

import torch
from torch.nn.functional import gelu, layer_norm

from tapgnn.baselines.shared.mlp_mixer import Mixer


def test_the_mixer_is_the_formula():
    torch.manual_seed(0)
    links, width = 5, 4
    mixer = Mixer(2, links, width)
    rows = torch.randn(3, links, width)
    for query in range(len(rows)):
        z = rows[query]
        for block in mixer.blocks:
            (first, _, second), (third, _, fourth) = block.across_links, block.across_channels
            norm = layer_norm(z, (width,), block.link_norm.weight, block.link_norm.bias)
            z = torch.stack([z[:, c] + second(gelu(first(norm[:, c]))) for c in range(width)], dim=1)
            norm = layer_norm(z, (width,), block.channel_norm.weight, block.channel_norm.bias)
            z = torch.stack([z[i] + fourth(gelu(third(norm[i]))) for i in range(links)])
        h = mixer.out(layer_norm(z, (width,), mixer.norm.weight, mixer.norm.bias).mean(dim=0))
        torch.testing.assert_close(mixer(rows)[query], h, rtol=1e-5, atol=1e-6)


def test_one_link_can_be_mixed():
    assert Mixer(1, 1, 4)(torch.ones(2, 1, 4)).shape == (2, 4)
