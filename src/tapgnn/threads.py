"""Threads: one number for torch, numba, and the pools of BLAS and OpenMP (numpy, scipy, scikit-learn).

On a busy machine several threads that spin are far slower than one, and only the same number gives the same bits.
"""

from __future__ import annotations

from tapgnn.errors import ConfigError

# What a BLAS or OpenMP library reads once, when it is loaded.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def set_threads(count: int) -> None:
    """Give every pool of this process `count` threads; numba has at most as many as it was loaded with.

    OpenMP keeps a number for each thread of a program: call it in every one that multiplies matrices.
    """
    import numba
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    if count < 1:
        raise ConfigError(f"threads must be at least 1, not {count}")
    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    threadpool_limits(limits=count)
    # Last: numba resets the threads of OpenMP, which are torch's.
    torch.set_num_threads(count)
