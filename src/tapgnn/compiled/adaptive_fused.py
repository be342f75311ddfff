"""An adaptive block in one pass each way: AGG, PROP, read, and the end of the block.

    total_i = total_{i-1} f + sum of gate * value_u       count_i = count_{i-1} f + messages
    h_i     = LayerNorm(relu(own * table_i + total_i / count_i))          with a self connection
    h_i     = total_i / count_i                                           without: own is empty

There is one factor f = exp(-rate . elapsed) a group of channels; the gate is that of the sender's role; sums and counts
run in float64. Gradients run the same recurrence backward in time, in the type of the model.

Time goes into waiting for memory: what can be made again from `total` is not kept, and rows are fetched before they are
needed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tapgnn.compiled.jit import fast, program
from tapgnn.compiled.layer_norm import normalise_backward, relu_backward, row_moments
from tapgnn.compiled.numba_intrinsics import LINE, ROWS_AHEAD, fetch, new_line, spread
from tapgnn.compiled.parallel import parallel, view
from tapgnn.compiled.products import empty_rows


class BlockWeights(NamedTuple):
    """What gradients flow to.

    value [R, d] what messages carry, gate [2, d] by role of the sender, rate [2, G] (float64) on both clocks, table
    [S, d] the block's inputs; own, scale, shift [d], or [0] without a self connection.
    """

    value: Any
    gate: Any
    rate: Any
    table: Any
    own: Any
    scale: Any
    shift: Any


class Links(NamedTuple):
    """Along what they flow: inbox [T+1], role and index [2E] (the row of `value` that a message carries), elapsed
    [T, 2], row [T] of `table`, and the carried states [C, d + G] (float64).
    """

    inbox: Any
    role: Any
    index: Any
    elapsed: Any
    row: Any
    carried: Any


class ForwardRows(NamedTuple):
    """What the forward pass leaves: factor and count [T, G], total and out [T, d], moments [T, 2], last [C, d + G]."""

    factor: Any
    count: Any
    total: Any
    out: Any
    moments: Any
    last: Any


class Gradients(NamedTuple):
    """Those of the weights; by_channel [5, d] has own, scale, shift, and what becomes that of the rates."""

    value: Any
    gate: Any
    rate: Any
    table: Any
    by_channel: Any


def adaptive_block(weights: BlockWeights, chain: Tensor, links: Links, distinct: bool) -> tuple[Tensor, Tensor]:
    """Embeddings [T, d] and the last states [C, d + G]; distinct: every row of the table is one temporal node's."""
    return _AdaptiveBlock.apply(distinct, chain, links, *weights)  # type: ignore[no-untyped-call,no-any-return]


class _AdaptiveBlock(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, distinct: bool, chain: Tensor, links: Links, *given: Tensor) -> tuple[Tensor, Tensor]:
        weights = BlockWeights(*map(view, given))
        arrays = Links(*map(view, links))
        filled = decay_chains(view(chain), weights, arrays)
        ctx.save_for_backward(chain, *given)
        ctx.distinct, ctx.links, ctx.filled = distinct, arrays, filled
        out, last = torch.from_numpy(filled.out), torch.from_numpy(filled.last)
        ctx.mark_non_differentiable(last)
        ctx.set_materialize_grads(False)
        return out, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        chain, *given = ctx.saved_tensors
        weights = BlockWeights(*map(view, given))
        # Rows of the matrix library's making are aligned as it wants them.
        value, gate, rate, table = given[:4]
        to_table = value.new_empty(table.shape) if ctx.distinct else value.new_zeros(table.shape)
        to_value, to_gate, to_rate = (
            value.new_zeros(value.shape),
            gate.new_zeros(gate.shape),
            rate.new_empty(rate.shape),
        )
        grads = (to_value, to_gate, to_rate, to_table)
        by_channel = to_value.new_empty(5, to_value.shape[1])
        filled = Gradients(*(tensor.numpy() for tensor in (*grads, by_channel)))
        _decay_backward(ctx.distinct, view(chain), weights, ctx.links, ctx.filled, view(grad), filled)
        if not len(weights.own):
            return None, None, None, *grads[:3], None, None, None, None
        return None, None, None, *grads, *by_channel[:3]


@program
def decay_chains(chain, weights, links):  # type: ignore[no-untyped-def]
    """The forward pass: `ForwardRows`."""
    rows, width, groups = len(links.row), weights.value.shape[1], weights.rate.shape[1]
    filled = ForwardRows(
        np.empty((rows, groups)),
        empty_rows(rows, groups, weights.value),
        empty_rows(rows, width, weights.value),
        empty_rows(rows, width, weights.value),
        empty_rows(rows, 2, weights.value),
        empty_rows(len(links.carried), width + groups, links.carried),
    )
    _decay_forward(chain, width, (weights, links, filled))
    return filled


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


