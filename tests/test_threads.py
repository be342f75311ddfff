"""One call sets the threads of every pool."""

import numba
import pytest
import torch
from threadpoolctl import threadpool_info

from tapgnn.errors import ConfigError
from tapgnn.threads import set_threads


@pytest.fixture(autouse=True)
def restored():
    before = torch.get_num_threads()
    yield
    set_threads(before)


@pytest.mark.parametrize("count", [1, 2])
def test_every_pool_has_the_same_number(count):
    set_threads(count)
    assert torch.get_num_threads() == count
    assert numba.get_num_threads() == min(count, numba.config.NUMBA_NUM_THREADS)
    assert all(pool["num_threads"] <= count for pool in threadpool_info())


def test_fewer_than_one_thread_is_refused():
    with pytest.raises(ConfigError, match="threads must be at least 1, not 0"):
        set_threads(0)
