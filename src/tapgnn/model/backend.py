"""The operations that a model is written over, in two sets: compiled loops on the CPU, and plain torch.

Plain torch is the oracle of the other, and serves every other device. A model is bound to a backend when it is made or
moved (`backend_for`); nothing else asks for a device. Gradients are recorded around the same forward loops. Where none
are wanted the compiled backend runs another program, on arrays (`inference`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tapgnn.compiled import scan_ops, scan_plain
from tapgnn.compiled.adaptive_fused import adaptive_block
from tapgnn.compiled.pair_score import plain_weigh_pairs, weigh_pairs
from tapgnn.compiled.projection_fused import JoinWeights, join_rows, plain_join_rows
from tapgnn.compiled.row_lookup import Rows, pick, plain_pick, plain_replace_rows, replace_rows
from tapgnn.kernels.attention import softmax_mean
from tapgnn.kernels.flow import Flow, Scans
from tapgnn.model.features.pair_encoder import PairEncoder, encode_pair_facts
from tapgnn.model.features.recent_partners import find_pair_facts, plain_pair_facts
from tapgnn.model.features.statistics_encoder import (
    StatisticsEncoder,
    encode_statistics,
    plain_encode_statistics,
)
from tapgnn.model.features.walk_sketch import (
    Sketching,
    compare_sketches,
    plain_compare_sketches,
    plain_propagate_sketches,
    propagate_sketches,
)


@dataclass(frozen=True)
class Backend:
    """A set of operations; `compiled` says that they are loops on arrays of the CPU."""

    compiled: bool
    scans: Scans
    pick: Callable[[Rows], Tensor]
    replace_rows: Callable[..., None]
    encode_statistics: Callable[[StatisticsEncoder, Tensor, Rows, Tensor, Tensor], tuple[Tensor, Tensor]]
    propagate_sketches: Callable[[Flow, Tensor, Tensor, Sketching], Tensor]
    compare_sketches: Callable[[Rows, Tensor, int, Sketching], Tensor]
    pair_facts: Callable[[Rows, Tensor, Tensor, Tensor, int, float, int], Tensor]
    encode_pair_facts: Callable[[PairEncoder, Tensor], Tensor]
    join_rows: Callable[[Rows, Tensor, JoinWeights], Tensor]
    weigh_pairs: Callable[[Tensor, int, Tensor], Tensor]

    def differentiates(self, training: bool) -> bool:
        """Whether a model must run on tensors: gradients may be asked for, or dropout is on."""
        return torch.is_grad_enabled() or training or not self.compiled


COMPILED = Backend(
    compiled=True,
    scans=Scans(scan_ops.scan_sum, scan_ops.scan_max, scan_ops.gather_sum, adaptive_block, softmax_mean),
    pick=pick,
    replace_rows=replace_rows,
    encode_statistics=encode_statistics,
    propagate_sketches=propagate_sketches,
    compare_sketches=compare_sketches,
    pair_facts=find_pair_facts,
    encode_pair_facts=encode_pair_facts,
    join_rows=join_rows,
    weigh_pairs=weigh_pairs,
)

PLAIN = Backend(
    compiled=False,
    scans=Scans(scan_plain.scan_sum, scan_plain.scan_max, scan_plain.gather_sum),
    pick=plain_pick,
    replace_rows=plain_replace_rows,
    encode_statistics=plain_encode_statistics,
    propagate_sketches=plain_propagate_sketches,
    compare_sketches=plain_compare_sketches,
    pair_facts=plain_pair_facts,
    encode_pair_facts=PairEncoder.forward,
    join_rows=plain_join_rows,
    weigh_pairs=plain_weigh_pairs,
)


def backend_for(device: torch.device) -> Backend:
    """The backend of a device."""
    return COMPILED if device.type == "cpu" else PLAIN
