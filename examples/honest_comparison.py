"""Is a temporal graph network better than a rule of one line, on this log? Two seeds, one table.

python examples/honest_comparison.py [EVENTS]     # a file or a public data set; without one: SIMULATED payments
"""

import sys

from tapgnn import TAPGNN
from tapgnn.data import find_dataset, load_dataset, read_events
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.evaluation import evaluate

RULES = ("recency", "popularity", "edgebank", "pair-recency", "local-global")


def main():
    given = sys.argv[1:]
    if not given:
        log = simulate(2_500, accounts=200, merchants=50, days=40, seed=6)
    else:
        log = load_dataset(given[0]) if find_dataset(given[0]) else read_events(given[0])
    found = evaluate(log, TAPGNN(epochs=2, width=32), protocol="strict", seeds=2).results
    rows = {"tapgnn": found, **{name: found["baselines"][name] for name in RULES}}
    print(f"{'':14}{'random':>9}{'historical':>12}{'MRR':>8}")
    for name, of in rows.items():
        print(f"{name:14}{of['auc_mean']:9.4f}{of['historical_auc_mean']:12.4f}{of['mrr_mean']:8.4f}")
    best = max(RULES, key=lambda name: found["baselines"][name]["auc_mean"])
    margin = found["auc_mean"] - found["baselines"][best]["auc_mean"]
    print(f"AUC {margin:+.4f} against the best rule, {best}: {'worth it' if margin > 0.01 else 'use the rule'}")


if __name__ == "__main__":
    main()
