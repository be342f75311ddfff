"""The rehearsal: once the server is ready, no request is the first to need a compiled loop."""

import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tapgnn.online import Engine
from tapgnn.online.server import rehearsal

from ..live import saved_model
from ..payments import payments, saved_payments_model
from .running import body_of, running

ROOT = Path(__file__).parents[3]
START = 1_000_001_000.0


def plain_rows():
    """Events on a few nodes, after everything that a tiny model knows."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 9, (800, 2)).tolist()
    return [{"src": src, "dst": dst, "time": START + number} for number, (src, dst) in enumerate(ends)]


def loops_after_ready(model, rows, folder):
    """The requests that needed a new loop, from a process of its own, in which nothing was compiled or read before."""
    (folder / "rows.json").write_text(json.dumps(rows))
    command = [sys.executable, "-m", "tests.online.server.loops_after_ready"]
    done = subprocess.run(
        [*command, str(model), str(folder / "state.db"), str(folder / "rows.json")],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_no_request_to_a_table_with_a_classifier_needs_a_new_loop(table_model, tmp_path):
    rows = payments(800, seed=4, start=1_000_010_000.0)
    assert loops_after_ready(table_model, rows, tmp_path) == []


def test_no_request_to_plain_features_with_a_classifier_needs_a_new_loop(fitted, tmp_path):
    model, rows = fitted
    events = body_of(rows)["events"]
    more = [{**events[number % len(events)], "time": events[-1]["time"] + number} for number in range(800)]
    assert loops_after_ready(model, more, tmp_path) == []


@pytest.mark.parametrize("kernel", ["attention", "pool"])
def test_no_request_to_another_kernel_needs_a_new_loop(kernel, tmp_path):
    assert loops_after_ready(saved_model(kernel, dtype="float32"), plain_rows(), tmp_path) == []


def test_a_server_without_a_folder_for_temporary_files_starts_and_says_so(model, tmp_path, monkeypatch, caplog):
    def nowhere(**_):
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(rehearsal, "_rehearsed", set())
    monkeypatch.setattr(tempfile, "TemporaryDirectory", nowhere)
    with running(model, tmp_path / "state.db") as server, server.http() as http:
        assert http.get("/readyz").status_code == 200
    (record,) = [record for record in caplog.records if "slow" in record.message]
    assert record.levelno == logging.WARNING
    assert "no usable temporary directory" in record.fields["reason"]


@pytest.mark.parametrize("form", [None, "%d.%m.%Y"])
def test_the_rehearsal_leaves_no_trace(form, tmp_path, monkeypatch):
    monkeypatch.setattr(rehearsal, "_rehearsed", set())
    model = saved_payments_model(f"timed {form}", time_format=form)
    with Engine.open(model, tmp_path / "untouched.db") as engine:
        untouched = engine.state_digest()
    with running(model, tmp_path / "state.db") as server:
        assert server.engine.state_digest() == untouched
        assert server.engine.status()["nodes"] == server.engine.status()["accepted"] == 0
        assert rehearsal._rehearsed
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"state.db", "untouched.db"}
