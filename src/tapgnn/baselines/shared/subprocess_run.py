"""Process: a piece of work in a process of its own, with its own memory and the number of threads that it was given.

    run_apart(work, *given, threads)    the dictionary that work(*given) returns, or {"error": what went wrong}

Whatever becomes of the work, there is an answer: an error of the library is its message, any other one also prints its
traceback, and a process that dies is told by its exit code. Ctrl-C reaches the caller alone, which ends the process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from tapgnn.errors import TapgnnError
from tapgnn.threads import VARIABLES, set_threads

Found = dict[str, Any]
Work = Callable[..., Found]


def run_apart(work: Work, *given: Any, threads: int, preload: str = __name__) -> Found:
    """What the work returns, from a new process; `preload` names the module to be loaded before its children start."""
    clean = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context: Any = multiprocessing.get_context(clean)
    if clean == "forkserver":
        # The server loads the library once and runs nothing, so that its children start at once and without threads.
        context.set_forkserver_preload([preload])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=answer, args=(theirs, work, given, threads), daemon=True)
    process.start()
    theirs.close()
    try:
        found: Found = ours.recv()
    except EOFError:
        process.join()
        found = {"error": f"its process ended without a result, {_ending(process.exitcode)}"}
    finally:
        ours.close()
        process.terminate()
        process.join()
        process.close()
    return found


def answer(channel: Connection, work: Work, given: tuple[Any, ...], threads: int) -> None:
    """The child: do the work and send what it returns, or what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "fork" in multiprocessing.get_all_start_methods():
        # It starts no children; but numba's lock then is no named semaphore, which would outlive an ended process.
        multiprocessing.set_start_method("fork", force=True)
    try:
        # A library that is loaded later, when a method is first built, reads its number from the environment.
        os.environ.update(dict.fromkeys(VARIABLES, str(threads)))
        set_threads(threads)
        found = work(*given)
    except TapgnnError as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    except Exception as error:
        traceback.print_exc()
        found = {"error": f"{type(error).__name__}: {error} (an error of the program; its traceback was printed)"}
    channel.send(found)
    channel.close()


def peak_mb() -> float:
    """The largest resident size that this process had so far; not a number where the system does not say."""
    if sys.platform == "win32":
        return float("nan")
    import resource

    unit = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _ending(code: int) -> str:
    """How a process ended, by its exit code.

    >>> _ending(3), _ending(-9)
    ('exit code 3', 'killed by SIGKILL; the memory may have run out')
    """
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"killed by {name}" + ("; the memory may have run out" if name == "SIGKILL" else "")
