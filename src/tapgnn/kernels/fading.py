"""The adaptive kernel in one pass each way: AGG, PROP and the read of every temporal node, without rows in between.

    total_i = total_{i-1} f + sum of value_u       count_i = count_{i-1} f + messages by role       f = exp(-rate . elapsed)
    read_i  = total_i / (count_i of both roles) + B log(1 + count_i)

One factor f a group of channels; sums and counts run in float64. The slopes run the same recurrence backward in time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tapgnn.kernels.kernel import Flow
from tapgnn.kernels.loops import compiled, over_segments, view


def fade_and_read(
    value: Tensor, index: Tensor, flow: Flow, rate: Tensor, of_counts: Tensor, carried: Tensor
) -> tuple[Tensor, Tensor]:
    """The read [T, d] and the last state [C, d + 2G] (float64); rate [2, G] (float64), of_counts [d, 2G]."""
    if torch.is_grad_enabled() and (value.requires_grad or rate.requires_grad or of_counts.requires_grad):
        return _FadeAndRead.apply(value, index, flow, rate, of_counts, carried)  # type: ignore[no-untyped-call,no-any-return]
    return _forward(value, index, flow, rate, of_counts, carried)[:2]


def _forward(
    value: Tensor, index: Tensor, flow: Flow, rate: Tensor, of_counts: Tensor, carried: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Read, last state, and what the backward needs: total [T, d], count and log(1 + count) [T, 2G]."""
    rows, width = len(flow.degree), value.shape[1]
    total, read = value.new_empty(rows, width), value.new_empty(rows, width)
    count = value.new_empty(rows, of_counts.shape[1])
    last = torch.empty_like(carried, memory_format=torch.contiguous_format)
    tensors = (flow.inbox, flow.role, index, flow.elapsed, rate, value, carried, total, count, read, last)
    over_segments(_fade, view(flow.chain), width, *[view(tensor) for tensor in tensors])
    logs = torch.log1p(count)
    read.addmm_(logs, of_counts.detach().T)
    return read, last, total, count, logs


class _FadeAndRead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, value: Tensor, index: Tensor, flow: Flow, rate: Tensor, of_counts: Tensor, carried: Tensor
    ) -> tuple[Tensor, Tensor]:
        read, last, *kept = _forward(value, index, flow, rate, of_counts, carried)
        ctx.save_for_backward(index, rate, of_counts, carried, *kept)
        ctx.flow, ctx.rows = flow, len(value)
        ctx.mark_non_differentiable(last)
        return read, last

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        index, rate, of_counts, carried, total, count, logs = ctx.saved_tensors
        flow: Flow = ctx.flow
        to_value = grad.new_zeros(ctx.rows, grad.shape[1])
        to_rate = torch.zeros_like(rate)
        to_count = (grad @ of_counts).div_(1.0 + count)
        tensors = (flow.chain, flow.inbox, index, flow.elapsed, rate, carried, total, count)
        tensors = (*tensors, grad, to_count, to_value, to_rate)
        _unfade(*[view(tensor) for tensor in tensors])
        return to_value, None, None, to_rate, grad.T @ logs, None


@compiled
def _fade(first, last, chain, inbox, role, index, elapsed, rate, value, carried, total, count, read, final):  # type: ignore[no-untyped-def]
    width, groups = value.shape[1], rate.shape[1]
    sums, counts = np.empty(width), np.empty(2 * groups)
    for c in range(first, last):
        for j in range(width):
            sums[j] = carried[c, j]
        for k in range(2 * groups):
            counts[k] = carried[c, width + k]
        for i in range(chain[c], chain[c + 1]):
            for g in range(groups):
                if rate[0, g] + rate[1, g] > 0.0:
                    factor = np.exp(-elapsed[i, 0] * rate[0, g] - elapsed[i, 1] * rate[1, g])
                    counts[g] *= factor
                    counts[groups + g] *= factor
                    for j in range(g * width // groups, (g + 1) * width // groups):
                        sums[j] *= factor
            for m in range(inbox[i], inbox[i + 1]):
                message = value[index[m]]
                for j in range(width):
                    sums[j] += message[j]
                for g in range(groups):
                    counts[role[m] * groups + g] += 1.0
            for k in range(2 * groups):
                count[i, k] = counts[k]
            for g in range(groups):
                share = 1.0 / (counts[g] + counts[groups + g])
                for j in range(g * width // groups, (g + 1) * width // groups):
                    total[i, j] = sums[j]
                    read[i, j] = sums[j] * share
        for j in range(width):
            final[c, j] = sums[j]
        for k in range(2 * groups):
            final[c, width + k] = counts[k]


@compiled
def _unfade(chain, inbox, index, elapsed, rate, carried, total, count, grad, to_count, to_value, to_rate):  # type: ignore[no-untyped-def]
    width, groups = grad.shape[1], rate.shape[1]
    flow, flow_count = np.empty(width), np.empty(2 * groups)
    for c in range(len(chain) - 1):
        flow[:] = 0.0
        flow_count[:] = 0.0
        for i in range(chain[c + 1] - 1, chain[c] - 1, -1):
            for g in range(groups):
                share = 1.0 / (count[i, g] + count[i, groups + g])
                pull = 0.0
                for j in range(g * width // groups, (g + 1) * width // groups):
                    pull += grad[i, j] * total[i, j]
                    flow[j] += grad[i, j] * share
                for k in (g, groups + g):
                    flow_count[k] += to_count[i, k] - pull * share * share
            for m in range(inbox[i], inbox[i + 1]):
                slope = to_value[index[m]]
                for j in range(width):
                    slope[j] += flow[j]
            for g in range(groups):
                if rate[0, g] + rate[1, g] > 0.0:
                    factor = np.exp(-elapsed[i, 0] * rate[0, g] - elapsed[i, 1] * rate[1, g])
                    slope = 0.0
                    low, high = g * width // groups, (g + 1) * width // groups
                    if i > chain[c]:
                        for j in range(low, high):
                            slope += flow[j] * total[i - 1, j]
                        for k in (g, groups + g):
                            slope += flow_count[k] * count[i - 1, k]
                    else:
                        for j in range(low, high):
                            slope += flow[j] * carried[c, j]
                        for k in (g, groups + g):
                            slope += flow_count[k] * carried[c, width + k]
                    to_rate[0, g] -= slope * factor * elapsed[i, 0]
                    to_rate[1, g] -= slope * factor * elapsed[i, 1]
                    for j in range(low, high):
                        flow[j] *= factor
                    for k in (g, groups + g):
                        flow_count[k] *= factor
