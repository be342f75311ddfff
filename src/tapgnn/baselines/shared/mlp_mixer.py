"""MLP-Mixer over the recent links of a node (I. Tolstikhin et al., "MLP-Mixer: An all-MLP Architecture for Vision",
NeurIPS 2021), as GraphMixer and TPNet use it.

    Z'  = Z  + (W_2 GELU(W_1 LN(Z)^T))^T      across the n links of a node, each channel alone
    Z'' = Z' +  W_4 GELU(W_3 LN(Z'))          across the d channels, each link alone
    h   = W mean of LN(Z'') over the links + b

The places of missing links hold zeros and take part, as in the references: their number tells how long the history is.
There is no dropout inside: drawing it took a third of the time of a step.
"""

from __future__ import annotations

from torch import Tensor, nn


class MixerBlock(nn.Module):
    """One pass across the links with n / 2 hidden units, one across the channels with 2 d."""

    def __init__(self, links: int, width: int) -> None:
        super().__init__()
        self.link_norm, self.channel_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across_links = _two_layers(links, max(1, links // 2))
        self.across_channels = _two_layers(width, 2 * width)

    def forward(self, rows: Tensor) -> Tensor:
        """[Q, n, d] -> [Q, n, d]."""
        mixed = rows + self.across_links(self.link_norm(rows).transpose(1, 2)).transpose(1, 2)
        out: Tensor = mixed + self.across_channels(self.channel_norm(mixed))
        return out


class Mixer(nn.Module):
    """Mixer blocks and the mean over the links."""

    def __init__(self, blocks: int, links: int, width: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(MixerBlock(links, width) for _ in range(blocks)))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, rows: Tensor) -> Tensor:
        """[Q, n, d] -> h [Q, d]."""
        h: Tensor = self.out(self.norm(self.blocks(rows)).mean(dim=1))
        return h


def _two_layers(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
