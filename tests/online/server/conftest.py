"""A small fitted model with a classifier, and a server over it."""

import pytest

from tapgnn import TAPGNN
from tests.online.server.running import random_log, rows_of, running


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """The folder of a model, and the rows that come after what it knows."""
    log = random_log()
    past, later = log.slice(0, 400), log.take(slice(400, None))
    estimator = TAPGNN(width=16, epochs=1, options={"sketch_width": 8, "head_width": 16}).fit(past)
    estimator.fit_classifier(past)
    folder = tmp_path_factory.mktemp("served")
    estimator.save(folder)
    return folder, rows_of(later.between(float(past.time[-1]) + 1, float("inf")))


@pytest.fixture(scope="session")
def model(fitted):
    return fitted[0]


@pytest.fixture(scope="session")
def rows(fitted):
    return fitted[1]


@pytest.fixture
def server(model, tmp_path):
    with running(model, tmp_path / "state.db") as found:
        yield found
