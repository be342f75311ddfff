"""Which payments of the last days should a person look at? A model of the past, and a budget of alerts.

python examples/fraud_alerts.py [EVENTS.csv]     # without a file: SIMULATED payments
"""

import sys

import numpy as np

from tapgnn import TAPGNN
from tapgnn.data import read_events
from tapgnn.data.simulation.payment_stream import simulate

BUDGET = 0.02  # the share of payments that can be looked at


def main():
    given = sys.argv[1:]
    log = read_events(given[0]) if given else simulate(5_000, accounts=300, merchants=60, days=60, fraud=0.04, seed=2)
    border = int(np.searchsorted(log.time, log.time[int(0.85 * len(log))]))
    past, new = log.slice(0, border), log.slice(border, len(log))

    model = TAPGNN(epochs=2, width=32).fit(past)
    learned = model.fit_classifier(past)
    print(f"on the end of the past: AUC {learned.test_auc:.3f}")

    risk = model.classify(new)
    alerts = np.argsort(-risk)[: max(1, round(BUDGET * len(new)))]
    names = log.vocabulary.ids
    for row in alerts[:5]:
        print(f"{names[new.src[row]]} -> {names[new.dst[row]]} at {new.time[row]:.0f}: risk {risk[row]:.3f}")
    found, all_of_them = int(new.labels[alerts].sum()), int((new.labels == 1).sum())
    print(f"{len(alerts)} alerts for {len(new)} payments: {found} of {all_of_them} fraudulent ones are among them")


if __name__ == "__main__":
    main()
