"""An adaptive block with a self connection in one pass each way: AGG, PROP, read and the end of the block.

    total_i = total_{i-1} f + sum of gate * value_u       count_i = count_{i-1} f + messages
    h_i     = LayerNorm(relu(own * table_i + total_i / count_i))

There is one factor f = exp(-rate . elapsed) a group of channels; the gate is that of the sender's role; sums and counts
run in float64. The slopes run the same recurrence backward in time, in the type of the model.

Time goes into waiting for memory: what can be made again from `total` is not kept, rows are fetched before they are
needed, and cells are taken one by one (a row of its own would be counted up and down every time).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tapgnn.kernels.kernel import Flow
from tapgnn.kernels.loops import ROWS_AHEAD, fast, fetch, over_segments, view
from tapgnn.kernels.normalise import normalise_row, unnormalise_row


def fade_and_join(
    value: Tensor,
    gate: Tensor,
    rate: Tensor,
    table: Tensor,
    own: Tensor,
    scale: Tensor,
    shift: Tensor,
    index: Tensor,
    flow: Flow,
    carried: Tensor,
    row: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Embeddings [T, d] and the last state [C, d + G] (float64), on the CPU.

    gate [2, d], rate [2, G] (float64); table [R, d] holds the block's inputs and row [T] that of each temporal node
    (None: its own); own, scale, shift [d].
    """
    weights = (value, gate, rate, table, own, scale, shift)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in weights):
        return _FadeAndJoin.apply(*weights, index, flow, carried, row)  # type: ignore[no-untyped-call,no-any-return]
    out, last, *_ = _forward(*weights, index, flow, carried, row)
    return out, last


def _forward(
    value: Tensor,
    gate: Tensor,
    rate: Tensor,
    table: Tensor,
    own: Tensor,
    scale: Tensor,
    shift: Tensor,
    index: Tensor,
    flow: Flow,
    carried: Tensor,
    row: Tensor | None,
) -> tuple[Tensor, ...]:
    """Embeddings, last state, and what the backward needs: row, factor [T, G], total [T, d], count [T, G], moments."""
    rows, width = len(flow.degree), value.shape[1]
    row = torch.arange(rows) if row is None else row
    factor = torch.exp(-flow.elapsed @ rate.detach())
    total, out = value.new_empty(rows, width), value.new_empty(rows, width)
    count, moments = value.new_empty(rows, rate.shape[1]), value.new_empty(rows, 2)
    last = torch.empty_like(carried, memory_format=torch.contiguous_format)
    given = [view(tensor) for tensor in (flow.inbox, flow.role, index, factor, value, gate)]
    joined = [view(tensor) for tensor in (table, row, own, scale, shift)]
    filled = [tensor.numpy() for tensor in (total, count, moments, out, last)]
    over_segments(fade_chains, view(flow.chain), width, *given, carried.numpy(), *joined, *filled)
    return out, last, row, factor, total, count, moments


class _FadeAndJoin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        value, gate, rate, table, own, scale, _, index, flow, carried, row = arguments
        out, last, *kept = _forward(*arguments)
        ctx.save_for_backward(index, value, gate, table, own, scale, *kept)
        ctx.flow, ctx.carried, ctx.alone, ctx.groups = flow, carried, row is None, rate.shape[1]
        ctx.mark_non_differentiable(last)
        ctx.set_materialize_grads(False)
        return out, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        flow: Flow = ctx.flow
        _, value, gate, table, *_ = ctx.saved_tensors
        to_value, to_gate = value.new_zeros(value.shape), gate.new_zeros(gate.shape)
        to_table = table.new_empty(table.shape) if ctx.alone else table.new_zeros(table.shape)
        to_rows, to_rate = grad.new_zeros(5, grad.shape[1]), flow.elapsed.new_empty(2, ctx.groups)
        given = (flow.chain, flow.inbox, flow.role, flow.elapsed, *ctx.saved_tensors, grad)
        filled = (to_value, to_gate, to_table, to_rows, to_rate)
        arrays = [view(tensor) for tensor in given], [tensor.numpy() for tensor in filled]
        _unfade(ctx.alone, ctx.carried.numpy(), *arrays[0], *arrays[1])
        return to_value, to_gate, to_rate, to_table, *to_rows[:3], None, None, None, None


@fast
def _borders(width, groups):  # type: ignore[no-untyped-def]
    """Where the channels of each group start, and the last of them end (`channel_groups`)."""
    borders = np.empty(groups + 1, dtype=np.uint64)
    for g in range(groups + 1):
        borders[g] = g * width // groups
    return borders


@fast
def _spread(borders, table, i, start, by_channel):  # type: ignore[no-untyped-def]
    """Give every channel the value of its group, in row i from column start on: loops over channels then vectorise."""
    for g in range(len(borders) - 1):
        value = table[i, start + g]
        for j in range(borders[g], borders[g + 1]):
            by_channel[j] = value


