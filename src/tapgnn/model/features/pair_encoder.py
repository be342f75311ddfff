"""What is known of a pair that met, as numbers for the head: centred and scaled as on the training log, and by pieces.

Of two that never met every number is 0. Else the first is 1, then come the facts of the pair (`recent_partners`), and
then how much of each of `bins` quantile intervals of the training log lies below each of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tapgnn.compiled.jit import compiled, program
from tapgnn.compiled.parallel import view
from tapgnn.compiled.products import empty_rows
from tapgnn.model.features.recent_partners import MET, PAIR_FACTS


class PairEncoding(NamedTuple):
    """What loops take: centre and scale [F], and the edges [F, bins + 1] of the pieces, of all facts but MET."""

    centre: Any
    scale: Any
    edges: Any


class PairEncoder(nn.Module):
    """See the module."""

    def __init__(self, bins: int) -> None:
        super().__init__()
        facts = PAIR_FACTS - 1
        self.width = 1 + facts * (1 + bins)
        self.register_buffer("centre", torch.zeros(facts))
        self.register_buffer("scale", torch.ones(facts))
        self.register_buffer("edges", torch.linspace(-2.0, 2.0, bins + 1).repeat(facts, 1))
        self.centre: Tensor
        self.scale: Tensor
        self.edges: Tensor

    def arrays(self) -> PairEncoding:
        """The same memory, for loops."""
        return PairEncoding(*map(view, (self.centre, self.scale, self.edges)))

    def forward(self, facts: Tensor) -> Tensor:
        """[Q, width] from facts [Q, PAIR_FACTS] in float64."""
        met = facts[:, MET].to(self.centre.dtype).unsqueeze(1)
        rows = (facts[:, MET + 1 :].nan_to_num().to(self.centre.dtype) - self.centre) / self.scale
        low, high = self.edges[:, :-1], self.edges[:, 1:]
        share = ((rows.unsqueeze(2) - low) / (high - low)).clamp(0.0, 1.0)
        return torch.cat([met, rows * met, share.flatten(1) * met], dim=1)

    def calibrate(self, facts: Tensor) -> None:
        """Set centre, scale and edges from facts [n, PAIR_FACTS] of queries like those to come."""
        rows = facts[facts[:, MET] > 0, MET + 1 :].to(self.centre.dtype)
        if not len(rows):
            return
        self.centre.copy_(rows.mean(dim=0))
        self.scale.copy_(rows.std(dim=0, correction=0) + 1e-2)
        bins = self.edges.shape[1] - 1
        level = torch.linspace(0.01, 0.99, bins + 1, dtype=rows.dtype)
        edges = torch.quantile((rows - self.centre) / self.scale, level, dim=0).T
        # Quantiles may coincide; a small step between them keeps every interval open.
        self.edges.copy_(edges + 1e-3 * torch.arange(bins + 1))


def encode_pair_facts(encoder: PairEncoder, facts: Tensor) -> Tensor:
    """`PairEncoder.forward` in compiled loops."""
    return torch.from_numpy(encode_pairs(view(facts), encoder.arrays()))


@program
def encode_pairs(facts, encoding):  # type: ignore[no-untyped-def]
    """`PairEncoder.forward` on arrays."""
    pieces = encoding.edges.shape[1] - 1
    encoded = empty_rows(len(facts), 1 + len(encoding.centre) * (1 + pieces), encoding.centre)
    fill_encoded_pairs(facts, encoding, encoded)
    return encoded


@compiled
def fill_encoded_pairs(facts: Any, encoding: Any, encoded: Any) -> None:
    """Fill encoded [Q, width] from facts [Q, PAIR_FACTS]."""
    centre, scale, edges = encoding
    columns, pieces = len(centre), edges.shape[1] - 1
    kind = encoded.dtype
    zero, one = kind.type(0), kind.type(1)
    for q in range(len(facts)):
        if facts[q, MET] == 0:
            for j in range(encoded.shape[1]):
                encoded[q, j] = zero
            continue
        encoded[q, 0] = one
        for f in range(columns):
            value = (kind.type(facts[q, 1 + f]) - centre[f]) / scale[f]
            encoded[q, 1 + f] = value
            for k in range(pieces):
                share = (value - edges[f, k]) / (edges[f, k + 1] - edges[f, k])
                encoded[q, 1 + columns + f * pieces + k] = min(max(share, zero), one)
