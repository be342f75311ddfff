"""What each piece of compiled code that numba has no word for is worth: the speed without it over the speed with it.

    event    scoring and then absorbing one event, d = 64, K = 2
    chunk    `advance` over 4,096 events

of the default preset with 100,000 nodes, whose state does not fit into a cache, on one thread. Each of `fetch`,
`new_line` and `spread` is replaced by plain numba in a process of its own, with a cache of its own; the processes take
turns, and medians are compared: 1.10 says that without it everything takes 10 % longer. `row_at` makes an array of an
address, which plain numba cannot do. Prints one JSON object as the last line.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from statistics import median

PIECES = ("fetch", "new_line", "spread")
NODES, WARM, EVENTS, CHUNK, ROUNDS = 100_000, 200_000, 400, 4_096, 25


def replace(name):
    """Put plain numba in the place of a piece, before anything that uses it is loaded."""
    import numpy as np

    from tapgnn.compiled import numba_intrinsics
    from tapgnn.compiled.jit import fast

    def fetch(table, row):
        pass

    def new_line(width, like):
        return np.empty(width, like.dtype)

    def spread(borders, by_group, by_channel):
        for g in range(len(borders) - 1):
            for j in range(borders[g], borders[g + 1]):
                by_channel[j] = by_group[g]

    setattr(numba_intrinsics, name, fast({"fetch": fetch, "new_line": new_line, "spread": spread}[name]))


def work(name):
    """Measure a round whenever a line comes in."""
    if name in PIECES:
        replace(name)
    import numpy as np
    import torch

    from tapgnn import Config, Events, Model, Vocabulary
    from tapgnn.threads import set_threads

    set_threads(1)
    torch.manual_seed(0)
    vocabulary = Vocabulary(range(NODES))
    model = Model(Config(width=64, span=float(WARM), unit=1.0, events=WARM), vocabulary).eval()
    state, rng = model.empty_state(), np.random.default_rng(0)
    state.admit(vocabulary)
    clock = 0.0

    def draw(size):
        nonlocal clock
        src, dst = rng.integers(0, NODES, (2, size))
        times, clock = np.arange(clock, clock + size), clock + size
        return Events(src, dst, times, vocabulary=vocabulary)

    def seconds_of_events(size):
        nonlocal state
        events = [draw(1) for _ in range(size)]
        start = time.perf_counter()
        for event in events:
            model.score(state, event.src, event.dst, event.time)
            _, state = model.advance(event, state)
        return (time.perf_counter() - start) / size

    def seconds_of_chunk():
        nonlocal state
        chunk = draw(CHUNK)
        start = time.perf_counter()
        _, state = model.advance(chunk, state)
        return (time.perf_counter() - start) / CHUNK

    with torch.no_grad():
        for _ in range(WARM // CHUNK):
            seconds_of_chunk()
        seconds_of_events(EVENTS)
        print("ready", flush=True)
        for _ in sys.stdin:
            print(json.dumps({"event": seconds_of_events(EVENTS), "chunk": seconds_of_chunk()}), flush=True)


def main():
    if len(sys.argv) > 1:
        work(sys.argv[1])
        return
    names = ("as it is", *PIECES)
    with tempfile.TemporaryDirectory() as folder:
        processes = {
            name: subprocess.Popen(
                [sys.executable, __file__, name],
                env={**os.environ, "NUMBA_CACHE_DIR": os.path.join(folder, name)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in names
        }
        for process in processes.values():
            process.stdout.readline()
        found = {name: [] for name in names}
        for _ in range(ROUNDS):
            for name, process in processes.items():
                process.stdin.write("\n")
                process.stdin.flush()
                found[name].append(json.loads(process.stdout.readline()))
        for process in processes.values():
            process.stdin.close()
            process.wait()
    microseconds = {
        name: {kind: round(1e6 * median(each[kind] for each in rounds), 3) for kind in ("event", "chunk")}
        for name, rounds in found.items()
    }
    own = microseconds["as it is"]
    gains = {name: {kind: round(microseconds[name][kind] / own[kind], 3) for kind in own} for name in PIECES}
    print(json.dumps({"time_without_over_with": gains, "microseconds_an_event": microseconds, "nodes": NODES}))


if __name__ == "__main__":
    main()