@fast
def fade_chains(  # type: ignore[no-untyped-def]
    first,
    last,
    chain,
    inbox,
    role,
    index,
    factor,
    value,
    gate,
    carried,
    table,
    row,
    own,
    scale,
    shift,
    total,
    count,
    moments,
    out,
    final,
):
    """Fill total, count, moments and out of the temporal nodes, and the final rows, of chains first to last."""
    width, groups, kind = value.shape[1], factor.shape[1], value.dtype
    sums, counts, shares = np.empty(width), np.empty(groups), np.empty((1, groups))
    kept, share, joined = np.empty(width), np.empty(width, dtype=kind), np.empty(width, dtype=kind)
    borders, nothing = _borders(width, groups), kind.type(0)
    for c in range(first, last):
        for j in range(width):
            sums[j] = carried[c, j]
        for g in range(groups):
            counts[g] = carried[c, width + g]
        for i in range(chain[c], chain[c + 1]):
            for m in range(inbox[i + 1], inbox[min(i + 2, len(inbox) - 1)]):
                fetch(value, index[m])
            ahead = min(i + ROWS_AHEAD, len(row) - 1)
            fetch(table, row[ahead])
            _spread(borders, factor, i, 0, kept)
            for j in range(width):
                sums[j] *= kept[j]
            for m in range(inbox[i], inbox[i + 1]):
                u, r = index[m], 1 - role[m]
                for j in range(width):
                    sums[j] += value[u, j] * gate[r, j]
            for g in range(groups):
                counts[g] = counts[g] * factor[i, g] + (inbox[i + 1] - inbox[i])
                count[i, g] = counts[g]
                shares[0, g] = 1.0 / counts[g]
            _spread(borders, shares, 0, 0, share)
            mine = row[i]
            for j in range(width):
                total[i, j] = sums[j]
            for j in range(width):
                joined[j] = max(own[j] * table[mine, j] + total[i, j] * share[j], nothing)
            normalise_row(joined, scale, shift, i, moments, out)
        for j in range(width):
            final[c, j] = sums[j]
        for g in range(groups):
            final[c, width + g] = counts[g]


@fast
def _unfade(  # type: ignore[no-untyped-def]
    alone,
    carried,
    chain,
    inbox,
    role,
    elapsed,
    index,
    value,
    gate,
    table,
    own,
    scale,
    row,
    factor,
    total,
    count,
    moments,
    grad,
    to_value,
    to_gate,
    to_table,
    to_rows,
    to_rate,
):
    """alone: no two temporal nodes have the same row of the table, and every row is one's.

    Rows of to_rows: own, scale, shift, and by channel what becomes to_rate, the slope of either clock's rate.
    """
    width, groups, kind = grad.shape[1], factor.shape[1], grad.dtype
    flow, flow_count, former = np.empty(width, dtype=kind), np.empty(width, dtype=kind), np.empty(width, dtype=kind)
    kept, share, before = np.empty(width, dtype=kind), np.empty(width, dtype=kind), np.empty(width, dtype=kind)
    joined, centred, slope = np.empty(width, dtype=kind), np.empty(width, dtype=kind), np.empty(width, dtype=kind)
    borders, shares, nothing = _borders(width, groups), np.empty((1, groups)), kind.type(0)
    # From the last row to the first, without a break between chains: a plain run through memory.
    for c in range(len(chain) - 2, -1, -1):
        flow[:] = 0
        flow_count[:] = 0
        for i in range(chain[c + 1] - 1, chain[c] - 1, -1):
            for m in range(inbox[max(i - 1, 0)], inbox[i]):
                fetch(value, index[m])
                fetch(to_value, index[m])
            ahead = max(i - ROWS_AHEAD, 0)
            fetch(grad, ahead)
            fetch(total, ahead)
            fetch(table, row[ahead])
            fetch(to_table, row[ahead])
            for g in range(groups):
                shares[0, g] = 1.0 / count[i, g]
            _spread(borders, shares, 0, 0, share)
            mine = row[i]
            for j in range(width):
                joined[j] = max(own[j] * table[mine, j] + total[i, j] * share[j], nothing)
            unnormalise_row(grad, i, joined, moments, scale, centred, slope, to_rows)
            if alone:
                for j in range(width):
                    to_table[mine, j] = slope[j] * own[j]
                    to_rows[0, j] += slope[j] * table[mine, j]
            else:
                for j in range(width):
                    to_table[mine, j] += slope[j] * own[j]
                    to_rows[0, j] += slope[j] * table[mine, j]
            for j in range(width):
                pull = slope[j] * share[j]
                flow[j] += pull
                flow_count[j] -= pull * share[j] * total[i, j]
            for m in range(inbox[i], inbox[i + 1]):
                u, r = index[m], 1 - role[m]
                for j in range(width):
                    to_value[u, j] += flow[j] * gate[r, j]
                    to_gate[r, j] += flow[j] * value[u, j]
            if i > chain[c]:
                _spread(borders, count, i - 1, 0, before)
                for j in range(width):
                    former[j] = total[i - 1, j]
            else:
                _spread(borders, carried, c, width, before)
                for j in range(width):
                    former[j] = carried[c, j]
            _spread(borders, factor, i, 0, kept)
            for j in range(width):
                flow[j] *= kept[j]
                flow_count[j] *= kept[j]
                former[j] = flow[j] * former[j] + flow_count[j] * before[j]
            for k in range(2):
                pause = kind.type(elapsed[i, k])
                for j in range(width):
                    to_rows[3 + k, j] -= former[j] * pause
    for k in range(2):
        for g in range(groups):
            to_rate[k, g] = 0.0
            for j in range(borders[g], borders[g + 1]):
                to_rate[k, g] += to_rows[3 + k, j]
