"""Memory network: waves and pending messages give what the equations give event by event."""

import numpy as np
import pytest
import torch

from tapgnn import Events
from tapgnn.baselines.memory.dyrep import DyRep
from tapgnn.baselines.memory.jodie import JODIE
from tapgnn.baselines.memory.memory_network import MemoryBatch
from tapgnn.baselines.memory.tgn import TGN
from tapgnn.baselines.shared.row_table import look_up
from tests.baselines.shared.test_learner import make, parts, random_log

every_memory = pytest.mark.parametrize("method", [JODIE, TGN, DyRep])


def one_by_one(network, log):
    """The memory of every node after the log, instant by instant, and when it was last active."""
    memory, last = {}, {}
    vector = {node: network.vectors(np.array([node]))[0] for node in range(-1, 20)}
    met = {}
    for when in np.unique(log.time):
        fresh, here = {}, np.flatnonzero(log.time == when)
        for row in here:
            ends = (int(log.src[row]), int(log.dst[row]))
            for role, (node, partner) in enumerate((ends, ends[::-1])):
                gap = np.log1p((when - last[node]) / network.unit) if node in last else 0.0
                inputs = torch.tensor([role == 0, role == 1, gap, node not in last], dtype=torch.float32)
                partner_part = partner_message(network, partner, memory, vector, met)
                vectors = torch.from_numpy(log.features[row]) if log.features is not None else torch.empty(0)
                message = torch.cat([partner_part, inputs, vectors]).unsqueeze(0)
                own = memory.get(node, torch.zeros(network.width)).unsqueeze(0)
                fresh[node] = network.update(message, own)[0]
        memory.update(fresh)
        last.update(dict.fromkeys(fresh, when))
        for row in here:
            met.setdefault(int(log.src[row]), []).append(int(log.dst[row]))
            met.setdefault(int(log.dst[row]), []).append(int(log.src[row]))
    return memory, last


def partner_message(network, partner, memory, vector, met):
    """The partner's memory and vector, and for DyRep the maximum of its neighbours."""
    nothing = torch.zeros(network.width)
    own = memory.get(partner, nothing) + vector[partner]
    if not network.message_neighbours or partner not in met:
        return own
    around = torch.stack([memory.get(n, nothing) + vector[n] for n in met[partner][-network.message_neighbours :]])
    strength = torch.nn.functional.softplus(network.intensity(torch.cat([own.expand_as(around), around], dim=1)))
    weighted = torch.sigmoid(torch.softmax(strength, dim=0) * network.neighbour(around))
    return own + weighted.amax(dim=0)


@every_memory
@pytest.mark.parametrize("features", [0, 2])
def test_any_cut_of_the_stream_gives_the_memory_of_the_equations(method, features):
    log = random_log(size=90, seed=5, features=features)
    one = make(method)
    one.network = one._build(log)
    one.network.eval()
    with torch.no_grad():
        memory, last = one_by_one(one.network, log)
    nothing = np.empty(0, dtype=np.int64)
    for size in (1, 7, 90):
        one.state = one._empty_state()
        with torch.no_grad():
            for piece in log.chunks(size):
                one._logits(piece, nothing, nothing, np.empty(0))
            nodes = np.array(sorted(memory))
            found = one.network.update(one.state.pending[nodes], one.state.memory[nodes])
        torch.testing.assert_close(found, torch.stack([memory[int(n)] for n in nodes]), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(look_up(one.state.last, nodes, -np.inf), [last[int(n)] for n in nodes])


@every_memory
def test_the_gradients_of_a_batch_are_those_of_the_equations(method):
    log = random_log(size=40, seed=6)
    one = make(method)
    one.network = one._build(log)
    one.network.eval()
    memory, _ = one_by_one(one.network, log)
    nodes = sorted(memory)
    upstream = torch.randn(len(nodes), one.network.width, generator=torch.Generator().manual_seed(0))

    def gradients(found):
        one.network.zero_grad()
        (found * upstream).sum().backward()
        return {name: t.grad.to_dense() for name, t in one.network.named_parameters() if t.grad is not None}

    wanted = gradients(torch.stack([memory[node] for node in nodes]))
    state = one._empty_state()
    batch = MemoryBatch(one.network, state, log, np.empty(0, dtype=np.int64), np.empty(0))
    rows, _ = one.network.unroll(batch, state)
    found = gradients(rows[batch.first + batch.view.chain[1:] - 1])
    assert found.keys() == wanted.keys()
    for name, grad in wanted.items():
        torch.testing.assert_close(found[name], grad, rtol=1e-4, atol=1e-4)


@every_memory
def test_the_cell_learns_where_no_node_is_active_twice_in_a_batch(method):
    """Each event its own batch: only pending messages can bring the cell a gradient."""
    log = Events.from_arrays([0, 1, 0], [1, 2, 2], [1.0, 2.0, 3.0])
    one = make(method)
    one.network = one._build(log)
    one.state = one._empty_state()
    for piece in log.chunks(1):
        logits = one._logits(piece, piece.src, piece.dst, piece.time)
        one.network.zero_grad()
        logits.sum().backward()
    cells = [tensor.grad for name, tensor in one.network.named_parameters() if name.endswith("weight_ih")]
    assert any(float(grad.abs().sum()) > 0 for grad in cells if grad is not None)
    assert not one.state.memory.requires_grad
    assert not one.state.pending.requires_grad


def test_the_state_is_of_the_training_events_after_a_fit():
    train, valid, _ = parts(random_log())
    one = make(TGN, epochs=2)
    one.fit(train, valid)
    assert one.state.last.max() == train.time[-1]
    assert one.state.past.events == len(train)


def test_a_wave_needs_only_earlier_waves_and_holds_every_temporal_node_once():
    log = random_log(size=60, seed=2)
    one = make(DyRep)
    one.network = one._build(log)
    one.network.query_neighbours = one.network.message_neighbours = 3
    batch = MemoryBatch(one.network, one._empty_state(), log, log.src, log.time)
    assert sorted(np.concatenate(batch.waves)) == list(range(batch.view.size))
    ready = np.arange(batch.first)
    for wave in batch.waves:
        needed = np.concatenate([batch.previous[wave], batch.partner[wave], batch.partner_rows[wave].ravel()])
        assert np.isin(needed[needed >= 0], ready).all()
        ready = np.concatenate([ready, wave + batch.first])
    # A query at the time of an event reads the memory before it.
    assert (batch.last[batch.row] < log.time).all()