@parallel
@fast
def _decay_forward(first, last, chain, arrays):  # type: ignore[no-untyped-def]
    """Fill the rows of chains first to last."""
    weights, links, filled = arrays
    value, gate, rate, table, own, scale, shift = weights
    inbox, role, index, elapsed, row, carried = links
    factor, count, total, out, moments, final = filled
    width, groups, end = value.shape[1], factor.shape[1], len(row) - 1
    sums, counts, shares = new_line(width, carried), new_line(groups, carried), new_line(groups, carried)
    kept, share, joined = new_line(width + LINE, carried), new_line(width + LINE, value), new_line(width, value)
    borders, zero = _borders(width, groups), value.dtype.type(0)
    for i in range(chain[first], chain[last]):
        for g in range(groups):
            factor[i, g] = np.exp(-elapsed[i, 0] * rate[0, g] - elapsed[i, 1] * rate[1, g])
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
            for j in range(width):
                total[i, j] = sums[j]
            if len(own) == 0:
                for j in range(width):
                    out[i, j] = total[i, j] * share[j]
                continue
            mine = row[i]
            for j in range(width):
                joined[j] = max(own[j] * table[mine, j] + total[i, j] * share[j], zero)
            mean, inverse = row_moments(joined)
            moments[i, 0], moments[i, 1] = mean, inverse
            for j in range(width):
                out[i, j] = (joined[j] - mean) * inverse * scale[j] + shift[j]
        for j in range(width):
            final[c, j] = sums[j]
        for g in range(groups):
            final[c, width + g] = counts[g]


@fast
def _decay_backward(distinct, chain, weights, links, filled, grad_out, grads):  # type: ignore[no-untyped-def]
    """Fill the gradients; those of rows that several temporal nodes share add up."""
    value, gate, _, table, own, scale, _ = weights
    inbox, role, index, elapsed, row, carried = links
    factor, count, total, _, moments, _ = filled
    grad_value, grad_gate, grad_rate, grad_table, by_channel = grads
    width, groups, kind = grad_out.shape[1], factor.shape[1], grad_out.dtype.type
    zero, former = kind(0), new_line(width, grad_out)
    flow, flow_count, joined = new_line(width, grad_out), new_line(width, grad_out), new_line(width, grad_out)
    centred, grad, grad_own = new_line(width, grad_out), new_line(width, grad_out), new_line(width, grad_out)
    grad_scale, grad_shift = new_line(width, grad_out), new_line(width, grad_out)
    by_time, by_events = new_line(width, grad_out), new_line(width, grad_out)
    room = width + LINE
    kept, share, before = new_line(room, grad_out), new_line(room, grad_out), new_line(room, grad_out)
    borders, shares = _borders(width, groups), new_line(groups, factor)
    for j in range(width):
        grad_own[j] = grad_scale[j] = grad_shift[j] = by_time[j] = by_events[j] = 0
    if len(count):
        _spread_shares(borders, count, len(count) - 1, shares, share)
    # From the last row to the first, without a break between chains: a plain run through memory.
    for c in range(len(chain) - 2, -1, -1):
        for j in range(width):
            flow[j] = flow_count[j] = 0
        for i in range(chain[c + 1] - 1, chain[c] - 1, -1):
            for m in range(inbox[max(i - 2, 0)], inbox[max(i - 1, 0)]):
                fetch(value, index[m])
                fetch(grad_value, index[m])
            ahead = max(i - ROWS_AHEAD, 0)
            fetch(grad_out, ahead)
            fetch(total, ahead)
            fetch(table, row[ahead])
            fetch(grad_table, row[ahead])
            spread(borders, factor[i], kept)
            if i > chain[c]:
                spread(borders, count[i - 1], before)
                for j in range(width):
                    former[j] = total[i - 1, j]
            else:
                spread(borders, carried[c, width:], before)
                for j in range(width):
                    former[j] = carried[c, j]
            mine, inverse = row[i], moments[i, 1]
            for j in range(width):
                grad[j] = grad_out[i, j]
            if len(own):
                for j in range(width):
                    joined[j] = max(own[j] * table[mine, j] + total[i, j] * share[j], zero)
                mean, product = normalise_backward(joined, moments, i, scale, centred, grad, grad_scale, grad_shift)
                for j in range(width):
                    grad[j] = relu_backward(joined[j], grad[j], centred[j], inverse, mean, product, zero)
                if distinct:
                    for j in range(width):
                        grad_table[mine, j] = grad[j] * own[j]
                else:
                    for j in range(width):
                        grad_table[mine, j] += grad[j] * own[j]
                for j in range(width):
                    grad_own[j] += grad[j] * table[mine, j]
            for j in range(width):
                flow[j] += grad[j] * share[j]
                flow_count[j] -= grad[j] * share[j] * share[j] * total[i, j]
            _spread_shares(borders, count, max(i - 1, 0), shares, share)
            for m in range(inbox[i], inbox[i + 1]):
                u, r = index[m], 1 - role[m]
                for j in range(width):
                    grad_value[u, j] += flow[j] * gate[r, j]
                    grad_gate[r, j] += flow[j] * value[u, j]
            # Over the pause before row i, with what it says of the rates; former has the sums before the pause.
            pause, ticks = kind(elapsed[i, 0]), kind(elapsed[i, 1])
            for j in range(width):
                flow[j] *= kept[j]
                flow_count[j] *= kept[j]
                lost = flow[j] * former[j] + flow_count[j] * before[j]
                by_time[j] -= lost * pause
                by_events[j] -= lost * ticks
    for j in range(width):
        by_channel[0, j], by_channel[1, j], by_channel[2, j] = grad_own[j], grad_scale[j], grad_shift[j]
        by_channel[3, j], by_channel[4, j] = by_time[j], by_events[j]
    for k in range(2):
        for g in range(groups):
            grad_rate[k, g] = 0.0
            for j in range(borders[g], borders[g + 1]):
                grad_rate[k, g] += by_channel[3 + k, j]
