"""What a second thread brings, at the default width, without gradients and with them.

    advance      events per second of `advance` in chunks of 4,096 with two threads, over those with one
    train        the same of training, in chunks of 4,096
    train_small  the same in chunks of 512, the default

A random stream over 10,000 nodes, some of them busy. One thread and two take turns, and medians are compared; both must
give the same bits. Prints one JSON object as the last line.
"""

import argparse
import json
import time

import numpy as np
import torch

from tapgnn import Config, Events, Model, Vocabulary
from tapgnn.threads import set_threads
from tapgnn.training.link_prediction import LinkTraining, Settings

NODES, LARGE, SMALL, THREADS = 10_000, 4_096, 512, (1, 2)


def stream(size):
    """Random events, one a second."""
    rng = np.random.default_rng(0)
    src, dst = (NODES * rng.random((2, size)) ** 3).astype(np.int64)
    return Events(src, dst, np.arange(size, dtype=np.float64), vocabulary=Vocabulary(range(NODES)))


def new_model(log):
    torch.manual_seed(0)
    return Model(Config.preset("adaptive").fitted_to(log), log.vocabulary)


@torch.no_grad()
def advance(log, chunk):
    """Events per second, and what was computed."""
    model = new_model(log).eval()
    state, start = model.empty_state(), time.perf_counter()
    for piece in log.chunks(chunk):
        trace, state = model.advance(piece, state)
    return len(log) / (time.perf_counter() - start), trace.embedding


def train(log, chunk):
    """Events per second of one epoch, and what was learned."""
    model = new_model(log)
    run = LinkTraining(model, log, log.slice(0, 0), Settings(epochs=1, validations=1, chunk=chunk))
    return run.run().events_per_s, model.head.of_pair


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=80_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    log = stream(options.events)
    jobs = {"advance": (advance, LARGE), "train": (train, LARGE), "train_small": (train, SMALL)}
    rates = {name: {threads: [] for threads in THREADS} for name in jobs}
    same = True
    for name, (job, chunk) in jobs.items():
        # The first round compiles.
        for turn in range(1 + options.rounds):
            found = []
            for threads in THREADS:
                set_threads(threads)
                speed, numbers = job(log, chunk)
                found.append(numbers)
                rates[name][threads] += [speed] if turn else []
            same &= torch.equal(*found)
    median = {name: {threads: np.median(found) for threads, found in each.items()} for name, each in rates.items()}
    print(
        json.dumps(
            {
                **{name: round(each[2] / each[1], 2) for name, each in median.items()},
                "same_bits": bool(same),
                "events_per_s": {name: [round(each[1]), round(each[2])] for name, each in median.items()},
                "all_rates": {
                    name: {threads: [round(speed) for speed in found] for threads, found in each.items()}
                    for name, each in rates.items()
                },
                "events": options.events,
                "nodes": NODES,
                "chunks": [LARGE, SMALL],
                "width": Config().width,
            }
        )
    )


if __name__ == "__main__":
    main()
