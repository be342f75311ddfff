"""Walk sketches: how often, and how recently, two nodes are joined by temporal walks, from fixed-size vectors.

Every node has a fixed random vector x_v of signs, a function of its id. A weightless AP block with decay propagates it:

    S_0 = x_v        S_k(v,t) = S_k(v,t') exp(-rate (t - t')) + sum of S_{k-1}(u,t) over the events (u,v,t)

Then E <S_i(u,t), S_j(v,t)> / r is the decayed number of pairs of temporal walks that leave one node, reach u in i steps
and v in j steps: (0,1) is 'how often and how recently did they meet', (1,1) 'how many neighbours do they share'. The
error shrinks as 1 / sqrt(r). A walk may use one instant for consecutive steps, as messages may (Algorithm 1).

A sketch row is [S_0 | S_1 at each rate | S_2 at each rate ...], r numbers each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.compiled.jit import compiled, fast, program
from tapgnn.compiled.numba_intrinsics import row_address, row_at
from tapgnn.compiled.parallel import parallel, view
from tapgnn.compiled.products import empty_rows
from tapgnn.compiled.row_lookup import Rows, fetch_row, find_address, plain_pick
from tapgnn.kernels.flow import Flow
from tapgnn.model.features.node_statistics import last_active, last_seen
from tapgnn.model.features.row_layout import COSINE_FLOOR


def sketch_size(width: int, steps: int, rate: Any) -> int:
    """Numbers in a sketch row."""
    return width * (1 + steps * int(rate.shape[1]))


def sign_vectors(keys: NDArray[np.uint64], width: int) -> Any:
    """[len(keys), width] vectors of +1 and -1, a function of the hashes of the ids."""
    steps = np.arange(1, -(-width // 64) + 1, dtype=np.uint64)
    # splitmix64: one well-mixed word of 64 signs for each (id, step).
    word = keys[:, None] + steps[None, :] * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    bits = (word[:, :, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    return 1.0 - 2.0 * bits.reshape(len(keys), -1)[:, :width].astype(np.float32)


class Sketching(NamedTuple):
    """How long the random vectors are, how long the longest walk, and at which rates [2, H] per span of each clock
    walks are forgotten.
    """

    width: Any
    steps: Any
    rate: Any


def propagate_sketches(flow: Flow, owner: Tensor, carried: Tensor, sketching: Sketching) -> Tensor:
    """Sketch rows of every temporal node [T, .] from those of the chains [C, .]."""
    given = (flow.chain, flow.inbox, flow.sender, owner, flow.elapsed, carried)
    return torch.from_numpy(propagate(*map(view, given), sketching))


def plain_propagate_sketches(flow: Flow, owner: Tensor, carried: Tensor, sketching: Sketching) -> Tensor:
    """`propagate_sketches` in the operations of the kernels."""
    width, steps, rate = sketching
    scans, rates = flow.scans, rate.shape[1]
    decay = torch.exp(-flow.elapsed @ torch.from_numpy(rate).to(flow.elapsed))
    met = scans.gather_sum(carried[:, :width].contiguous(), owner[flow.sender], None, flow.inbox)
    parts = [carried[owner, :width]]
    arriving = met.repeat(1, rates)
    for step in range(steps):
        start = width * (1 + step * rates)
        initial = carried[:, start : start + width * rates].double()
        walks, _ = scans.scan_sum(arriving, decay, initial, flow.chain)
        parts.append(walks)
        if step + 1 < steps:
            arriving = scans.gather_sum(walks, flow.sender, None, flow.inbox)
    return torch.cat(parts, dim=1)


def compare_sketches(rows: Rows, kept: Tensor, left: int, sketching: Sketching) -> Tensor:
    """Cosines [Q, H * P] of the sketches of each pair: walk counts, freed of how active the two nodes are.

    The first `left` rows are left ends, the others the right ends of the Q pairs, in blocks of `left`.
    P = (steps + 1)^2 - 1 pairs of steps (i, j) but (0, 0), for each of the H rates. kept [n, 1 + H] is what is left of
    S_0, and of S_k at each rate, from a node's last activity to the time of the query.
    """
    return torch.from_numpy(compare(Rows(*map(view, rows)), view(kept), left, sketching))


def plain_compare_sketches(rows: Rows, kept: Tensor, left: int, sketching: Sketching) -> Tensor:
    """`compare_sketches` in plain torch."""
    width, steps, _ = sketching
    ends = by_rate(plain_pick(rows), kept, width, steps)
    theirs = ends[left:]
    ours = ends[:left].repeat(len(theirs) // max(left, 1), 1, 1, 1)
    counts = torch.einsum("qhiw,qhjw->qhij", ours, theirs) / width
    norms = [(side.square().sum(dim=3) / width).sqrt() for side in (ours, theirs)]
    cosines: Tensor = counts / (norms[0].unsqueeze(3) * norms[1].unsqueeze(2) + COSINE_FLOOR)
    return cosines.flatten(2)[:, :, 1:].flatten(1)


def by_rate(row: Tensor, kept: Tensor, width: int, steps: int) -> Tensor:
    """[n, H, steps + 1, width] what is left of sketches."""
    rates = kept.shape[1] - 1
    first = (row[:, :width] * kept[:, :1])[:, None, None].expand(-1, rates, 1, width)
    walks = row[:, width:].view(len(row), steps, rates, width).transpose(1, 2) * kept[:, 1:, None, None]
    return torch.cat([first, walks], dim=2)


@program
def propagate(chain, inbox, sender, owner, elapsed, carried, sketching):  # type: ignore[no-untyped-def]
    """`propagate_sketches` on arrays."""
    out = empty_rows(len(owner), carried.shape[1], carried)
    factor = empty_rows(len(owner), sketching.rate.shape[1], carried)
    for step in range(sketching.steps):
        _propagate(chain, carried.shape[1], (step, inbox, sender, owner, elapsed, carried, sketching, factor, out))
    return out


@parallel
@compiled
def _propagate(first: Any, last: Any, chain: Any, arrays: Any) -> None:
    """One step of all walks: it needs the step before it of every temporal node.

    Every temporal node has a message; the first of them is added while what is left of the past is written.
    """
    step, inbox, sender, owner, elapsed, carried, sketching, factor, out = arrays
    width, _, rate = sketching
    rates = rate.shape[1]
    # A row is summed in place, in the type of the state: where the stream is cut then changes no bit.
    if step == 0:
        for i in range(chain[first], chain[last]):
            for h in range(rates):
                factor[i, h] = np.exp(-elapsed[i, 0] * rate[0, h] - elapsed[i, 1] * rate[1, h])
    run = out.itemsize * width
    start = run * (1 + step * rates)
    for c in range(first, last):
        before = row_address(carried, c)
        for i in range(chain[c], chain[c + 1]):
            here = row_address(out, i)
            for h in range(rates):
                part, kept = start + h * run, factor[i, h]
                target, former = row_at(here + part, (width,), out), row_at(before + part, (width,), out)
                for m in range(inbox[i], inbox[i + 1]):
                    if step == 0:
                        met = row_at(row_address(carried, owner[sender[m]]), (width,), out)
                    else:
                        met = row_at(row_address(out, sender[m]) + part - rates * run, (width,), out)
                    if m == inbox[i]:
                        for k in range(width):
                            target[k] = former[k] * kept + met[k]
                    else:
                        for k in range(width):
                            target[k] += met[k]
            if step == 0:
                target, former = row_at(here, (width,), out), row_at(before, (width,), out)
                for k in range(width):
                    target[k] = former[k]
            before = here


@program
def decay_to_queries(past, time, seen, spans, rate, like):  # type: ignore[no-untyped-def]
    """[n, 1 + H] what is left of S_0, and of S_k at each rate, from a node's last activity until a query.

    past [n, F] are the statistics of the nodes. Of a node without history nothing is there, whether or not its id is
    known. rate [2, H] per span of each clock.
    """
    kept = empty_rows(len(past), 1 + rate.shape[1], like)
    _decay_to_queries(past, time, seen, spans, rate, kept)
    return kept


@compiled
def _decay_to_queries(past: Any, time: Any, seen: Any, spans: Any, rate: Any, kept: Any) -> None:
    _, span, events = spans
    for q in range(len(kept)):
        last = last_active(past[q])
        known = last > -np.inf
        pause = (time[q] - last) / span if known else 0.0
        ticks = (seen[q] - last_seen(past[q])) / events if known else 0.0
        kept[q, 0] = 1.0 if known else 0.0
        for h in range(rate.shape[1]):
            kept[q, 1 + h] = np.exp(-pause * rate[0, h] - ticks * rate[1, h])


@program
def compare(rows, kept, left, sketching):  # type: ignore[no-untyped-def]
    """`compare_sketches` on arrays."""
    columns = ((sketching.steps + 1) ** 2 - 1) * (kept.shape[1] - 1)
    cosines = empty_rows(len(kept) - left, columns, kept)
    fill_cosines(rows, kept, left, sketching.steps, cosines)
    return cosines


@fast
def fill_cosines(rows: Any, kept: Any, left: Any, steps: Any, cosines: Any) -> None:
    """Fill cosines [Q, .]. A row holds parts of equal width, S_0 and S_k at each rate."""
    arena = rows.arena
    rates, kind = kept.shape[1] - 1, arena.dtype
    parts = 1 + steps * rates
    width = arena.shape[1] // parts
    first, second = _part_pairs(steps, rates, cosines.shape[1])
    norm_left, norm, square = np.empty(parts, dtype=kind), np.empty(parts, dtype=kind), np.empty(parts, dtype=kind)
    kept_left, kept_right = np.empty(parts, dtype=kind), np.empty(parts, dtype=kind)
    product, size = np.empty(len(first), dtype=kind), np.empty(len(first), dtype=kind)
    floor = kind.type(width * COSINE_FLOOR)
    for u in range(left):
        for q in range(min(u + 1, left - 1), len(kept), left):
            fetch_row(rows, q)
        ours = row_at(find_address(rows, u), (parts, width), arena)
        _keep(kept, u, kept_left)
        for part in range(parts):
            norm_left[part] = np.sqrt(_dot(ours, part, ours, part)) * kept_left[part]
        for q in range(u, len(cosines), left):
            end = left + q
            theirs = row_at(find_address(rows, end), (parts, width), arena)
            _keep(kept, end, kept_right)
            if steps == 2:
                _multiply_two_steps(ours, theirs, rates, product, square)
            else:
                _multiply(ours, theirs, first, second, product, square)
            for part in range(parts):
                norm[part] = np.sqrt(square[part]) * kept_right[part]
            for column in range(len(first)):
                a, b = first[column], second[column]
                product[column] *= kept_left[a] * kept_right[b]
                size[column] = norm_left[a] * norm[b]
            for column in range(len(first)):
                cosines[q, column] = product[column] / (size[column] + floor)


@fast
def _multiply(ours: Any, theirs: Any, first: Any, second: Any, product: Any, square: Any) -> None:
    """Fill product [columns] of the parts that each column compares, and square [parts] of theirs."""
    for column in range(len(first)):
        product[column] = _dot(ours, first[column], theirs, second[column])
    for part in range(len(square)):
        square[part] = _dot(theirs, part, theirs, part)


@fast
def _multiply_two_steps(ours: Any, theirs: Any, rates: Any, product: Any, square: Any) -> None:
    """`_multiply` for walks of at most two steps: a rate takes one run over its parts."""
    zero = ours.dtype.type(0)
    square[0] = _dot(theirs, 0, theirs, 0)
    for h in range(rates):
        one, two, column = 1 + h, 1 + rates + h, 8 * h
        p01, p02, p10, p11, p12, p20, p21, p22 = zero, zero, zero, zero, zero, zero, zero, zero
        s1, s2 = zero, zero
        for k in range(ours.shape[1]):
            a0, a1, a2 = ours[0, k], ours[one, k], ours[two, k]
            b0, b1, b2 = theirs[0, k], theirs[one, k], theirs[two, k]
            p01 += a0 * b1
            p02 += a0 * b2
            p10 += a1 * b0
            p11 += a1 * b1
            p12 += a1 * b2
            p20 += a2 * b0
            p21 += a2 * b1
            p22 += a2 * b2
            s1 += b1 * b1
            s2 += b2 * b2
        product[column], product[column + 1], product[column + 2], product[column + 3] = p01, p02, p10, p11
        product[column + 4], product[column + 5], product[column + 6], product[column + 7] = p12, p20, p21, p22
        square[one], square[two] = s1, s2


@fast
def _part_pairs(steps: Any, rates: Any, columns: Any) -> tuple[Any, Any]:
    """The parts of either end that each column compares."""
    first, second, column = np.empty(columns, dtype=np.int64), np.empty(columns, dtype=np.int64), 0
    for h in range(rates):
        for i in range(steps + 1):
            for j in range(0 if i else 1, steps + 1):
                first[column] = 0 if i == 0 else 1 + (i - 1) * rates + h
                second[column] = 0 if j == 0 else 1 + (j - 1) * rates + h
                column += 1
    return first, second


@fast
def _keep(kept: Any, q: Any, by_part: Any) -> None:
    """Fill what is left of each part [parts] at query q."""
    rates = kept.shape[1] - 1
    by_part[0] = kept[q, 0]
    for part in range(1, len(by_part), rates):
        for h in range(rates):
            by_part[part + h] = kept[q, 1 + h]


@fast
def _dot(left: Any, a: Any, right: Any, b: Any) -> Any:
    total = left.dtype.type(0)
    for k in range(left.shape[1]):
        total += left[a, k] * right[b, k]
    return total
