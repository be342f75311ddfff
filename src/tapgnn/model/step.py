"""What `advance` and `score` do, for a few events or queries at a time, in one compiled call each.

A single event costs microseconds of arithmetic; taken operator by operator it would cost fifty times that in calls. The
loops are those of the general form (facts, sketches, the adaptive kernel, the end of a block), chained by compiled code
instead of torch operators; only the dense products are written out, for as few rows as there are.

For the default model without gradients, on the CPU, with neither node nor edge features; otherwise `Step.of` is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.adaptive_fused import fade_chains
from tapgnn.compiled.numba_intrinsics import fast
from tapgnn.compiled.projection_fused import join
from tapgnn.compiled.row_lookup import find_row
from tapgnn.events import Floats
from tapgnn.kernels.adaptive import Adaptive
from tapgnn.model.features.node_statistics import fold_facts
from tapgnn.model.features.walk_sketch import compare, fade_ends, propagate
from tapgnn.model.heads import PairMLP
from tapgnn.model.projection import count_facts, encode_facts
from tapgnn.model.trace import Reached
from tapgnn.unfold import Unfolding

if TYPE_CHECKING:
    from tapgnn.model.model import Model
    from tapgnn.model.state import Places, State

# From this many events or pairs on, dense products are better left to the matrix library.
FEW = 256


class Step:
    """The weights of a model as compiled code takes them: arrays, those of the blocks stacked."""

    def __init__(self, model: Model) -> None:
        self.tensors = (*model.parameters(), *model.buffers())
        self.versions = [tensor._version for tensor in self.tensors]
        config = model.config
        vectors: Any = model.inputs.vectors
        facts: Any = model.facts
        spans = np.array([config.span, config.events])
        blocks = [_block_arrays(block) for block in model.blocks]
        self.blocks = tuple(np.ascontiguousarray(np.stack(arrays)) for arrays in zip(*blocks, strict=True))
        self.absorbing = (
            _array(vectors.weight),
            model.count_rate.numpy() / config.events,
            spans,
            model.sketch_rate.numpy(),
            config.sketch_width,
            config.sketch_steps,
        )
        described = (facts.centre, facts.scale, facts.graded, facts.edges)
        self.describing = (facts.unit, facts.rate.numpy(), *map(_array, described))
        self.comparing = (config.sketch_steps, spans, model.sketch_rate.numpy(), _array(model.walk_scale))
        self.projecting = _projection_arrays(model.projection)
        self.scoring = _head_arrays(model.head)

    @staticmethod
    def of(model: Model, kept: Step | None) -> Step | None:
        """The step of a model, made anew if its weights changed since `kept` was; None where the model has none."""
        if kept is not None and kept.versions == [tensor._version for tensor in kept.tensors]:
            return kept
        return Step(model) if _is_default(model) else None

    def absorb(self, view: Unfolding, seen: Floats, state: State) -> Reached:
        """Write the rows of the active nodes into the state; see `Reached`."""
        events = (view.nodes, view.chain, view.inbox, view.sender, view.role, view.time, seen)
        return Reached(*map(torch.from_numpy, _absorb(events, state.arrays(), self.blocks, self.absorbing)))

    def link(self, places: Places, left: int) -> Tensor:
        """Logits [Q] of pairs, given as to `Model.link`."""
        asked = (places.place, places.row, places.time, places.seen)
        tables = places.owner.table_arrays()
        logits = _link(left, asked, tables, self.describing, self.comparing, self.projecting, self.scoring)
        return torch.from_numpy(logits)


def _is_default(model: Model) -> bool:
    config = model.config
    return (
        config.kernel == "adaptive"
        and config.roles
        and config.self_connection
        and config.facts
        and model.sketched
        and config.node_vectors
        and not (config.time_width or config.edge_features or config.node_features)
        and isinstance(model.head, PairMLP)
        and model.device.type == "cpu"
    )


def _array(tensor: Tensor) -> Any:
    return tensor.detach().numpy()


def _block_arrays(block: Any) -> tuple[Any, ...]:
    kernel: Adaptive = block.kernel
    weights = (
        block.transform.weight.T,
        block.transform.bias,
        block.gate,
        block.own,
        block.norm.weight,
        block.norm.bias,
    )
    return (*(_array(weight) for weight in weights), _array(kernel.rate()))


def _projection_arrays(projection: Any) -> tuple[Any, ...]:
    of_facts, norm = projection.of_facts, projection.norm
    weights = (of_facts.weight.T.contiguous(), of_facts.bias, projection.own, norm.weight, norm.bias)
    return tuple(_array(weight) for weight in weights)


def _head_arrays(head: Any) -> tuple[Any, ...]:
    direct = head.direct
    layers = [part.weight for part in (direct.of_left, direct.of_right, direct.of_walks, direct.second)]
    rows = [head.of_left, head.of_right, head.of_product, direct.bias, direct.second.bias]
    rows += [direct.out.weight[0], direct.out.bias]
    return tuple(_array(layer.T.contiguous()) for layer in layers), tuple(_array(row) for row in rows)


@fast
def _multiply(rows, weight, out):  # type: ignore[no-untyped-def]
    """Add rows [n, i] times weight [i, o] to out [n, o]."""
    for r in range(len(rows)):
        target = out[r]
        for i in range(len(weight)):
            factor, line = rows[r, i], weight[i]
            if factor != 0.0:
                for j in range(len(target)):
                    target[j] += factor * line[j]


@fast
def _absorb(events, arenas, blocks, absorbing):  # type: ignore[no-untyped-def]
    nodes, chain, inbox, sender, role, time, seen = events
    sums, all_facts, all_embeddings, all_sketches = arenas
    vectors, count_rate, spans, sketch_rate, sketch_width, sketch_steps = absorbing
    size, rows = len(time), nodes + 1
    carried_facts, carried_embedding, carried_sketch = all_facts[rows], all_embeddings[rows], all_sketches[rows]
    facts, elapsed = np.empty((size, all_facts.shape[1])), np.empty((size, 2))
    fold_facts(chain, inbox, role, time, seen, count_rate, carried_facts, facts, elapsed)
    elapsed /= spans
    owner = np.empty(size, dtype=np.int64)
    for c in range(len(nodes)):
        owner[chain[c] : chain[c + 1]] = c
    embedding, lower = _embed(nodes, owner, chain, inbox, sender, role, elapsed, vectors, blocks, sums)
    sketch = np.empty((size, all_sketches.shape[1]), dtype=all_sketches.dtype)
    propagate(sketch_width, sketch_steps, chain, inbox, sender, owner, elapsed, sketch_rate, carried_sketch, sketch)
    for c in range(len(nodes)):
        last = chain[c + 1] - 1
        all_facts[rows[c]], all_embeddings[rows[c]], all_sketches[rows[c]] = facts[last], embedding[last], sketch[last]
    return facts, embedding, sketch, carried_facts, carried_embedding, carried_sketch, lower


@fast
def _embed(nodes, owner, chain, inbox, sender, role, elapsed, vectors, blocks, sums):  # type: ignore[no-untyped-def]
    """h_K and h_{K-1} [T, d], layer by layer; the sums of the nodes are replaced."""
    transforms, biases, gates, owns, scales, shifts, rates = blocks
    size, width, groups, dtype = len(owner), vectors.shape[1], rates.shape[2], vectors.dtype
    table = np.empty((len(nodes), width), dtype=dtype)
    for c in range(len(nodes)):
        table[c] = vectors[nodes[c] + 1 if nodes[c] + 1 < len(vectors) else 0]
    row, start = owner, 0
    lower, place = table, row
    for k in range(len(transforms)):
        lower, place = table, row
        value = np.empty((len(table), width), dtype=dtype)
        value[:] = biases[k]
        _multiply(table, transforms[k], value)
        index = row[sender]
        factor = np.empty((size, groups))
        for i in range(size):
            for g in range(groups):
                factor[i, g] = np.exp(-elapsed[i, 0] * rates[k, 0, g] - elapsed[i, 1] * rates[k, 1, g])
        stop = start + width + groups
        carried = sums[nodes + 1, start:stop].copy()
        final = np.empty_like(carried)
        total, out = np.empty((size, width), dtype=dtype), np.empty((size, width), dtype=dtype)
        count, moments = np.empty((size, groups), dtype=dtype), np.empty((size, 2), dtype=dtype)
        fade_chains(
            0,
            len(nodes),
            chain,
            inbox,
            role,
            index,
            factor,
            value,
            gates[k],
            carried,
            table,
            row,
            owns[k],
            scales[k],
            shifts[k],
            total,
            count,
            moments,
            out,
            final,
        )
        for c in range(len(nodes)):
            sums[nodes[c] + 1, start:stop] = final[c]
        table, row, start = out, np.arange(size), stop
    return table, lower[place]


@fast
def _link(left, asked, tables, describing, comparing, projecting, scoring):  # type: ignore[no-untyped-def]
    place, row, time, seen = asked
    of_facts, of_embeddings, of_sketches = tables
    unit, count_rate, centre, scale, graded, edges = describing
    size, dtype = len(place), centre.dtype
    past = np.empty((size, of_facts[2].shape[1]))
    for q in range(size):
        past[q] = find_row(place[q], row[q], of_facts[0], of_facts[1], of_facts[2])
    facts = np.empty((size, len(centre)), dtype=dtype)
    encoded = np.empty((size, len(centre) + len(graded) * (edges.shape[1] - 1)), dtype=dtype)
    count_facts(unit, past, time, seen, count_rate, facts)
    for q in range(size):
        facts[q] = np.log(facts[q])
    encode_facts(centre, scale, graded, edges, facts, encoded)
    walks = _walks(left, place, row, time, seen, past, of_sketches, comparing)
    weight, bias, own, norm_scale, norm_shift = projecting
    joined, z = np.empty((size, len(bias)), dtype=dtype), np.empty((size, len(bias)), dtype=dtype)
    joined[:] = 0
    _multiply(facts, weight, joined)
    here, carried, arena = of_embeddings
    moments = np.empty((size, 2), dtype=dtype)
    join(place, row, here, carried, arena, bias, own, norm_scale, norm_shift, joined, moments, z)
    return _score(left, z, encoded, walks, scoring)


@fast
def _walks(left, place, row, time, seen, past, tables, comparing):  # type: ignore[no-untyped-def]
    """[Q, .] scaled cosines of the sketches."""
    steps, spans, rate, scale = comparing
    here, carried, arena = tables
    fade = np.empty((len(place), 1 + rate.shape[1]), dtype=arena.dtype)
    fade_ends(past, time, seen, spans, rate, fade)
    cosines = np.empty((len(place) - left, len(scale)), dtype=arena.dtype)
    compare(steps, left, place, row, here, carried, arena, fade, cosines)
    return cosines / scale


@fast
def _score(left, z, encoded, walks, scoring):  # type: ignore[no-untyped-def]
    (facts_left, facts_right, by_walks, second), rows = scoring
    by_left, by_right, by_product, bias, second_bias, last, last_bias = rows
    pairs = len(z) - left
    mine = np.zeros((left, len(bias)), dtype=z.dtype)
    hidden, deep = np.empty((pairs, len(bias)), dtype=z.dtype), np.empty((pairs, len(last)), dtype=z.dtype)
    hidden[:] = bias
    deep[:] = second_bias
    _multiply(encoded[:left], facts_left, mine)
    _multiply(encoded[left:], facts_right, hidden)
    _multiply(walks, by_walks, hidden)
    for q in range(pairs):
        for j in range(hidden.shape[1]):
            hidden[q, j] = max(hidden[q, j] + mine[q % left, j], 0)
    _multiply(hidden, second, deep)
    logits = np.empty(pairs, dtype=z.dtype)
    for q in range(pairs):
        u = q % left
        total = last_bias[0]
        for j in range(z.shape[1]):
            total += by_left[j] * z[u, j] + z[left + q, j] * (by_right[j] + by_product[j] * z[u, j])
        for j in range(len(last)):
            total += last[j] * max(deep[q, j], 0)
        logits[q] = total
    return logits
