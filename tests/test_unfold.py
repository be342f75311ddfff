"""Unfolding: the arrays against the definitions of Section 3.3, and the sizes of Table 1."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Events
from tapgnn.unfold import DESTINATION, SOURCE, message_links, unfold

from .streams import streams


def temporal_nodes(events):
    """V^T by definition, ordered by node, then time."""
    ends = {(int(v), float(t)) for end in (events.src, events.dst) for v, t in zip(end, events.time, strict=True)}
    return sorted(ends)


def listed(view):
    owner = view.owner()
    return [(int(view.nodes[owner[i]]), float(view.time[i])) for i in range(view.size)]


@given(streams())
def test_rows_are_the_temporal_nodes_in_order_of_node_and_time(events):
    view = unfold(events)
    assert listed(view) == temporal_nodes(events)
    assert np.array_equal(view.instants[view.instant], view.time)


@given(streams())
def test_messages_link_the_two_ends_of_every_event_both_ways(events):
    view = unfold(events)
    rows = listed(view)
    arrived = []
    for i in range(view.size):
        box = range(view.inbox[i], view.inbox[i + 1])
        arrived += [(rows[i], rows[view.sender[m]], int(view.role[m]), int(view.event[m])) for m in box]
    expected = []
    for e, (u, v, t) in enumerate(zip(events.src.tolist(), events.dst.tolist(), events.time.tolist(), strict=True)):
        expected += [((u, t), (v, t), SOURCE, e), ((v, t), (u, t), DESTINATION, e)]
    assert sorted(arrived) == sorted(expected)
    for i in range(view.size):
        assert np.all(np.diff(view.event[view.inbox[i] : view.inbox[i + 1]]) >= 0)


@given(streams())
def test_degrees_count_incident_events_up_to_the_instant_with_multiplicity(events):
    view = unfold(events)
    for row, (node, time) in enumerate(listed(view)):
        seen = events.time <= time
        assert view.degree()[row] == np.sum(seen & (events.src == node)) + np.sum(seen & (events.dst == node))


@given(streams(), st.integers(0, 2**32 - 1))
def test_a_query_finds_the_latest_row_strictly_before_it(events, seed):
    rng = np.random.default_rng(seed)
    view = unfold(events)
    rows = listed(view)
    nodes = rng.integers(-1, len(events.vocabulary) + 2, 20)
    times = rng.choice(np.concatenate([events.time, events.time + 0.1, events.time - 0.1]), 20)
    for node, time, found in zip(nodes.tolist(), times.tolist(), view.before(nodes, times).tolist(), strict=True):
        before = [i for i, (v, t) in enumerate(rows) if v == node and t < time]
        if before:
            assert found == before[-1]
        elif node in view.nodes:
            assert found == view.size + np.searchsorted(view.nodes, node)
        else:
            assert found == -1


def test_nothing_unfolds_to_nothing():
    events = Events.from_arrays([1], [2], [3]).slice(0, 0)
    view = unfold(events)
    assert view.size == 0
    assert view.chain.tolist() == [0]


@pytest.mark.parametrize(
    ("name", "nodes", "links", "ratio"),
    [("fb-forum", 67_390, 9_990_803, 296), ("soc-wiki-elec", 211_956, 17_608_197, 164)],
)
def test_sizes_of_the_message_passing_graph_are_those_of_table_1(data_folder, name, nodes, links, ratio):
    frame = pl.read_csv(data_folder / f"{name}.edges")
    events = Events.from_frame(frame, "from_node_id", "to_node_id", "timestamp")
    assert unfold(events).size == nodes
    assert message_links(events) == links
    assert links // len(events) == ratio
