"""Memory batch: waves compute every version of a memory once, after all that it needs."""

import numpy as np

from tapgnn.baselines.memory.dyrep import DyRep
from tapgnn.baselines.memory.memory_batch import MemoryBatch
from tests.baselines.shared.test_learner import make, random_log


def test_a_wave_needs_only_earlier_waves_and_holds_every_temporal_node_once():
    log = random_log(size=60, seed=2)
    one = make(DyRep)
    one.network = one._build(log)
    one.state = one._empty_state()
    one.state.past.append(log)
    batch = MemoryBatch(one.state, log, log.src, log.time, 3, 3, 1.0)
    assert sorted(np.concatenate(batch.waves)) == list(range(batch.view.size))
    ready = np.arange(batch.first)
    for wave in batch.waves:
        needed = np.concatenate([batch.previous[wave], batch.partner[wave], batch.partner_rows[wave].ravel()])
        assert np.isin(needed[needed >= 0], ready).all()
        ready = np.concatenate([ready, wave + batch.first])
    # A query at the time of an event reads the memory before it.
    assert (batch.last[batch.row] < log.time).all()
