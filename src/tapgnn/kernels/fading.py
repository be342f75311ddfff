"""The adaptive kernel in one pass each way: AGG, PROP and the read of every temporal node, without rows in between.

    total_i = total_{i-1} f + sum of gate * value_u       count_i = count_{i-1} f + messages
    read_i  = total_i / count_i

There is one factor f = exp(-rate . elapsed) a group of channels; the gate is that of the sender's role; sums and counts
run in float64. The slopes run the same recurrence backward in time.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import torch
from torch import Tensor

from tapgnn.kernels.kernel import Flow
from tapgnn.kernels.loops import compiled, fetch, over_segments, view


def fade_and_read(
    value: Tensor, index: Tensor, gate: Tensor, flow: Flow, factor: Tensor, carried: Tensor
) -> tuple[Tensor, Tensor]:
    """The read [T, d] and the last state [C, d + G] (float64); gate [2, d], factor [T, G] (float64)."""
    if torch.is_grad_enabled() and (value.requires_grad or gate.requires_grad or factor.requires_grad):
        return _FadeAndRead.apply(value, index, gate, flow, factor, carried)  # type: ignore[no-untyped-call,no-any-return]
    return _forward(value, index, gate, flow, factor, carried)[:2]


def _forward(
    value: Tensor, index: Tensor, gate: Tensor, flow: Flow, factor: Tensor, carried: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Read, last state, and what the backward needs: total [T, d] and count [T, G]."""
    rows, width = len(flow.degree), value.shape[1]
    total, read = value.new_empty(rows, width), value.new_empty(rows, width)
    count = value.new_empty(rows, factor.shape[1])
    last = torch.empty_like(carried, memory_format=torch.contiguous_format)
    tensors = (flow.inbox, flow.role, index, factor, value, gate, carried, total, count, read, last)
    over_segments(fade_chains, view(flow.chain), width, *[view(tensor) for tensor in tensors])
    return read, last, total, count


class _FadeAndRead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, value: Tensor, index: Tensor, gate: Tensor, flow: Flow, factor: Tensor, carried: Tensor
    ) -> tuple[Tensor, Tensor]:
        read, last, *kept = _forward(value, index, gate, flow, factor, carried)
        ctx.save_for_backward(index, factor, value, gate, carried, *kept)
        ctx.flow = flow
        ctx.mark_non_differentiable(last)
        return read, last

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        flow: Flow = ctx.flow
        index, factor, value, gate, *kept = ctx.saved_tensors
        to_value, to_gate = torch.zeros_like(value), torch.zeros_like(gate)
        to_factor = torch.empty_like(factor, memory_format=torch.contiguous_format)
        given = (flow.chain, flow.inbox, flow.role, index, factor, value, gate, *kept, grad)
        _unfade(*[view(tensor) for tensor in (*given, to_value, to_gate, to_factor)])
        return to_value, None, to_gate, None, to_factor, None


@compiled
def _borders(width, groups):  # type: ignore[no-untyped-def]
    """Where the channels of each group start, and the last of them end (`channel_groups`)."""
    borders = np.empty(groups + 1, dtype=np.uint64)
    for g in range(groups + 1):
        borders[g] = g * width // groups
    return borders


@compiled
def _spread(borders, by_group, by_channel):  # type: ignore[no-untyped-def]
    """Give every channel the value of its group. Loops over all channels are then free of groups, and vectorised."""
    for g in range(len(by_group)):
        value = by_group[g]
        for j in range(borders[g], borders[g + 1]):
            by_channel[j] = value


@nb.njit(nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"}, error_model="numpy")
def _gather(borders, by_channel, by_group):  # type: ignore[no-untyped-def]
    """Add up the channels of every group, in whatever order is fastest."""
    for g in range(len(by_group)):
        total = 0.0
        for j in range(borders[g], borders[g + 1]):
            total += by_channel[j]
        by_group[g] = total


@compiled
def fade_chains(first, last, chain, inbox, role, index, factor, value, gate, carried, total, count, read, final):  # type: ignore[no-untyped-def]
    """Fill total, count and read of the temporal nodes, and the final rows, of chains first to last."""
    width, groups = value.shape[1], factor.shape[1]
    sums, counts, shares = np.empty(width), np.empty(groups), np.empty(groups)
    borders, kept, share = _borders(width, groups), np.empty(width), np.empty(width)
    for c in range(first, last):
        for j in range(width):
            sums[j] = carried[c, j]
        for g in range(groups):
            counts[g] = carried[c, width + g]
        for i in range(chain[c], chain[c + 1]):
            for m in range(inbox[i + 1], inbox[min(i + 2, len(inbox) - 1)]):
                fetch(value[index[m]])
            _spread(borders, factor[i], kept)
            for j in range(width):
                sums[j] *= kept[j]
            for m in range(inbox[i], inbox[i + 1]):
                message, weight = value[index[m]], gate[1 - role[m]]
                for j in range(width):
                    sums[j] += message[j] * weight[j]
            for g in range(groups):
                counts[g] = counts[g] * factor[i, g] + (inbox[i + 1] - inbox[i])
                count[i, g] = counts[g]
                shares[g] = 1.0 / counts[g]
            _spread(borders, shares, share)
            for j in range(width):
                total[i, j] = sums[j]
                read[i, j] = sums[j] * share[j]
        for j in range(width):
            final[c, j] = sums[j]
        for g in range(groups):
            final[c, width + g] = counts[g]


@compiled
def _unfade(  # type: ignore[no-untyped-def]
    chain, inbox, role, index, factor, value, gate, carried, total, count, grad, to_value, to_gate, to_factor
):
    width, groups = grad.shape[1], factor.shape[1]
    flow, flow_count = np.empty(width), np.empty(groups)
    kept, share, product = np.empty(width), np.empty(width), np.empty(width)
    borders, shares, sums = _borders(width, groups), np.empty(groups), np.empty(groups)
    for c in range(len(chain) - 1):
        flow[:] = 0.0
        flow_count[:] = 0.0
        for i in range(chain[c + 1] - 1, chain[c] - 1, -1):
            for m in range(inbox[max(i - 1, 0)], inbox[i]):
                fetch(value[index[m]])
                fetch(to_value[index[m]])
            for g in range(groups):
                shares[g] = 1.0 / count[i, g]
            _spread(borders, shares, share)
            for j in range(width):
                product[j] = grad[i, j] * total[i, j]
                flow[j] += grad[i, j] * share[j]
            _gather(borders, product, sums)
            for g in range(groups):
                pull = sums[g] * shares[g] * shares[g]
                flow_count[g] -= pull
            for m in range(inbox[i], inbox[i + 1]):
                message, weight = value[index[m]], gate[1 - role[m]]
                slope, to_weight = to_value[index[m]], to_gate[1 - role[m]]
                for j in range(width):
                    slope[j] += flow[j] * weight[j]
                for j in range(width):
                    to_weight[j] += flow[j] * message[j]
            if i > chain[c]:
                for j in range(width):
                    product[j] = flow[j] * total[i - 1, j]
            else:
                for j in range(width):
                    product[j] = flow[j] * carried[c, j]
            _gather(borders, product, sums)
            for g in range(groups):
                before = count[i - 1, g] if i > chain[c] else carried[c, width + g]
                to_factor[i, g] = sums[g] + flow_count[g] * before
                flow_count[g] *= factor[i, g]
            _spread(borders, factor[i], kept)
            for j in range(width):
                flow[j] *= kept[j]
