"""Neighbourhoods: each (node, time) once, and only what lies before."""

import numpy as np

from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.neighbourhood import distinct, frontiers
from tests.baselines.shared.test_learner import random_log


def test_a_frontier_holds_each_node_and_time_once_and_only_what_lies_before():
    log = random_log(size=200)
    graph = Adjacency(log)
    roots, _ = distinct(log.src[-20:], log.time[-20:])
    _, layered = frontiers(lambda node, time, depth: graph.latest(node, time, 5), *roots, 3, "event")
    for frontier in layered:
        assert len(np.unique(np.column_stack([frontier.node, frontier.time]), axis=0)) == len(frontier.node)
        present = frontier.index >= 0
        assert (frontier.met.time < frontier.time[:, None])[present].all()
    # Two ends per event, and the queries: not 5 times as many with each layer.
    assert len(layered[0].node) <= 2 * len(log) + 20
