"""An adaptive block with a self connection in one pass each way: AGG, PROP, read and the end of the block.

    total_i = total_{i-1} f + sum of gate * value_u       count_i = count_{i-1} f + messages
    h_i     = LayerNorm(relu(own * table_i + total_i / count_i))

There is one factor f = exp(-rate . elapsed) a group of channels; the gate is that of the sender's role; sums and counts
run in float64. The slopes run the same recurrence backward in time, in the type of the model.

Time goes into waiting for memory: what can be made again from `total` is not kept, and rows are fetched before they are
needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tapgnn.compiled.flow import Flow
from tapgnn.compiled.layer_norm import begin_slope, end_slope, row_moments
from tapgnn.compiled.numba_intrinsics import LINE, ROWS_AHEAD, fast, fetch, new_line, spread
from tapgnn.compiled.scan_loops import over_segments, view


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
    rows, width = flow.size, value.shape[1]
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
        to_rows, to_rate = grad.new_empty(5, grad.shape[1]), flow.elapsed.new_empty(2, ctx.groups)
        given = (flow.chain, flow.inbox, flow.role, flow.elapsed, *ctx.saved_tensors, grad)
        filled = (to_value, to_gate, to_table, to_rows, to_rate)
        arrays = [view(tensor) for tensor in given], [tensor.numpy() for tensor in filled]
        _unfade(ctx.alone, ctx.carried.numpy(), *arrays[0], *arrays[1])
        return to_value, to_gate, to_rate, to_table, *to_rows[:3], None, None, None, None


@fast
def _borders(width, groups):  # type: ignore[no-untyped-def]
    """Where the channels of each group start, and the last of them end (`channel_groups`)."""
    borders = np.empty(groups + 1, dtype=np.int64)
    for g in range(groups + 1):
        borders[g] = g * width // groups
    return borders


@fast
def _spread_shares(borders, count, i, shares, by_channel):  # type: ignore[no-untyped-def]
    """`spread` the share of one message in each group of row i."""
    for g in range(len(shares)):
        shares[g] = 1.0 / count[i, g]
    spread(borders, shares, by_channel)


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
    width, groups, end = value.shape[1], factor.shape[1], len(row) - 1
    sums, counts, shares = new_line(width, carried), new_line(groups, carried), new_line(groups, carried)
    kept, share, joined = new_line(width + LINE, carried), new_line(width + LINE, value), new_line(width, value)
    borders, nothing = _borders(width, groups), value.dtype.type(0)
    if chain[first] < chain[last]:
        spread(borders, factor[chain[first]], kept)
    for c in range(first, last):
        for j in range(width):
            sums[j] = carried[c, j]
        for g in range(groups):
            counts[g] = carried[c, width + g]
        for i in range(chain[c], chain[c + 1]):
            for m in range(inbox[i + 1], inbox[min(i + 2, end + 1)]):
                fetch(value, index[m])
            fetch(table, row[min(i + ROWS_AHEAD, end)])
            for g in range(groups):
                counts[g] = counts[g] * factor[i, g] + (inbox[i + 1] - inbox[i])
                count[i, g] = counts[g]
                shares[g] = 1.0 / counts[g]
            spread(borders, shares, share)
            for j in range(width):
                sums[j] *= kept[j]
            spread(borders, factor[min(i + 1, end)], kept)
            for m in range(inbox[i], inbox[i + 1]):
                u, r = index[m], 1 - role[m]
                for j in range(width):
                    sums[j] += value[u, j] * gate[r, j]
            mine = row[i]
            for j in range(width):
                total[i, j] = sums[j]
            for j in range(width):
                joined[j] = max(own[j] * table[mine, j] + total[i, j] * share[j], nothing)
            mean, inverse = row_moments(joined)
            moments[i, 0], moments[i, 1] = mean, inverse
            for j in range(width):
                out[i, j] = (joined[j] - mean) * inverse * scale[j] + shift[j]
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
    width, groups, nothing = grad.shape[1], factor.shape[1], grad.dtype.type(0)
    flow, flow_count, joined = new_line(width, grad), new_line(width, grad), new_line(width, grad)
    centred, slope, to_own = new_line(width, grad), new_line(width, grad), new_line(width, grad)
    to_scale, to_shift = new_line(width, grad), new_line(width, grad)
    by_time, by_events = new_line(width, grad), new_line(width, grad)
    room = width + LINE
    kept, share, before = new_line(room, grad), new_line(room, grad), new_line(room, grad)
    borders, shares = _borders(width, groups), new_line(groups, factor)
    for j in range(width):
        to_own[j] = to_scale[j] = to_shift[j] = by_time[j] = by_events[j] = 0
    if len(count):
        _spread_shares(borders, count, len(count) - 1, shares, share)
    # From the last row to the first, without a break between chains: a plain run through memory.
    for c in range(len(chain) - 2, -1, -1):
        for j in range(width):
            flow[j] = flow_count[j] = 0
        for i in range(chain[c + 1] - 1, chain[c] - 1, -1):
            for m in range(inbox[max(i - 2, 0)], inbox[max(i - 1, 0)]):
                fetch(value, index[m])
                fetch(to_value, index[m])
            ahead = max(i - ROWS_AHEAD, 0)
            fetch(grad, ahead)
            fetch(total, ahead)
            fetch(table, row[ahead])
            fetch(to_table, row[ahead])
            spread(borders, factor[i], kept)
            if i > chain[c]:
                spread(borders, count[i - 1], before)
            else:
                spread(borders, carried[c, width:], before)
            mine, inverse = row[i], moments[i, 1]
            for j in range(width):
                joined[j] = max(own[j] * table[mine, j] + total[i, j] * share[j], nothing)
                slope[j] = grad[i, j]
            pull, twist = begin_slope(joined, moments, i, scale, centred, slope, to_scale, to_shift)
            if alone:
                for j in range(width):
                    slope[j] = end_slope(joined[j], slope[j], centred[j], inverse, pull, twist, nothing)
                    to_table[mine, j] = slope[j] * own[j]
            else:
                for j in range(width):
                    slope[j] = end_slope(joined[j], slope[j], centred[j], inverse, pull, twist, nothing)
                    to_table[mine, j] += slope[j] * own[j]
            for j in range(width):
                to_own[j] += slope[j] * table[mine, j]
                flow[j] += slope[j] * share[j]
                flow_count[j] -= slope[j] * share[j] * share[j] * total[i, j]
            _spread_shares(borders, count, max(i - 1, 0), shares, share)
            for m in range(inbox[i], inbox[i + 1]):
                u, r = index[m], 1 - role[m]
                for j in range(width):
                    to_value[u, j] += flow[j] * gate[r, j]
                    to_gate[r, j] += flow[j] * value[u, j]
            if i > chain[c]:
                _fade_slopes(total, i - 1, kept, before, elapsed, i, flow, flow_count, by_time, by_events)
            else:
                _fade_slopes(carried, c, kept, before, elapsed, i, flow, flow_count, by_time, by_events)
    for j in range(width):
        to_rows[0, j], to_rows[1, j], to_rows[2, j] = to_own[j], to_scale[j], to_shift[j]
        to_rows[3, j], to_rows[4, j] = by_time[j], by_events[j]
    for k in range(2):
        for g in range(groups):
            to_rate[k, g] = 0.0
            for j in range(borders[g], borders[g + 1]):
                to_rate[k, g] += to_rows[3 + k, j]


@fast
def _fade_slopes(former, r, kept, before, elapsed, i, flow, flow_count, by_time, by_events):  # type: ignore[no-untyped-def]
    """Carry the slopes of sums and counts over the pause before row i, with those of the rates; former has the sums."""
    kind = flow.dtype.type
    pause, ticks = kind(elapsed[i, 0]), kind(elapsed[i, 1])
    for j in range(len(flow)):
        flow[j] *= kept[j]
        flow_count[j] *= kept[j]
        lost = flow[j] * kind(former[r, j]) + flow_count[j] * before[j]
        by_time[j] -= lost * pause
        by_events[j] -= lost * ticks
