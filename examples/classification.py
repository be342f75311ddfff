"""Event classification as in the paper: is this event, at this moment, of the rare kind?

The log is cut along time, 70 / 15 / 15. The model learns future links from the first part alone, without labels, and
the second part chooses its weights; it is then frozen. A three-layer MLP on [z(u,t), z(v,t)] (and the event's own
features) learns the labels of the first part, the second chooses its weights, and the last part is judged.

    python examples/classification.py wikipedia --seeds 5
    python examples/classification.py simulated --seeds 5

The first needs the data set (`tapgnn datasets download wikipedia`, or TAPGNN_DATA). Prints one JSON object a seed, then
mean and deviation.
"""

import argparse
import json

import numpy as np

from tapgnn import TAPGNN
from tapgnn.data import load_dataset
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.data.splits import split_strict
from tapgnn.threads import set_threads


def classify(log, options, seed):
    """AUC and average precision on the last 15 % of a labelled log."""
    split = split_strict(log)
    model = TAPGNN(preset=options.preset, kernel=options.kernel, width=options.width, epochs=options.epochs, seed=seed)
    model.fit(split.train, split.valid)
    found = model.fit_classifier(log)
    return {
        "seed": seed,
        "link_valid_auc": model.history_.best_auc,
        "valid_auc": found.valid_auc,
        "test_auc": found.test_auc,
        "test_ap": found.test_ap,
        "test_events": len(found.labels),
        "test_positives": int(found.labels.sum()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", help="a file or data set with labels, or 'simulated'")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--preset", default="adaptive")
    parser.add_argument("--kernel", default=None)
    parser.add_argument("--width", type=int, default=None)
    parser.add_argument("--events", type=int, default=50_000, help="of the simulated log")
    parser.add_argument("--fraud", type=float, default=0.01, help="the share of it; a short log needs more")
    options = parser.parse_args()
    set_threads(1)
    if options.log == "simulated":
        log = simulate(options.events, accounts=3_000, merchants=300, fraud=options.fraud)
    else:
        log = load_dataset(options.log)
    runs = []
    for seed in range(options.seeds):
        runs.append(classify(log, options, seed))
        print(json.dumps(runs[-1]), flush=True)
    figures = {name: np.array([run[name] for run in runs]) for name in ("valid_auc", "test_auc", "test_ap")}
    summary = {f"{name}_mean": float(values.mean()) for name, values in figures.items()}
    if len(runs) > 1:
        summary |= {f"{name}_std": float(values.std(ddof=1)) for name, values in figures.items()}
    print(json.dumps({"log": options.log, "positives": int((log.labels > 0).sum()), **summary}))


if __name__ == "__main__":
    main()
