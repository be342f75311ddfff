"""What will each user choose next, compared with what everybody chooses? Hits among the first ten.

A made-up shop: users have a favourite genre, which some of them change. Nothing in it is real.
"""

import numpy as np

from tapgnn import TAPGNN
from tapgnn.data.frames import frame_events, frame_schema

USERS, GENRES, ITEMS, EVENTS = 100, 6, 10, 4_000


def shop(seed=0):
    """A table of choices."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, USERS, EVENTS)
    changed = (np.arange(EVENTS) > EVENTS // 2) & (user % 3 == 0)
    favourite = (user + changed) % GENRES
    genre = np.where(rng.random(EVENTS) < 0.85, favourite, rng.integers(0, GENRES, EVENTS))
    item = genre * ITEMS + np.minimum(rng.exponential(2.0, EVENTS).astype(int), ITEMS - 1)
    choices = zip(user.tolist(), item.tolist(), strict=True)
    return [{"user_id": u, "item_id": i, "time": 600.0 * step} for step, (u, i) in enumerate(choices)]


def main():
    rows = shop()
    schema, _ = frame_schema(rows, bipartite=True)
    log, _ = frame_events(rows, schema=schema)
    past, new = log.slice(0, 3_400), log.slice(3_400, len(log))
    model = TAPGNN(epochs=2, width=32, select="mrr").fit(past, schema=schema)

    counts = np.bincount(past.dst)
    popular = set(np.argsort(-counts)[:10].tolist())
    hits = {"tapgnn": 0, "popularity": 0}
    names = log.vocabulary.ids
    for chunk in new.chunks(50):  # what came before is known, as in a running shop
        users = schema.external([names[row] for row in chunk.src])
        for ranked, item in zip(model.rank(users, k=10), chunk.dst.tolist(), strict=True):
            hits["tapgnn"] += schema.external([names[item]])[0] in [name for name, _ in ranked]
            hits["popularity"] += item in popular
        model.observe(chunk)
    for name, count in hits.items():
        print(f"{name}: {count / len(new):.1%} of the choices are among ten suggestions")


if __name__ == "__main__":
    main()
