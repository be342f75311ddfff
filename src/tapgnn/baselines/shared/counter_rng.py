"""Counter-based random numbers: a draw is a function of a key and a counter, without hidden state.

    draw i of key k     mix(k + i * gamma), the splitmix64 generator (Steele, Lea and Flood, "Fast Splittable
                        Pseudorandom Number Generators", OOPSLA 2014)

So what is drawn for one query does not depend on which other queries are in the call, nor on their order: scores are
the same in any batches, and an event at or after the query cannot shift the draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapgnn.compiled.jit import compile_loop

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def seed_key(seed: int) -> np.uint64:
    """The key of a seed, any integer."""
    return np.uint64(seed & 0xFFFFFFFFFFFFFFFF)


@compile_loop
def mix(word: Any) -> Any:
    """A 64-bit word with every bit depending on every bit of the input."""
    word = (word ^ (word >> _30)) * _FIRST
    word = (word ^ (word >> _27)) * _SECOND
    return word ^ (word >> _31)


@compile_loop
def combine(key: Any, word: Any) -> Any:
    """The key of an ordered pair."""
    return mix((mix(key + GAMMA) ^ word) + GAMMA)


@compile_loop
def uniform(key: Any, counter: Any) -> Any:
    """A draw from [0, 1)."""
    return np.float64(mix(key + np.uint64(counter) * GAMMA) >> _11) * (1.0 / 9007199254740992.0)


@compile_loop
def random_below(key: Any, counter: Any, bound: Any) -> Any:
    """A draw from 0 .. bound - 1."""
    return min(np.int64(uniform(key, counter) * bound), bound - 1)
