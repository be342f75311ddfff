"""Walk sketches: how often, and how recently, two nodes are joined by temporal walks, from fixed-size vectors.

Every node has a fixed random vector x_v of signs, a function of its id. A weightless AP block with decay propagates it:

    S_0 = x_v        S_k(v,t) = S_k(v,t') exp(-rate (t - t')) + sum of S_{k-1}(u,t) over the events (u,v,t)

Then E <S_i(u,t), S_j(v,t)> / r is the decayed number of pairs of temporal walks that leave one node, reach u in i steps
and v in j steps: (0,1) is 'how often and how recently did they meet', (1,1) 'how many neighbours do they share'. The
error shrinks as 1 / sqrt(r). A walk may use one instant for consecutive steps, as messages may (Algorithm 1).

A sketch row is [S_0 | S_1 at each rate | S_2 at each rate ...], r numbers each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba as nb
import numpy as np
import torch
from torch import Tensor

from tapgnn.events import Id, hash_ids
from tapgnn.kernels import Flow
from tapgnn.kernels.scan import gather_sum, scan_sum
from tapgnn.model.rows import Rows, find_row

# Keeps the cosine of an empty sketch at 0, and that of one long faded small.
FLOOR = 1e-3


def sketch_size(width: int, steps: int, rates: int) -> int:
    """Numbers in a sketch row."""
    return width * (1 + steps * rates)


def sign_vectors(ids: Sequence[Id], width: int) -> Any:
    """[len(ids), width] vectors of +1 and -1, the same wherever the id appears."""
    keys = hash_ids(ids)
    steps = np.arange(1, -(-width // 64) + 1, dtype=np.uint64)
    # splitmix64: one well-mixed word of 64 signs for each (id, step).
    word = keys[:, None] + steps[None, :] * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    bits = (word[:, :, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    return 1.0 - 2.0 * bits.reshape(len(keys), -1)[:, :width].astype(np.float32)


def propagate_sketches(flow: Flow, owner: Tensor, rate: Tensor, carried: Tensor, width: int, steps: int) -> Tensor:
    """Sketch rows of every temporal node [T, .] from those of the chains [C, .]; rate [2, H] per span of each clock."""
    if carried.device.type != "cpu":
        return plainly_propagate_sketches(flow, owner, rate, carried, width, steps)
    out = carried.new_empty(len(owner), carried.shape[1])
    tensors = (flow.chain, flow.inbox, flow.sender, owner, flow.elapsed, rate, carried, out)
    propagate(width, steps, *[tensor.contiguous().numpy() for tensor in tensors])
    return out


def plainly_propagate_sketches(
    flow: Flow, owner: Tensor, rate: Tensor, carried: Tensor, width: int, steps: int
) -> Tensor:
    """`propagate_sketches` in the operations of the kernels."""
    rates = rate.shape[1]
    decay = torch.exp(-flow.elapsed @ rate)
    met = gather_sum(carried[:, :width].contiguous(), owner[flow.sender], None, flow.inbox)
    parts = [carried[owner, :width]]
    arriving = met.repeat(1, rates)
    for step in range(steps):
        start = width * (1 + step * rates)
        initial = carried[:, start : start + width * rates].double()
        walks, _ = scan_sum(arriving, decay, initial, flow.chain)
        parts.append(walks)
        if step + 1 < steps:
            arriving = gather_sum(walks, flow.sender, None, flow.inbox)
    return torch.cat(parts, dim=1)


def compare_sketches(rows: Rows, fade: Tensor, left: int, width: int, steps: int) -> tuple[Tensor, Tensor]:
    """Walk counts of each pair, and cosines of the same sketches: both [Q, H * P].

    The first `left` rows are left ends, the others the right ends of the Q pairs, in blocks of `left`.
    P = (steps + 1)^2 - 1 pairs of steps (i, j) but (0, 0), for each of the H rates. fade [n, 1 + H] brings S_0, and S_k
    at each rate, from a node's last activity to the time of the query.
    """
    if fade.device.type != "cpu":
        return plainly_compare_sketches(rows, fade, left, width, steps)
    size = ((steps + 1) ** 2 - 1) * (fade.shape[1] - 1)
    pairs = len(fade) - left
    counts, cosines = fade.new_empty(pairs, size), fade.new_empty(pairs, size)
    tensors = (rows.place, rows.row, rows.here, rows.carried, rows.arena, fade, counts, cosines)
    compare(steps, left, *[tensor.numpy() for tensor in tensors])
    return counts, cosines


def plainly_compare_sketches(rows: Rows, fade: Tensor, left: int, width: int, steps: int) -> tuple[Tensor, Tensor]:
    """`compare_sketches` in plain torch."""
    ends = _by_rate(rows.tensor(), fade, width, steps)
    theirs = ends[left:]
    ours = ends[:left].repeat(len(theirs) // max(left, 1), 1, 1, 1)
    counts = torch.einsum("qhiw,qhjw->qhij", ours, theirs) / width
    norms = [(side.square().sum(dim=3) / width).sqrt() for side in (ours, theirs)]
    cosines = counts / (norms[0].unsqueeze(3) * norms[1].unsqueeze(2) + FLOOR)
    return counts.flatten(2)[:, :, 1:].flatten(1), cosines.flatten(2)[:, :, 1:].flatten(1)


def _by_rate(row: Tensor, fade: Tensor, width: int, steps: int) -> Tensor:
    """[n, H, steps + 1, width] faded sketches."""
    rates = fade.shape[1] - 1
    first = (row[:, :width] * fade[:, :1])[:, None, None].expand(-1, rates, 1, width)
    walks = row[:, width:].view(len(row), steps, rates, width).transpose(1, 2) * fade[:, 1:, None, None]
    return torch.cat([first, walks], dim=2)


@nb.njit(nogil=True, cache=True, fastmath={"contract", "nsz"}, error_model="numpy")
def propagate(
    width: Any,
    steps: Any,
    chain: Any,
    inbox: Any,
    sender: Any,
    owner: Any,
    elapsed: Any,
    rate: Any,
    carried: Any,
    out: Any,
) -> None:
    """A step of a walk needs the step before it of every temporal node, so the chains are passed once a step."""
    rates = rate.shape[1]
    total = np.empty(width * rates)
    for c in range(len(chain) - 1):
        for i in range(chain[c], chain[c + 1]):
            out[i, :width] = carried[c, :width]
    for step in range(steps):
        stop = width * (1 + (step + 1) * rates)
        start, former = stop - width * rates, stop - 2 * width * rates
        for c in range(len(chain) - 1):
            total[:] = carried[c, start:stop]
            for i in range(chain[c], chain[c + 1]):
                for h in range(rates):
                    factor = np.exp(-elapsed[i, 0] * rate[0, h] - elapsed[i, 1] * rate[1, h])
                    _scale(total[h * width : (h + 1) * width], factor)
                for m in range(inbox[i], inbox[i + 1]):
                    if step == 0:
                        arriving = carried[owner[sender[m]], :width]
                        for h in range(rates):
                            _add(total[h * width : (h + 1) * width], arriving)
                    else:
                        _add(total, out[sender[m], former:start])
                row = out[i, start:stop]
                for j in range(len(total)):
                    row[j] = total[j]


@nb.njit(nogil=True, cache=True)
def _scale(row: Any, factor: Any) -> None:
    for j in range(len(row)):
        row[j] *= factor


@nb.njit(nogil=True, cache=True)
def _add(row: Any, other: Any) -> None:
    for j in range(len(row)):
        row[j] += other[j]


@nb.njit(nogil=True, cache=True, error_model="numpy")
def fade_ends(facts: Any, time: Any, seen: Any, spans: Any, rate: Any, fade: Any) -> None:
    """Fill fade [n, 1 + H]: what is left of S_0, and of S_k at each rate, from a node's last activity until a query.

    Of a node without history nothing is there, whether or not its id is known. rate [2, H] per span of each clock.
    """
    for q in range(len(fade)):
        last = max(facts[q, 2], facts[q, 3])
        known = last > -np.inf
        pause = (time[q] - last) / spans[0] if known else 0.0
        ticks = (seen[q] - max(facts[q, 4], facts[q, 5])) / spans[1] if known else 0.0
        fade[q, 0] = 1.0 if known else 0.0
        for h in range(rate.shape[1]):
            fade[q, 1 + h] = np.exp(-pause * rate[0, h] - ticks * rate[1, h])


@nb.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def compare(
    steps: Any,
    left: Any,
    place: Any,
    row: Any,
    here: Any,
    carried: Any,
    arena: Any,
    fade: Any,
    counts: Any,
    cosines: Any,
) -> None:
    """The loops of `compare_sketches`; a table [n, .] holds parts of equal width, S_0 and S_k at each rate."""
    rates = fade.shape[1] - 1
    parts = 1 + steps * rates
    width = arena.shape[1] // parts
    norm_left, norm = np.empty((left, parts), dtype=arena.dtype), np.empty(parts, dtype=arena.dtype)
    for u in range(left):
        _measure(find_row(place[u], row[u], here, carried, arena).reshape(parts, width), norm_left[u])
    for q in range(len(counts)):
        u, v, column = q % left, left + q, 0
        ours = find_row(place[u], row[u], here, carried, arena).reshape(parts, width)
        theirs = find_row(place[v], row[v], here, carried, arena).reshape(parts, width)
        _measure(theirs, norm)
        for h in range(rates):
            for i in range(steps + 1):
                a = 0 if i == 0 else 1 + (i - 1) * rates + h
                fade_i = fade[u, 0 if i == 0 else 1 + h]
                for j in range(0 if i else 1, steps + 1):
                    b = 0 if j == 0 else 1 + (j - 1) * rates + h
                    faded = fade_i * fade[v, 0 if j == 0 else 1 + h]
                    count = faded * _dot(ours[a], theirs[b]) / width
                    counts[q, column] = count
                    cosines[q, column] = count / (faded * norm_left[u, a] * norm[b] + FLOOR)
                    column += 1


@nb.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _measure(row: Any, norm: Any) -> None:
    """Root mean squares [parts] of the parts of a row [parts, width]."""
    for part in range(len(row)):
        norm[part] = np.sqrt(_dot(row[part], row[part]) / row.shape[1])


@nb.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _dot(left: Any, right: Any) -> Any:
    total = np.float32(0.0)
    for k in range(len(left)):
        total += left[k] * right[k]
    return total
