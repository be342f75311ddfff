"""Chance without hidden state: a draw is a function of a seed, of what it is drawn for, and of its number.

    number i of key k     mix(k + i * gamma), the splitmix64 generator (Steele, Lea and Flood, "Fast Splittable
                          Pseudorandom Number Generators", OOPSLA 2014)

So what is drawn for one question does not depend on which other questions are asked beside it, nor in which order:
scores come out the same in any batches, and an event at or after the question cannot shift the draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A loop compiled by numba on first use and kept on disk."""
    return nb.njit(nogil=True, cache=True, error_model="numpy")(function)


def seed_key(seed: int) -> np.uint64:
    """The key of a seed, any integer."""
    return np.uint64(seed & 0xFFFFFFFFFFFFFFFF)


@compiled
def mixed(word: Any) -> Any:
    """A 64-bit word with every bit depending on every bit of the one given."""
    word = (word ^ (word >> _30)) * _FIRST
    word = (word ^ (word >> _27)) * _SECOND
    return word ^ (word >> _31)


@compiled
def joined(key: Any, word: Any) -> Any:
    """The key of a pair; unlike the keys of (key, other word) and of (word, key)."""
    return mixed((mixed(key + GAMMA) ^ word) + GAMMA)


@compiled
def fraction(key: Any, number: Any) -> Any:
    """Draw `number` of the key, uniform in [0, 1)."""
    return np.float64(mixed(key + np.uint64(number) * GAMMA) >> _11) * (1.0 / 9007199254740992.0)


@compiled
def below(key: Any, number: Any, bound: Any) -> Any:
    """Draw `number` of the key, uniform over 0 .. bound - 1."""
    return min(np.int64(fraction(key, number) * bound), bound - 1)
