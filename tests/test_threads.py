"""One call sets the threads of every pool."""

import numba
import pytest
import torch
from threadpoolctl import threadpool_info

from tapgnn.errors import ConfigError
from tapgnn.threads import ahead, set_threads, thread_count


@pytest.fixture(autouse=True)
def restored():
    yield
    set_threads(1)


@pytest.mark.parametrize("count", [1, 2])
def test_torch_has_one_thread_and_no_pool_has_more_than_asked_for(count):
    set_threads(count)
    assert thread_count() == count
    assert torch.get_num_threads() == 1
    assert numba.get_num_threads() == min(count, numba.config.NUMBA_NUM_THREADS)
    assert all(pool["num_threads"] <= count for pool in threadpool_info())


def test_fewer_than_one_thread_is_refused():
    with pytest.raises(ConfigError, match="threads must be at least 1, not 0"):
        set_threads(0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_is_made_ahead_comes_in_order_and_at_most_one_early(count):
    set_threads(count)
    made = []

    def items():
        for item in range(5):
            made.append(item)
            yield item

    for item in ahead(items()):
        assert item in made
        assert len(made) <= item + 2
    assert made == list(range(5))


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_of_what_is_made_ahead_reaches_whoever_uses_it(count):
    set_threads(count)

    def items():
        yield 1
        raise ConfigError("no more")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(ConfigError, match="no more"):
        next(found)
