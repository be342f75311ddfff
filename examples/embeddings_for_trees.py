"""Do representations help the trees that you have already? Gradient boosting with and without them.

SIMULATED payments. The representations of both ends are those just before each payment, so nothing of the future is in
them; the trees learn from payments that the model was not trained on.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score

from tapgnn import TAPGNN
from tapgnn.data.simulation.payment_stream import simulate


def main():
    log = simulate(8_000, accounts=400, merchants=80, days=80, fraud=0.06, seed=5)
    parts = log.slice(0, 3_500), log.slice(3_500, 6_500), log.slice(6_500, len(log))
    model = TAPGNN(epochs=2, width=32).fit(parts[0])

    tables, labels = {"columns": [], "columns + representations": []}, []
    for part in parts[1:]:
        own = np.column_stack([part.columns["amount"].astype(float), part.time % 86_400])
        tables["columns"].append(own)
        tables["columns + representations"].append(np.hstack([own, model.transform(part)]))
        labels.append(part.labels)
        model.observe(part)
    for name, (train, test) in tables.items():
        trees = HistGradientBoostingClassifier(max_iter=100, learning_rate=0.05, random_state=0).fit(train, labels[0])
        score = average_precision_score(labels[1], trees.predict_proba(test)[:, 1])
        print(f"{name}: average precision {score:.3f} (of chance {labels[1].mean():.3f})")


if __name__ == "__main__":
    main()
