"""What is known without weights: of the nodes of a chunk, and of the pairs that are asked for.

A training does this for the next chunk while it learns from the present one. It is compiled whole, however many rows
there are: each call from Python would wait for the interpreter's lock, which the other thread has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapgnn.compiled.jit import compiled, program, whole
from tapgnn.compiled.products import empty_rows
from tapgnn.compiled.row_lookup import pick_rows, put_rows, take_rows
from tapgnn.model.features.node_statistics import last_active, read_clocks, update_statistics
from tapgnn.model.features.pair_encoder import fill_encoded_pairs
from tapgnn.model.features.recent_partners import pair_facts, update_partners
from tapgnn.model.features.statistics_encoder import fill_encoded
from tapgnn.model.features.walk_sketch import decay_to_queries, fill_cosines, propagate
from tapgnn.unfold import chain_owners


class Counted(NamedTuple):
    """Statistics [T, F] of temporal nodes, and those carried into the chains [C, F]; elapsed and clocks [T, 2], degree
    and seen [T], as in `Flow`, and the owner [T] of each.
    """

    statistics: Any
    carried: Any
    elapsed: Any
    clocks: Any
    degree: Any
    seen: Any
    owner: Any


class Descriptions(NamedTuple):
    """What is known of ends: pause [n] in spans, statistics and encoded [n, .]; of pairs: walks and facts [Q, .].

    Where a model lacks a part, it has no columns.
    """

    pause: Any
    statistics: Any
    encoded: Any
    walks: Any
    pairs: Any


@program
def count(view, before, spans, rate, statistics, like):  # type: ignore[no-untyped-def]
    """`Counted`, after `before` events; the statistics of the nodes are replaced. The degree is of the type of like."""
    size, seen = len(view.time), view.seen + before
    carried = take_rows(view.nodes, statistics, 0, statistics.shape[1])
    rows, elapsed, clocks = np.empty((size, statistics.shape[1])), np.empty((size, 2)), np.empty((size, 2))
    degree = np.empty(size, dtype=like.dtype)
    update_statistics(view, seen, rate, carried, rows, elapsed)
    read_clocks(spans, view, seen, rows, elapsed, clocks, degree)
    put_rows(view.nodes, view.chain[1:] - 1, rows, 0, statistics)
    return Counted(rows, carried, elapsed, clocks, degree, seen, chain_owners(view.chain))


@program
def remember(view, counted, rate, sketching, sketches, known):  # type: ignore[no-untyped-def]
    """Sketches and partners [T, .], and those carried into the chains [C, .]; those of the nodes are replaced."""
    carried_sketch = take_rows(view.nodes, sketches, 0, sketches.shape[1])
    carried_partners = take_rows(view.nodes, known, 0, known.shape[1])
    owner = counted.owner
    sketch = empty_rows(len(owner), 0, sketches)
    if sketching.width > 0:
        sketch = propagate(view.chain, view.inbox, view.sender, owner, counted.elapsed, carried_sketch, sketching)
        put_rows(view.nodes, view.chain[1:] - 1, sketch, 0, sketches)
    partners = np.empty((len(owner), known.shape[1]))
    if known.shape[1] > 0:
        update_partners(view, owner, counted.seen, rate, counted.statistics, carried_partners, partners)
        put_rows(view.nodes, view.chain[1:] - 1, partners, 0, known)
    return sketch, partners, carried_sketch, carried_partners


@whole
def observe(view: Any, before: Any, spans: Any, rate: Any, sketching: Any, arenas: Any) -> Any:
    """`count` and `remember`; the arenas are those of statistics, sketches and partners."""
    statistics, sketches, known = arenas
    counted = count(view, before, spans, rate, statistics, sketches)
    return counted, remember(view, counted, rate, sketching, sketches, known)


@whole
def describe(asked: Any, left: Any, unit: Any, rate: Any, spans: Any, sketching: Any, scales: Any, filled: Any) -> None:
    """Fill `Descriptions` of pairs, the first `left` of whose ends are left ends.

    scales has the encodings of statistics and pairs and the scale of walks: what was measured on the training log.
    """
    of_statistics, of_pairs, of_walks = scales
    past = pick_rows(asked.statistics)
    _find_pauses(past, asked.time, spans, filled.pause)
    if filled.statistics.shape[1] > 0:
        fill_encoded(past, asked.partners, asked.time, asked.seen, of_statistics, filled.statistics, filled.encoded)
    if filled.walks.shape[1] > 0:
        kept = decay_to_queries(past, asked.time, asked.seen, spans, sketching.rate, filled.walks)
        fill_cosines(asked.sketch, kept, left, sketching.steps, filled.walks)
        filled.walks[:] /= of_walks
    if filled.pairs.shape[1] > 0:
        facts = pair_facts(asked.partners, past, asked.time, asked.seen, left, unit, len(rate))
        fill_encoded_pairs(facts, of_pairs, filled.pairs)


@compiled
def _find_pauses(past: Any, time: Any, spans: Any, pause: Any) -> None:
    """Fill pause [n] since nodes with the statistics past [n, F] were active, in spans; infinite for never."""
    for q in range(len(pause)):
        pause[q] = (time[q] - last_active(past[q])) / spans[1]
