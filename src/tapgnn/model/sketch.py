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


def compare_sketches(
    left: Tensor, right: Tensor, fade_left: Tensor, fade_right: Tensor, pair: Tensor, width: int, steps: int
) -> tuple[Tensor, Tensor]:
    """Walk counts of each pair, and cosines of the same sketches: both [Q, H * P].

    right [Q, .] holds one end of each pair, left [n, .] the others, pair [Q] which of them. P = (steps + 1)^2 - 1 pairs
    of steps (i, j) but (0, 0), for each of the H rates. fade_left [n, 1 + H] and fade_right [Q, 1 + H] bring S_0, and
    S_k at each rate, from a node's last activity to the time of the query.
    """
    if left.device.type != "cpu":
        return plainly_compare_sketches(left, right, fade_left, fade_right, pair, width, steps)
    size = ((steps + 1) ** 2 - 1) * (fade_left.shape[1] - 1)
    counts, cosines = left.new_empty(len(pair), size), left.new_empty(len(pair), size)
    parts = (left.view(len(left), -1, width), right.view(len(right), -1, width))
    tensors = (*parts, fade_left, fade_right, pair, counts, cosines)
    _compare_sketches(steps, *[tensor.detach().contiguous().numpy() for tensor in tensors])
    return counts, cosines


def plainly_compare_sketches(
    left: Tensor, right: Tensor, fade_left: Tensor, fade_right: Tensor, pair: Tensor, width: int, steps: int
) -> tuple[Tensor, Tensor]:
    """`compare_sketches` in plain torch."""
    left, fade_left = left[pair], fade_left[pair]
    ours, theirs = (_by_rate(row, fade, width, steps) for row, fade in ((left, fade_left), (right, fade_right)))
    counts = torch.einsum("qhiw,qhjw->qhij", ours, theirs) / width
    norms = [(side.square().sum(dim=3) / width).sqrt() for side in (ours, theirs)]
    cosines = counts / (norms[0].unsqueeze(3) * norms[1].unsqueeze(2) + FLOOR)
    return counts.flatten(2)[:, :, 1:].flatten(1), cosines.flatten(2)[:, :, 1:].flatten(1)


def _by_rate(row: Tensor, fade: Tensor, width: int, steps: int) -> Tensor:
    """[Q, H, steps + 1, width] faded sketches."""
    rates = fade.shape[1] - 1
    first = (row[:, :width] * fade[:, :1])[:, None, None].expand(-1, rates, 1, width)
    walks = row[:, width:].view(len(row), steps, rates, width).transpose(1, 2) * fade[:, 1:, None, None]
    return torch.cat([first, walks], dim=2)


@nb.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _compare_sketches(
    steps: Any,
    left: Any,
    right: Any,
    fade_left: Any,
    fade_right: Any,
    pair: Any,
    counts: Any,
    cosines: Any,
) -> None:
    rates = fade_left.shape[1] - 1
    width = left.shape[2]
    norm_left, norm_right = _norms(left), _norms(right)
    for q in range(len(pair)):
        u, place = pair[q], 0
        for h in range(rates):
            for i in range(steps + 1):
                a = 0 if i == 0 else 1 + (i - 1) * rates + h
                fade_i = fade_left[u, 0 if i == 0 else 1 + h]
                for j in range(steps + 1):
                    if i == 0 and j == 0:
                        continue
                    b = 0 if j == 0 else 1 + (j - 1) * rates + h
                    fade = fade_i * fade_right[q, 0 if j == 0 else 1 + h]
                    counts[q, place] = fade * _dot(left[u, a], right[q, b]) / width
                    cosines[q, place] = counts[q, place] / (fade * norm_left[u, a] * norm_right[q, b] + FLOOR)
                    place += 1


@nb.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _dot(left: Any, right: Any) -> Any:
    total = left[0] * right[0]
    for k in range(1, len(left)):
        total += left[k] * right[k]
    return total


@nb.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _norms(rows: Any) -> Any:
    """[n, parts] root mean squares of the parts of each row [n, parts, width]."""
    norms = np.empty(rows.shape[:2], dtype=rows.dtype)
    for v in range(rows.shape[0]):
        for part in range(rows.shape[1]):
            norms[v, part] = np.sqrt(_dot(rows[v, part], rows[v, part]) / rows.shape[2])
    return norms
