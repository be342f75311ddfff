"""Subprocess run: whatever happens to the process, the caller gets a result."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tapgnn.baselines.shared.subprocess_run import SubprocessRun
from tapgnn.errors import EventError


def run_in_subprocess(function: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """What the function returns in a process of its own with one thread."""
    run = SubprocessRun(function, *args, threads=1)
    try:
        return run.result()
    finally:
        run.end()


def add(left: int, right: int) -> dict[str, Any]:
    return {"sum": left + right, "process": os.getpid()}


def refuse() -> dict[str, Any]:
    raise EventError("no such event")


def crash() -> dict[str, Any]:
    raise ZeroDivisionError("by nothing")


def end(number: int) -> dict[str, Any]:
    os.kill(os.getpid(), number)
    return {"sum": 0}


def test_the_function_runs_in_another_process() -> None:
    found = run_in_subprocess(add, 2, 3)
    assert found["sum"] == 5
    assert found["process"] != os.getpid()


def place() -> dict[str, Any]:
    return {"place": os.environ["TAPGNN_DATA"], "threads": os.environ["OMP_NUM_THREADS"]}


def test_it_has_the_environment_of_its_caller_at_that_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        monkeypatch.setenv("TAPGNN_DATA", name)
        assert run_in_subprocess(place) == {"place": name, "threads": "1"}


def test_an_error_is_a_result_and_an_internal_one_is_marked() -> None:
    assert run_in_subprocess(refuse) == {"error": "EventError: no such event"}
    assert run_in_subprocess(crash)["error"].startswith("ZeroDivisionError: by nothing (an internal error")


def test_a_killed_process_is_reported_by_its_signal_and_ctrl_c_is_left_to_the_caller() -> None:
    killed = run_in_subprocess(end, signal.SIGKILL)
    assert killed == {"error": "its process ended without a result, killed by SIGKILL; it may have run out of memory"}
    assert run_in_subprocess(end, signal.SIGINT) == {"sum": 0}


def hold(fifo: str) -> dict[str, Any]:
    """Write to a pipe, and keep it open for ever."""
    with open(fifo, "w") as stream:
        stream.write("here")
        stream.flush()
        while True:
            signal.pause()


def test_with_a_caller_that_is_killed_its_processes_end(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = f"from {__name__} import hold, run_in_subprocess\n"
    caller = subprocess.Popen([sys.executable, "-c", f"{code}run_in_subprocess(hold, {str(fifo)!r})"])
    with open(fifo) as stream:
        assert stream.read(4) == "here"
        caller.kill()
        caller.wait()
        ready, _, _ = select.select([stream], [], [], 60)
        assert ready
        assert stream.read() == ""
