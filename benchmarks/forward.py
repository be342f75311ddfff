"""`advance` in chunks without gradients (K = 2, d = 128): events per second, and whether cost or memory grow.

Three logs of 10 thousand, 100 thousand and 1 million events over the same 10,000 nodes, each in a process of its own so
that peak memory is its own. Prints one JSON object as the last line.
"""

import json
import resource
import subprocess
import sys
import time

SIZES = (10_000, 100_000, 1_000_000)
NODES, CHUNK, THREADS, ROUNDS = 10_000, 1_024, 2, 3


def stream(size, vocabulary, seed):
    """Chunks of a random stream, made one after the other so that the log itself takes no memory."""
    import numpy as np

    from tapgnn import Events

    rng = np.random.default_rng(seed)
    for start in range(0, size, CHUNK):
        count = min(CHUNK, size - start)
        nodes = rng.zipf(1.6, (2, 2 * count))
        src, dst = (row[row <= NODES][:count] - 1 for row in nodes)
        time = np.arange(start, start + count, dtype=float)
        yield Events(src, dst, time, vocabulary=vocabulary)


def measure(size):
    """Seconds per event and peak memory in MB of one log."""
    import torch

    from tapgnn import Config, Model, Vocabulary
    from tapgnn.threads import set_threads

    set_threads(THREADS)
    vocabulary = Vocabulary(range(NODES))
    model = Model(Config(width=128, span=float(size), unit=1.0), vocabulary).eval()
    seconds = float("inf")
    with torch.no_grad():
        # Every size first runs the same warm-up; a short log is repeated, so that its time is as well measured.
        for repeat in range(-1, max(1, min(ROUNDS, 300_000 // size))):
            state, spent = model.empty_state(), 0.0
            for chunk in stream(size if repeat >= 0 else 5 * CHUNK, vocabulary, repeat + 1):
                start = time.perf_counter()
                _, state = model.advance(chunk, state)
                spent += time.perf_counter() - start
            if repeat >= 0:
                seconds = min(seconds, spent / state.events)
    return {"seconds": seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main():
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]))))
        return
    found = []
    for size in SIZES:
        run = subprocess.run([sys.executable, __file__, str(size)], capture_output=True, text=True, check=True)
        found.append(json.loads(run.stdout.splitlines()[-1]))
    print(
        json.dumps(
            {
                "events_per_s": [round(1 / each["seconds"]) for each in found],
                "time_growth": round(found[2]["seconds"] / found[0]["seconds"], 3),
                "memory_growth": round(found[2]["peak"] / found[1]["peak"], 3),
                "peak_mb": [round(each["peak"]) for each in found],
                "events": SIZES,
                "nodes": NODES,
                "chunk": CHUNK,
                "threads": THREADS,
            }
        )
    )


if __name__ == "__main__":
    main()
