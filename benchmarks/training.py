"""Training speed and quality against PyTorch Geometric's TGN, and speed against the published scheme, in one run.

One thread for everything. Stream: Wikipedia's 157,474 events without features (the file in TAPGNN_DATA), d = 100.

    vs_tgn               training events/s of the default preset over those of TGN as in PyTorch Geometric's example
                         (memory, graph attention, 10 neighbours, batches of 200), in chunks of 4,096 events
    vs_tgn_small_chunks  the same in chunks of 512, the library's default, which suits small logs better
    vs_published_scheme  over a full forward and backward pass of the whole log for every 256 events (fb-forum)
    auc_tapgnn, auc_tgn  validation AUC after the same number of epochs

The methods take turns, TAP-GNN before and after TGN in every round, and medians are compared: the load of a shared
machine changes from one minute to the next.

Prints one JSON object as the last line.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from tgn import TGN

from tapgnn import Config, Model
from tapgnn.data import load_dataset
from tapgnn.data.negatives import NegativeSampler
from tapgnn.data.splits import split_strict
from tapgnn.evaluation.metrics import auc
from tapgnn.threads import set_threads
from tapgnn.training.link_loss import ask_links, link_loss
from tapgnn.training.link_prediction import LinkTraining, Settings, make_optimizers
from tapgnn.training.negative_mixture import NegativeMixture

WIDTH = 100


def train_tapgnn(split, epochs, chunk):
    """Training events per second, and validation AUC after the last epoch."""
    torch.manual_seed(0)
    model = Model(Config.preset("adaptive", width=WIDTH).fitted_to(split.train), split.train.vocabulary)
    settings = Settings(epochs=epochs, patience=epochs, validations=1, select="auc", chunk=chunk)
    history = LinkTraining(model, split.train, split.valid, settings).run()
    return history.events_per_s, history.points[-1]["validation"]


def train_tgn(split, epochs):
    """The same for TGN; its validation events are scored and then remembered batch by batch."""
    torch.manual_seed(0)
    sampler = NegativeSampler(split.train)
    rng = np.random.default_rng(0)
    method = TGN(len(split.train.vocabulary), WIDTH)
    spent = 0.0
    for _ in range(epochs):
        method.forget()
        start = time.perf_counter()
        for batch in batches(split.train):
            method.learn(*batch, sampler.draw(batch[0], batch[1], rng)[:, 0])
        spent += time.perf_counter() - start
    drawn = np.random.default_rng([0, 1])
    positive, negative = [], []
    for src, dst, when in batches(split.valid):
        left, right = method.score(src, dst, sampler.draw(src, dst, drawn)[:, 0])
        positive.append(left)
        negative.append(right)
        method.remember(src, dst, when)
    scores = np.concatenate([*positive, *negative])
    labels = np.repeat([1, 0], len(split.valid))
    return epochs * len(split.train) / spent, auc(labels, scores)


def batches(events, size=200):
    for start in range(0, len(events), size):
        rows = slice(start, start + size)
        yield events.src[rows], events.dst[rows], events.time[rows]


def published_scheme(train, steps):
    """Events per second when every 256 events cost a forward and backward pass over the whole log."""
    torch.manual_seed(0)
    model = Model(Config.preset("paper", width=WIDTH).fitted_to(train), train.vocabulary).train()
    negatives, rng = NegativeMixture(train, NegativeSampler(train), 1, 0.0, 0.0), np.random.default_rng(0)
    _, optimizers = make_optimizers(model, Settings())
    batch = [train.slice(a, b) for a, b in borders(train, 256)][:steps]
    start = time.perf_counter()
    for piece in batch:
        trace, _ = model.advance(train, model.empty_state())
        queries = ask_links(model, trace, piece, negatives.draw(0, piece, rng))
        loss = link_loss(model, trace, queries, 0.0)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    return sum(len(piece) for piece in batch) / (time.perf_counter() - start)


def borders(events, size):
    stops = np.cumsum([len(piece) for piece in events.chunks(size)])
    return list(zip([0, *stops[:-1]], stops, strict=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunk", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data", default=os.environ.get("TAPGNN_DATA", ""))
    options = parser.parse_args()
    if not Path(options.data, "wikipedia-nofeatures.csv").is_file():
        raise SystemExit("set TAPGNN_DATA to the folder with the data sets")
    set_threads(options.threads)
    split = split_strict(load_dataset("wikipedia"))
    forum = split_strict(load_dataset("fb-forum"))
    train_tapgnn(forum, 1, options.chunk)  # compiles the loops
    names = ("tapgnn", "tapgnn_small_chunks", "tgn", "tapgnn_fb_forum", "published_scheme_fb_forum")
    rates = {name: [] for name in names}
    for _ in range(options.rounds):
        rates["tapgnn"].append(train_tapgnn(split, options.epochs, options.chunk)[0])
        speed, their_auc = train_tgn(split, options.epochs)
        rates["tgn"].append(speed)
        speed, our_auc = train_tapgnn(split, options.epochs, options.chunk)
        rates["tapgnn"].append(speed)
        speed, small_auc = train_tapgnn(split, options.epochs, Settings().chunk)
        rates["tapgnn_small_chunks"].append(speed)
        rates["tapgnn_fb_forum"].append(train_tapgnn(forum, 1, options.chunk)[0])
        rates["published_scheme_fb_forum"].append(published_scheme(forum.train, steps=6))
    median = {name: np.median(found) for name, found in rates.items()}
    print(
        json.dumps(
            {
                "vs_tgn": round(median["tapgnn"] / median["tgn"], 1),
                "vs_tgn_small_chunks": round(median["tapgnn_small_chunks"] / median["tgn"], 1),
                "vs_published_scheme": round(median["tapgnn_fb_forum"] / median["published_scheme_fb_forum"], 1),
                "auc_tapgnn": round(our_auc, 4),
                "auc_tapgnn_small_chunks": round(small_auc, 4),
                "auc_tgn": round(their_auc, 4),
                "events_per_s": {name: [round(speed) for speed in found] for name, found in rates.items()},
                "epochs": options.epochs,
                "chunk": options.chunk,
                "width": WIDTH,
                "threads": options.threads,
            }
        )
    )


if __name__ == "__main__":
    main()
