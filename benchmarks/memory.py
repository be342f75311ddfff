"""Peak memory of training on 10 million simulated events from a Parquet file (N = 100,000, d = 64), and bytes a node.

The stream is simulated into a Parquet file by one process and trained on by another, whose peak is reported.

    bytes_per_node       a row of the state of the default preset, and the id in the vocabulary (a text of ten letters)
    bytes_by_part        the same by arena

Prints one JSON object as the last line.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path


def train(path, steps):
    """Read the file and train for one epoch, or for so many chunks of it."""
    from tapgnn import Config, Model
    from tapgnn.data import read_events
    from tapgnn.data.splits import split_strict
    from tapgnn.threads import set_threads
    from tapgnn.training.link_prediction import LinkTraining, Settings

    set_threads(1)
    start = time.perf_counter()
    events = read_events(path)
    read, read_peak = time.perf_counter() - start, peak_gb()
    split = split_strict(events)
    model = Model(Config.preset("adaptive", width=64).fitted_to(split.train), events.vocabulary)
    run = LinkTraining(model, split.train, split.valid, Settings(epochs=1, validations=1, chunk=4_096))

    def stop(progress):
        if steps and progress.done >= steps * 4_096:
            raise KeyboardInterrupt

    history = run.run(listener=stop)
    peak, parts = peak_gb(), node_bytes()
    return {
        "peak_gb": peak,
        "bytes_per_node": sum(parts.values()),
        "bytes_by_part": parts,
        "read_peak_gb": read_peak,
        "events": len(events),
        "nodes": len(events.vocabulary),
        "timed_events": history.events,
        "read_s": round(read, 1),
        "train_events_per_s": round(history.events_per_s),
        "validated": bool(history.points),
    }


def node_bytes(nodes=100_000):
    """Bytes that a node takes in each arena of a state, and in the vocabulary."""
    from tapgnn import Config, Model, Vocabulary
    from tapgnn.model.state import ARENAS

    tracemalloc.start()
    vocabulary = Vocabulary(f"no-{node:07}" for node in range(nodes))
    vocabulary.hashes()
    ids, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    state = Model(Config.preset("adaptive", node_vectors=False), vocabulary).empty_state()
    rows = {name: getattr(state, name) for name in ARENAS}
    return {name: row.shape[1] * row.itemsize for name, row in rows.items()} | {"vocabulary": round(ids / nodes)}


def peak_gb():
    """The largest memory that this process has held so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2, 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--chunks", type=int, default=0, help="stop after so many chunks; 0 trains a whole epoch")
    parser.add_argument("--file", default="")
    options = parser.parse_args()
    if options.file:
        print(json.dumps(train(options.file, options.chunks)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "payments.parquet")
        sizes = ["--events", str(options.events), "--accounts", "90000", "--merchants", "10000", "--days", "365"]
        tapgnn = Path(sys.executable).with_name("tapgnn")
        subprocess.run([str(tapgnn), "simulate", str(path), *sizes], check=True, stdout=sys.stderr)
        again = [sys.executable, __file__, "--file", str(path), "--chunks", str(options.chunks)]
        print(subprocess.run(again, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
