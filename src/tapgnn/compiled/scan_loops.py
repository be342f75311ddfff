"""The loops behind the scans, compiled by numba: each runs over a range of chains (or of inboxes) in float64 sums."""

from __future__ import annotations

import numpy as np

from tapgnn.compiled.jit import compiled, program
from tapgnn.compiled.numba_intrinsics import LINE
from tapgnn.compiled.parallel import parallel
from tapgnn.compiled.products import empty_rows


@program
def sum_chains(value, decay, initial, chain):  # type: ignore[no-untyped-def]
    """Decayed running sums [T, d] of value [T, d] from initial [C, d] (float64), and the last [C, d] of each chain."""
    running, last = empty_rows(value.shape[0], value.shape[1], value), empty_rows(len(initial), value.shape[1], initial)
    sum_forward(chain, value.shape[1], (value, decay, initial, running, last))
    return running, last


@program
def max_chains(value, initial, chain):  # type: ignore[no-untyped-def]
    """Running maxima [T, d] of value [T, d] from initial [C, d], the row [T, d] of each, and the last [C, d]."""
    running, last = empty_rows(value.shape[0], value.shape[1], value), empty_rows(len(initial), value.shape[1], value)
    argmax = np.empty(value.shape, dtype=np.int64)
    max_forward(chain, value.shape[1], (value, initial, running, argmax, last))
    return running, argmax, last


@program
def gather_messages(value, index, weight, inbox):  # type: ignore[no-untyped-def]
    """[T, d] the sum of value[index_m] (times weight_m, where there are weights) over the messages of each inbox."""
    out = empty_rows(len(inbox) - 1, value.shape[1], value)
    gather_forward(inbox, value.shape[1], (value, index, weight, out))
    return out


@parallel
@compiled
def sum_forward(first, last, chain, arrays):  # type: ignore[no-untyped-def]
    value, decay, initial, running, final = arrays
    width, groups = value.shape[1], decay.shape[1]
    total = np.empty(width)
    for c in range(first, last):
        for j in range(width):
            total[j] = initial[c, j]
        for i in range(chain[c], chain[c + 1]):
            for g in range(groups):
                factor = decay[i, g]
                for j in range(g * width // groups, (g + 1) * width // groups):
                    total[j] *= factor
            for j in range(width):
                total[j] += value[i, j]
                running[i, j] = total[j]
        for j in range(width):
            final[c, j] = total[j]


@parallel
@compiled
def sum_backward(first, last, chain, arrays):  # type: ignore[no-untyped-def]
    grad, grad_final, decay, initial, running, grad_value, grad_decay, grad_initial = arrays
    width, groups = grad.shape[1], decay.shape[1]
    lines = width // LINE
    flow = np.empty(width)
    # Memory is walked strictly downward, cache line by cache line: anything else defeats the prefetcher.
    for c in range(last - 1, first - 1, -1):
        for j in range(width):
            flow[j] = grad_final[c, j] if len(grad_final) else 0.0
        start = chain[c]
        for i in range(chain[c + 1] - 1, start - 1, -1):
            for j in range(lines * LINE, width):
                flow[j] += grad[i, j]
                grad_value[i, j] = flow[j]
            for k in range(lines - 1, -1, -1):
                for j in range(k * LINE, k * LINE + LINE):
                    flow[j] += grad[i, j]
                    grad_value[i, j] = flow[j]
            for g in range(groups - 1, -1, -1):
                lost = 0.0
                if i == start:
                    for j in range(g * width // groups, (g + 1) * width // groups):
                        lost += flow[j] * initial[c, j]
                else:
                    for j in range(g * width // groups, (g + 1) * width // groups):
                        lost += flow[j] * running[i - 1, j]
                grad_decay[i, g] = lost
                factor = decay[i, g]
                for j in range(g * width // groups, (g + 1) * width // groups):
                    flow[j] *= factor
        if len(grad_initial):
            for j in range(width):
                grad_initial[c, j] = flow[j]


@parallel
@compiled
def max_forward(first, last, chain, arrays):  # type: ignore[no-untyped-def]
    value, initial, running, argmax, final = arrays
    width = value.shape[1]
    for c in range(first, last):
        start = chain[c]
        for j in range(width):
            final[c, j] = initial[c, j]
        for i in range(start, chain[c + 1]):
            for j in range(width):
                fresh = value[i, j] > final[c, j]
                argmax[i, j] = i if fresh else (argmax[i - 1, j] if i > start else -1)
                if fresh:
                    final[c, j] = value[i, j]
                running[i, j] = final[c, j]


@parallel
@compiled
def max_backward(first, last, chain, arrays):  # type: ignore[no-untyped-def]
    grad, grad_final, argmax, grad_value, grad_initial = arrays
    width = grad.shape[1]
    for c in range(first, last):
        start, stop = chain[c], chain[c + 1]
        for j in range(width):
            grad_initial[c, j] = 0.0 if stop > start else grad_final[c, j]
        for i in range(start, stop):
            for j in range(width):
                grad_value[i, j] = 0.0
        for i in range(start, stop):
            for j in range(width):
                flow = grad[i, j] + (grad_final[c, j] if i == stop - 1 else 0.0)
                if argmax[i, j] >= 0:
                    grad_value[argmax[i, j], j] += flow
                else:
                    grad_initial[c, j] += flow


@parallel
@compiled
def gather_forward(first, last, inbox, arrays):  # type: ignore[no-untyped-def]
    value, index, weight, out = arrays
    width = value.shape[1]
    weighted = len(weight) > 0
    total = np.empty(width)
    for i in range(first, last):
        if inbox[i + 1] - inbox[i] == 1 and not weighted:
            row = index[inbox[i]]
            for j in range(width):
                out[i, j] = value[row, j]
            continue
        for j in range(width):
            total[j] = 0.0
        for m in range(inbox[i], inbox[i + 1]):
            row = index[m]
            share = weight[m] if weighted else 1.0
            for j in range(width):
                total[j] += share * value[row, j]
        for j in range(width):
            out[i, j] = total[j]


@compiled
def gather_backward(inbox, grad, value, index, weight, grad_value, grad_weight):  # type: ignore[no-untyped-def]
    width = grad.shape[1]
    weighted = len(weight) > 0
    for i in range(len(inbox) - 1):
        for m in range(inbox[i], inbox[i + 1]):
            row = index[m]
            if weighted:
                grad_share = 0.0
                for j in range(width):
                    grad_share += grad[i, j] * value[row, j]
                    grad_value[row, j] += weight[m] * grad[i, j]
                grad_weight[m] = grad_share
            else:
                for j in range(width):
                    grad_value[row, j] += grad[i, j]
