"""Score events as they arrive, lose the process, and go on without losing or repeating one.

SIMULATED payments. The engine ends half-way, and a sender that lost count sends some payments again.
"""

import tempfile
from pathlib import Path

from tapgnn import TAPGNN
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.online import Engine


def main():
    log = simulate(2_500, accounts=200, merchants=50, days=40, seed=4)
    past, new = log.slice(0, 2_000), log.slice(2_000, len(log))
    names = log.vocabulary.ids
    columns = {name: column.tolist() for name, column in new.columns.items()}
    payments = [
        {"src": names[u], "dst": names[v], "time": t, **{name: column[row] for name, column in columns.items()}}
        for row, (u, v, t) in enumerate(zip(new.src, new.dst, new.time.tolist(), strict=True))
    ]
    with tempfile.TemporaryDirectory() as folder:
        model, journal = Path(folder) / "model", str(Path(folder) / "state.db")
        TAPGNN(epochs=1, width=32).fit(past).save(model)

        first = {}
        with Engine.open(model, journal) as engine:
            for number in range(0, 60):
                scores, _ = engine.score_then_observe([payments[number]], producer="till", sequence=number)
                first[number] = float(scores[0])
        # The sender does not know which of the last ten arrived, so it sends them again.
        with Engine.open(model, journal) as engine:
            for number in range(50, len(payments)):
                scores, receipt = engine.score_then_observe([payments[number]], producer="till", sequence=number)
                if receipt.duplicate and float(scores[0]) != first[number]:
                    raise SystemExit(f"payment {number} was given another score the second time")
            print(f"{engine.status()['position']:,} records; every payment once, and the same answer the second time")
            print("likeliest payees of", payments[0]["src"], engine.rank(payments[0]["src"], k=3))


if __name__ == "__main__":
    main()
