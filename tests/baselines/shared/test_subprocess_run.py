"""Subprocess run: whatever happens to the process, the caller gets a result."""

from __future__ import annotations

import os
import signal
from typing import Any

from tapgnn.baselines.shared.subprocess_run import run_in_subprocess
from tapgnn.errors import EventError


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
    found = run_in_subprocess(add, 2, 3, threads=1)
    assert found["sum"] == 5
    assert found["process"] != os.getpid()


def test_an_error_is_a_result_and_an_internal_one_is_marked() -> None:
    assert run_in_subprocess(refuse, threads=1) == {"error": "EventError: no such event"}
    assert run_in_subprocess(crash, threads=1)["error"].startswith("ZeroDivisionError: by nothing (an internal error")


def test_a_killed_process_is_reported_by_its_signal_and_ctrl_c_is_left_to_the_caller() -> None:
    killed = run_in_subprocess(end, signal.SIGKILL, threads=1)
    assert killed == {"error": "its process ended without a result, killed by SIGKILL; it may have run out of memory"}
    assert run_in_subprocess(end, signal.SIGINT, threads=1) == {"sum": 0}
