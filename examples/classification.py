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
mean and deviation, with the standard error of the AUC that follows from the few rare events of the last part (DeLong):
it is larger than the deviation over seeds, since all seeds are judged on the same events.
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


def auc_error(labels, scores):
    """The standard error of an AUC (DeLong and others, 1988)."""
    rare, common = (np.sort(scores[labels == value]) for value in (1, 0))
    below, above = (_share_below(common, rare), _share_below(rare, common))
    return float(np.sqrt(below.var(ddof=1) / len(rare) + above.var(ddof=1) / len(common)))


def _share_below(ordered, values):
    """[n] the share of ascending numbers below each value, equal ones counting half."""
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2 * len(ordered))


def classify(log, options, seed, baselines):
    """How a classifier does on the last 15 % of a labelled log, and what it is compared with."""
    split = split_strict(log)
    model = TAPGNN(preset=options.preset, kernel=options.kernel, width=options.width, epochs=options.epochs, seed=seed)
    model.fit(split.train, split.valid)
    found = model.fit_classifier(log, options.protocol)
    result = {
        "seed": seed,
        "link_validation": model.history_.best,
        **found.metrics(),
        "test_auc_error": auc_error(found.labels, found.scores),
        "expected_positives": float(found.scores.sum()),
        **found.counts,
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
    figures = [name for name, value in runs[0].items() if isinstance(value, float)]
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
