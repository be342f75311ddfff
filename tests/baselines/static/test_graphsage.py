"""GraphSAGE: the network is the recursion of the formula, and both heads are reported."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.link_network import SageLayer
from tapgnn.baselines.static.graphsage import GraphSAGE, SageNetwork, dot_scores
from tapgnn.baselines.static.walks import StaticGraph
from tapgnn.errors import ConfigError
from tapgnn.events import Events
from tests.baselines.samples import busy_log, make, parts


def test_the_network_computes_the_formula_node_by_node() -> None:
    log = busy_log()
    graph = StaticGraph.from_events(log)
    torch.manual_seed(0)
    network = SageNetwork(graph, 6, samples=(3, 2))
    owner = np.repeat(np.arange(len(graph)), np.diff(graph.border))
    once = owner <= graph.partner
    static = Adjacency(Events(owner[once], graph.partner[once], np.zeros(int(once.sum()))))

    def drawn(node: int, count: int, seed: int) -> list[int]:
        found = static.uniform(np.array([node]), np.ones(1), count, seed)
        return found.node[found.mask].tolist()

    def layer(module: SageLayer, own: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
        return module.own(own) + module.mean(torch.stack(others).mean(dim=0))

    def first(node: int) -> torch.Tensor:
        return torch.relu(layer(network.first, network.vectors[node], [network.vectors[u] for u in drawn(node, 2, 9)]))

    nodes = graph.nodes()
    expected = [layer(network.second, first(v), [first(u) for u in drawn(v, 3, 8)]) for v in nodes.tolist()]
    torch.testing.assert_close(network(nodes, seed=8), normalize(torch.stack(expected), dim=1))


def test_both_heads_are_reported_and_the_better_one_on_validation_is_used() -> None:
    train, valid, stream = parts(busy_log())
    found = {}
    for head in ("best", "logistic", "dot"):
        method = make("graphsage", head=head)
        method.fit(train, valid)
        assert isinstance(method, GraphSAGE)
        found[head] = (method.details(), method.score(stream.src, stream.dst, stream.time))
    details = found["best"][0]
    assert details["valid_auc"] == max(details["logistic_valid_auc"], details["dot_valid_auc"])
    np.testing.assert_array_equal(found["best"][1], found[str(details["head"])][1])
    others = method.alternatives()
    assert set(others) == {"logistic", "dot"}
    for head, other in others.items():
        np.testing.assert_array_equal(other.replay(stream, stream.src, stream.dst, stream.time), found[head][1])
    # They have clocks of their own: the method itself has not moved on.
    method.observe(valid)
    assert found["dot"][0]["head"] == "dot"
    with pytest.raises(ConfigError, match="best, logistic, dot"):
        GraphSAGE(head="bilinear")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="neighbours must be at least 1"):
        GraphSAGE(samples=(25, 0))


def test_the_dot_score_of_an_unseen_node_is_zero() -> None:
    table = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    assert dot_scores(table, np.array([0, 0, -1]), np.array([1, 2, 0])).tolist() == [11.0, 0.0, 0.0]


def test_neighbours_end_up_with_a_higher_dot_product_than_others() -> None:
    # Two groups that never meet.
    rng = np.random.default_rng(0)
    ends = rng.integers(6, size=(2, 300)) + 6 * (np.arange(300) % 2)
    log = Events.from_arrays(*ends, np.arange(300) * 1.0)
    train, valid, _ = parts(log)
    method = GraphSAGE(width=16, samples=(5, 5), walks=20, epochs=6, batch=64, head="dot")
    method.fit(train, valid)
    rows = {node: int(log.vocabulary.known_rows([node])[0]) for node in range(12)}
    u, v = np.meshgrid(np.arange(12), np.arange(12))
    pairs = [np.array([rows[int(node)] for node in grid.ravel()]) for grid in (u, v)]
    scores = method.score(*pairs, np.full(144, 1e3)).reshape(12, 12)
    same = (u < 6) == (v < 6)
    assert scores[same & (u != v)].mean() > scores[~same].mean() + 0.3
