"""How loops are compiled, and when compiled code is still good.

A loop is kept on disk once it is compiled. Pieces from other files are inlined into it, so what is kept is good only as
long as no file with compiled code has changed: its stamp is the hash of all of them.

    @compiled   a loop whose sums keep their order
    @fast       a loop whose sums over a row may take whatever order is fastest
    @program    runs as plain Python, calling compiled loops and the matrix library; inside compiled code it is
                compiled too. One text serves many rows (interpreted) and few (`whole`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any

import numba as nb
from numba.extending import register_jitable

PACKAGE = Path(__file__).parents[1]
# Infinities are kept in all of them: they are the times of what never was.
STRICT, FREE = {"contract", "nsz"}, {"contract", "nsz", "reassoc"}


@cache
def source_stamp(baselines: bool) -> str:
    """The hash of all source files with compiled code; those of the baselines take part only in their own."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        text, name = path.read_bytes(), str(path.relative_to(PACKAGE))
        takes_part = b"tapgnn.compiled" in text or path.parent == Path(__file__).parent
        if takes_part and (baselines or not name.startswith("baselines")):
            digest.update(f"{name}\0".encode() + text + b"\0")
    return digest.hexdigest()


def compile_loop(function: Callable[..., Any], fastmath: Collection[str] = (), **options: Any) -> Callable[..., Any]:
    """Compile a function that may run beside others of its kind; fastmath names what the compiler may do to sums."""
    options |= {"fastmath": set(fastmath), "nogil": True, "cache": True, "error_model": "numpy"}
    dispatcher = nb.njit(**options)(function)
    # numba's own stamp is that of this function's file alone, and lies behind types that may be gone: what was compiled
    # by another version is not read so far. Without a folder to write to there is no cache.
    if (kept := getattr(dispatcher._cache, "_cache_file", None)) is not None:
        kept._version += f" {source_stamp(function.__module__.startswith('tapgnn.baselines'))}"
    return dispatcher  # type: ignore[no-any-return]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop whose sums keep their order.

    Inlined into other compiled code: a shared copy would be compiled anew with each caller, and which of the copies a
    process takes depends on what it loads first. With sums in another order, a seed would not reproduce a run.
    """
    return compile_loop(function, STRICT, inline="always")


def fast(function: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled`, with sums over a row in whatever order is fastest."""
    return compile_loop(function, FREE, inline="always")


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is interpreted where it is called from Python, and compiled where it is called from `whole`."""
    return register_jitable(fastmath=FREE, error_model="numpy")(function)


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """A program compiled with all that it calls: one call instead of many, for few rows."""
    return compile_loop(function, FREE)
