"""Event classification: is this event, at this moment, of the rare kind?

The log is cut along time, 70 / 15 / 15. The model learns future links from the first part alone, without labels, and
the second part chooses its weights; it is then frozen. A classifier on what is known of an event just before it
happens (facts of its ends and of the pair, how expected the link was, the event's own columns) learns the labels of the
first part, the second chooses what it is given, and the last part is judged. Beside it: trivial rules, and the
gradient-boosted trees of scikit-learn on the event's own columns, and on these and the same plain counts.

    python examples/classification.py wikipedia --seeds 5
    python examples/classification.py simulated --seeds 5 --simulations 3
    python examples/classification.py wikipedia --protocol paper

The first needs the data set (`tapgnn datasets download wikipedia`, or TAPGNN_DATA). Prints one JSON object a seed, then
mean and deviation, with the standard error that follows from the number of rare events in the last part: that of the
AUC by Hanley and McNeil, which is larger than the deviation over seeds, since all seeds are judged on the same events.
"""

import argparse
import json
from dataclasses import asdict

import numpy as np

from tapgnn import TAPGNN
from tapgnn.data import load_dataset
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.data.splits import split_strict
from tapgnn.threads import set_threads
from tapgnn.training.classification_baselines import measure_baselines


def auc_error(auc, labels):
    """The standard error of an AUC (Hanley and McNeil, 1982)."""
    rare, common = int(labels.sum()), int((1 - labels).sum())
    within_rare, within_common = auc / (2 - auc) - auc**2, 2 * auc**2 / (1 + auc) - auc**2
    variance = auc * (1 - auc) + (rare - 1) * within_rare + (common - 1) * within_common
    return float(np.sqrt(variance / (rare * common)))


def classify(log, options, seed, baselines):
    """How a classifier does on the last 15 % of a labelled log, and what it is compared with."""
    split = split_strict(log)
    model = TAPGNN(preset=options.preset, kernel=options.kernel, width=options.width, epochs=options.epochs, seed=seed)
    model.fit(split.train, split.valid)
    found = model.fit_classifier(log, options.protocol)
    result = {
        "seed": seed,
        "link_valid_auc": model.history_.best_auc,
        "valid_auc": found.valid_auc,
        "valid_ap": found.valid_ap,
        "test_auc": found.test_auc,
        "test_ap": found.test_ap,
        "test_auc_error": auc_error(found.test_auc, found.labels),
        "test_log_loss": found.test_log_loss,
        "base_log_loss": found.base_log_loss,
        "expected_positives": float(found.scores.sum()),
        "test_positives": int(found.labels.sum()),
        "test_events": len(found.labels),
        "alerts": [asdict(alert) for alert in found.alerts],
        "calibration_error": found.calibration.error,
        "walks": found.walks,
        "pieces": found.pieces,
        "shift": found.shift,
    }
    if baselines:
        measured = measure_baselines(model.model_, model.table_.encode(log), seed)
        result["baselines"] = {name: asdict(reference) for name, reference in measured.items()}
    return result


def logs(options):
    """Names and logs."""
    if options.log != "simulated":
        yield options.log, load_dataset(options.log)
        return
    for seed in range(options.simulations):
        log = simulate(options.events, accounts=3_000, merchants=300, fraud=options.fraud, seed=seed)
        yield f"simulated {seed}" if options.simulations > 1 else "simulated", log


def summary(name, log, runs):
    """Mean and deviation over seeds."""
    figures = ("valid_auc", "valid_ap", "test_auc", "test_ap", "test_auc_error", "test_log_loss")
    values = {figure: np.array([run[figure] for run in runs]) for figure in figures}
    found = {f"{figure}_mean": float(value.mean()) for figure, value in values.items()}
    if len(runs) > 1:
        found |= {f"{figure}_std": float(value.std(ddof=1)) for figure, value in values.items()}
    for reference, value in runs[0].get("baselines", {}).items():
        found[f"{reference}: test_auc, test_ap"] = [value["test_auc"], value["test_ap"]]
    return {"log": name, "positives": int((log.labels > 0).sum()), **found}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", help="a file or data set with labels, or 'simulated'")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--preset", default="adaptive")
    parser.add_argument("--kernel", default=None)
    parser.add_argument("--width", type=int, default=None)
    parser.add_argument("--protocol", choices=("facts", "paper"), default="facts")
    parser.add_argument("--events", type=int, default=200_000, help="of the simulated log")
    parser.add_argument("--fraud", type=float, default=0.01, help="the share of it; a short log needs more")
    parser.add_argument("--simulations", type=int, default=1, help="simulated logs, each with a seed of its own")
    options = parser.parse_args()
    set_threads(1)
    for name, log in logs(options):
        runs = []
        for seed in range(options.seeds):
            runs.append(classify(log, options, seed, baselines=seed == 0))
            print(json.dumps(runs[-1]), flush=True)
        print(json.dumps(summary(name, log, runs)), flush=True)


if __name__ == "__main__":
    main()
