"""Settings of the whole suite: threads pinned, hypothesis repeatable in CI, where the real data lies."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tapgnn.threads import set_threads

hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, max_examples=40)
hypothesis.settings.register_profile("dev", deadline=None, max_examples=40)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")
# Two spinning threads on a busy machine are far slower than one.
set_threads(1)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("TAPGNN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TAPGNN_DATA does not name a folder with the real data sets")
    return Path(folder)


@pytest.fixture
def heard() -> Iterator[None]:
    """SIGINT interrupts, also where the suite was started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
