"""Logs and models for the tests of the protocols of the boards."""

from __future__ import annotations

import numpy as np

from tapgnn import TAPGNN
from tapgnn.events import Events


def integer_log(seed: int, size: int = 300) -> Events:
    """Sources 0 to 29 and destinations 30 to 49, with ties, repeats, and one source at one time with several."""
    rng = np.random.default_rng(seed)
    src = (rng.random(size) ** 2 * 30).astype(np.int64)
    dst = 30 + np.where(rng.random(size) < 0.6, src % 20, rng.integers(20, size=size))
    src[1::9], time = src[:-1:9][: len(src[1::9])], np.sort(rng.integers(2 * size // 3, size=size)).astype(float)
    time[1::9] = time[:-1:9][: len(time[1::9])]
    return Events.from_arrays(src, dst, np.sort(time))


def small_model() -> TAPGNN:
    """A model that is trained in a moment."""
    return TAPGNN(width=8, epochs=1, options={"sketch_width": 8})
