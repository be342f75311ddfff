"""Subprocess run: call a function in a new process, with its own memory and a given number of threads.

There is always a result: an error of the library gives its message, any other one also prints its traceback, and a
process that dies gives its exit code. Ctrl-C reaches only the caller, which then ends the process; with a caller that
is killed its processes end, too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from tapgnn.errors import TapgnnError
from tapgnn.threads import VARIABLES, set_threads

Result = dict[str, Any]


class SubprocessRun:
    """A function at work in a new process; `receiver` is ready as soon as `result` does not have to wait.

    `preload` names the module that the fork server of this process imports.
    """

    def __init__(self, function: Callable[..., Result], *args: Any, threads: int, preload: str = __name__) -> None:
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context: Any = multiprocessing.get_context(method)
        if method == "forkserver":
            # The server imports the library once and runs nothing, so that children start fast and without threads.
            context.set_forkserver_preload([preload])
        # The fork server has the environment of its own start. A library that is loaded later, when a method is first
        # built, reads its number of threads from there.
        environment = {**os.environ, **dict.fromkeys(VARIABLES, str(threads))}
        self.receiver, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=_child, args=(sender, function, args, environment), daemon=True)
        self.process.start()
        sender.close()

    def result(self) -> Result:
        """What the function returns, or {"error": message}."""
        try:
            result: Result = self.receiver.recv()
        except EOFError:
            self.process.join()
            result = {"error": f"its process ended without a result, {_describe_exit(self.process.exitcode)}"}
        return result

    def end(self) -> None:
        """End the process, finished or not."""
        self.receiver.close()
        self.process.terminate()
        self.process.join()
        self.process.close()


def _child(
    sender: Connection, function: Callable[..., Result], args: tuple[Any, ...], environment: dict[str, str]
) -> None:
    """Call the function and send what it returns, or the error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_caller, daemon=True).start()
    if "fork" in multiprocessing.get_all_start_methods():
        # With 'fork', numba's lock is not a named semaphore, which would outlive a killed process.
        multiprocessing.set_start_method("fork", force=True)
    try:
        os.environ.update(environment)
        set_threads(int(environment[VARIABLES[0]]))
        result = function(*args)
    except TapgnnError as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    except Exception as error:
        traceback.print_exc()
        result = {"error": f"{type(error).__name__}: {error} (an internal error; its traceback was printed)"}
    sender.send(result)
    sender.close()


def _end_with_caller() -> None:
    """Wait until the caller is gone, however it ended, and end this process."""
    caller = multiprocessing.parent_process()
    if caller is not None:
        caller.join()
        os._exit(1)


def peak_mb() -> float:
    """The peak resident size of this process in MB; NaN where the system does not report it."""
    if sys.platform == "win32":
        return float("nan")
    import resource

    unit = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _describe_exit(code: int) -> str:
    """How a process ended, by its exit code.

    >>> _describe_exit(3), _describe_exit(-9)
    ('exit code 3', 'killed by SIGKILL; it may have run out of memory')
    """
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"killed by {name}" + ("; it may have run out of memory" if name == "SIGKILL" else "")
