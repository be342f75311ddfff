"""The segmented scan against a plain copy and against `torch.cumsum`, forward and backward, in one run.

300,000 temporal nodes, d = 128, float32, two threads for everything. Prints one JSON object as the last line.

Fresh pages are what a first allocation of this size mostly pays for, so the process keeps its pages, and asks for huge
ones (glibc's malloc settings, set below before anything is loaded): all jobs write to the same kind of warm memory.
"""

import json
import os
import sys
import time

KEEP_PAGES = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
if any(os.environ.get(name) != value for name, value in KEEP_PAGES.items()):
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP_PAGES})

import numpy as np  # noqa: E402
import torch  # noqa: E402

from tapgnn.compiled.scan_ops import scan_sum  # noqa: E402
from tapgnn.threads import set_threads  # noqa: E402

ROWS, WIDTH, THREADS, ROUNDS = 300_000, 128, 2, 25


def chains(rng):
    """Offsets of chains with geometric lengths, ten rows on average."""
    lengths = rng.geometric(0.1, ROWS)
    ends = np.cumsum(lengths)
    return torch.tensor([0, *ends[ends < ROWS], ROWS])


def interleaved(jobs):
    """Best time of each job, in milliseconds, the jobs taking turns so that a slow moment hits all of them."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            best[name] = min(best[name], time.perf_counter() - start)
    return {name: 1e3 * seconds for name, seconds in best.items()}


def main():
    set_threads(THREADS)
    torch.set_num_threads(THREADS)
    rng = np.random.default_rng(0)
    chain = chains(rng)
    value = torch.randn(ROWS, WIDTH)
    grad = torch.randn(ROWS, WIDTH)
    decay = torch.rand(ROWS, 8, dtype=torch.float64)
    initial = torch.zeros(len(chain) - 1, WIDTH, dtype=torch.float64)
    leaf = value.clone().requires_grad_()
    scanned = scan_sum(leaf, None, initial, chain)[0]
    summed = torch.cumsum(leaf, 0)

    times = interleaved(
        {
            "copy": value.clone,
            "scan": lambda: scan_sum(value, None, initial, chain),
            "scan_decayed": lambda: scan_sum(value, decay, initial, chain),
            "cumsum": lambda: torch.cumsum(value, 0),
            "scan_backward": lambda: torch.autograd.grad(scanned, leaf, grad, retain_graph=True),
            "cumsum_backward": lambda: torch.autograd.grad(summed, leaf, grad, retain_graph=True),
        }
    )
    print(
        json.dumps(
            {
                "scan_vs_copy": round(times["scan"] / times["copy"], 3),
                "cumsum_vs_scan": round(times["cumsum"] / times["scan"], 1),
                "scan_backward_vs_copy": round(times["scan_backward"] / times["copy"], 3),
                "cumsum_backward_vs_scan_backward": round(times["cumsum_backward"] / times["scan_backward"], 1),
                "scan_decayed_vs_copy": round(times["scan_decayed"] / times["copy"], 3),
                "milliseconds": {name: round(value, 2) for name, value in times.items()},
                "rows": ROWS,
                "width": WIDTH,
                "chains": len(chain) - 1,
                "threads": THREADS,
            }
        )
    )


if __name__ == "__main__":
    main()
