"""Process: whatever becomes of a piece of work, its caller has an answer."""

from __future__ import annotations

import os
import signal
from typing import Any

from tapgnn.baselines.shared.subprocess_run import run_apart
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


def test_the_work_is_done_in_another_process() -> None:
    found = run_apart(add, 2, 3, threads=1)
    assert found["sum"] == 5
    assert found["process"] != os.getpid()


def test_an_error_is_an_answer_and_one_of_the_program_is_called_so() -> None:
    assert run_apart(refuse, threads=1) == {"error": "EventError: no such event"}
    assert run_apart(crash, threads=1)["error"].startswith("ZeroDivisionError: by nothing (an error of the program")


def test_a_process_that_is_killed_is_told_by_its_signal_and_ctrl_c_is_left_to_the_caller() -> None:
    killed = run_apart(end, signal.SIGKILL, threads=1)
    assert killed == {"error": "its process ended without a result, killed by SIGKILL; the memory may have run out"}
    assert run_apart(end, signal.SIGINT, threads=1) == {"sum": 0}
