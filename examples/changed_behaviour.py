"""Which accounts behave otherwise than a month ago? The distance between two representations of the same account.

SIMULATED payments. Representations can be had for any time of a log that the model has observed.
"""

import numpy as np

from tapgnn import TAPGNN
from tapgnn.data.simulation.payment_stream import simulate


def main():
    log = simulate(5_000, accounts=250, merchants=60, days=90, seed=7)
    model = TAPGNN(epochs=2, width=32).fit(log)

    end = float(log.time[-1])
    month = 30 * 86_400.0
    busy = np.flatnonzero(np.bincount(log.src, minlength=len(log.vocabulary)) >= 15)
    names = [log.vocabulary.ids[row] for row in busy]
    before = model.embed(names, np.full(len(names), end - month))
    now = model.embed(names)
    distance = 1.0 - (before * now).sum(axis=1) / (np.linalg.norm(before, axis=1) * np.linalg.norm(now, axis=1))
    for place in np.argsort(-distance)[:5]:
        payments = log.take(log.src == busy[place])
        late = payments.time > end - month
        partners = [set(payments.dst[~late].tolist()), set(payments.dst[late].tolist())]
        new = len(partners[1] - partners[0])
        print(f"{names[place]}: distance {distance[place]:.3f}, {late.sum()} payments since, {new} to new partners")


if __name__ == "__main__":
    main()
