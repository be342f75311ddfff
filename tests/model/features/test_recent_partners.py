"""Recent partners: exact for pairs that one end remembers, whoever is a hub, and in both directions."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Events
from tapgnn.compiled.row_lookup import Rows
from tapgnn.model.features.node_statistics import COUNT, empty_statistics
from tapgnn.model.features.node_statistics import RECENT as STATISTICS
from tapgnn.model.features.recent_partners import (
    AT,
    BEGAN,
    COUNTS,
    FIRST,
    KEY,
    MET,
    NEW,
    OWN_EVENTS,
    PAIR_FACTS,
    PAUSE,
    RECENT,
    TICKS,
    empty_partners,
    pair_facts,
    partner_keys,
    update_partners,
)
from tapgnn.unfold import unfold
from tapgnn.vocabulary import hash_ids

from ...streams import streams

RATE = np.log(2) / np.array([3.0, 20.0])


def rows_after(log, slots):
    """Rows [N, .] of partners, and messages [N], of every node of a log after its last event."""
    view, nodes = unfold(log), len(log.vocabulary)
    carried = np.tile(empty_partners(slots, len(RATE)), (len(view.nodes), 1))
    carried[:, 0] = partner_keys(log.vocabulary.hashes())[view.nodes]
    counts = np.zeros((view.size, STATISTICS))
    counts[:, COUNT] = view.degree()
    rows = np.empty((view.size, carried.shape[1]))
    update_partners(view, view.owner(), view.seen, RATE, counts, carried, rows)
    known, received = np.tile(empty_partners(slots, len(RATE)), (nodes, 1)), np.zeros(nodes)
    known[:, 0] = partner_keys(log.vocabulary.hashes())
    known[view.nodes], received[view.nodes] = rows[view.chain[1:] - 1], counts[view.chain[1:] - 1, COUNT]
    return known, received


def ask(rows, statistics, time, seen):
    """Facts of pairs whose ends have rows [2 Q, .] of a table, at times and events seen [Q]."""
    place = np.arange(len(rows))
    return pair_facts(
        Rows(place, place, rows, rows[:0], rows[:0]),
        statistics,
        np.tile(time, 2),
        np.tile(seen, 2),
        len(time),
        1.0,
        len(RATE),
    )


def facts_of(log, slots, src, dst, time):
    known, received = rows_after(log, slots)
    statistics = np.tile(empty_statistics(0), (2 * len(src), 1))
    statistics[:, COUNT] = np.concatenate([received[src], received[dst]])
    return ask(known[np.concatenate([src, dst])], statistics, time, np.full(len(src), float(len(log))))


def expected_facts(log, u, v, time):
    """The same by its definition, straight from the log."""
    forth, back = (log.src == u) & (log.dst == v), (log.src == v) & (log.dst == u)
    both = np.flatnonzero(forth | back)
    facts = np.full(PAIR_FACTS, np.nan)
    facts[MET] = facts[COUNTS] = facts[COUNTS + 1] = 0.0
    if len(both):
        last = log.time[both[-1]]
        later = log.time > last
        facts[MET] = 1.0
        facts[PAUSE], facts[TICKS] = np.log1p(time - last), np.log1p(later.sum())
        for end, node in enumerate((u, v)):
            own = ((log.src == node) & later).sum() + ((log.dst == node) & later).sum()
            facts[OWN_EVENTS + end] = np.log1p(own)
        facts[COUNTS : COUNTS + 2] = np.log1p([forth.sum(), back.sum()])
    return facts


@given(streams())
def test_with_slots_for_everybody_the_facts_of_every_pair_are_exact(log):
    nodes = len(log.vocabulary)
    src, dst = (np.repeat(np.arange(nodes), nodes), np.tile(np.arange(nodes), nodes))
    time = float(log.time[-1]) + 1.5
    found = facts_of(log, nodes, src, dst, np.full(len(src), time))
    wanted = np.array([expected_facts(log, u, v, time) for u, v in zip(src, dst, strict=True)])
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_a_hub_forgets_but_its_customers_remember():
    log = Events.from_arrays([f"c{n}" for n in range(50)], ["hub"] * 50, np.arange(50.0))
    customers, hub = log.vocabulary.rows([f"c{n}" for n in range(50)]), np.full(50, log.vocabulary.rows(["hub"])[0])
    facts = facts_of(log, 4, customers, hub, np.full(50, 60.0))
    assert facts[:, MET].all()
    np.testing.assert_allclose(facts[:, PAUSE], np.log1p(60.0 - np.arange(50.0)))
    # What the hub itself had done by then is forgotten: all of its events stand for those since.
    assert facts[0, OWN_EVENTS + 1] == np.log1p(50)


def test_the_partner_that_was_silent_longest_gives_way():
    log = Events.from_arrays(["a"] * 5, ["b", "c", "b", "d", "e"], np.arange(5.0))
    known, _ = rows_after(log, 2)
    begin = RECENT + len(RATE) + KEY
    assert set(known[log.vocabulary.rows(["a"])[0], begin : begin + 2]) == set(partner_keys(hash_ids(["d", "e"])))


def test_nodes_that_nobody_knows_have_not_met():
    rows = np.tile(empty_partners(3, len(RATE)), (2, 1))
    facts = ask(rows, np.tile(empty_statistics(0), (2, 1)), np.ones(1), np.ones(1))
    assert (facts[0, [MET, COUNTS, COUNTS + 1]] == 0).all()
    assert np.isnan(facts[0, [PAUSE, TICKS, OWN_EVENTS, OWN_EVENTS + 1]]).all()


@given(streams())
def test_with_slots_for_everybody_new_partners_and_the_first_event_are_exact(log):
    known, _ = rows_after(log, len(log.vocabulary))
    seen = np.searchsorted(log.time, log.time, side="right")
    for node in range(len(log.vocabulary)):
        row, met = known[node], set()
        own = np.flatnonzero((log.src == node) | (log.dst == node))
        new, recent = np.zeros(2), np.zeros(len(RATE))
        for instant in np.unique(log.time[own]):
            of_now = own[log.time[own] == instant]
            # An instant has no order within: who was met in both roles was met as source.
            ends = [(0, event, log.dst[event]) for event in of_now if log.src[event] == node]
            ends += [(1, event, log.src[event]) for event in of_now if log.dst[event] == node]
            for role, event, partner in ends:
                if partner not in met:
                    met.add(partner)
                    new[role] += 1
                    recent += np.exp(-RATE * (seen[own[-1]] - seen[event]))
        assert row[FIRST] == log.time[own[0]]
        assert (row[BEGAN], row[AT]) == (seen[own[0]], seen[own[-1]])
        np.testing.assert_array_equal(row[NEW : NEW + 2], new)
        np.testing.assert_allclose(row[RECENT : RECENT + len(RATE)], recent, rtol=1e-12)


def test_a_partner_that_was_forgotten_is_new_again():
    log = Events.from_arrays(["a"] * 4, ["b", "c", "d", "b"], np.arange(4.0))
    for slots, new in ((2, 4), (3, 3)):
        known, _ = rows_after(log, slots)
        assert known[log.vocabulary.rows(["a"])[0], NEW] == new


@given(streams(), st.integers(0, 2**32 - 1))
def test_who_is_forgotten_does_not_depend_on_the_order_within_an_instant(log, seed):
    order = np.lexsort([np.random.default_rng(seed).random(len(log)), log.time])
    shuffled = replace(log, src=log.src[order], dst=log.dst[order], time=log.time[order])
    for slots in (1, 3):
        np.testing.assert_array_equal(rows_after(log, slots)[0], rows_after(shuffled, slots)[0])
