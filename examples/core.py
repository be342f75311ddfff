"""The core at work on a small random log: unfolding, one `advance` for any cut, live scores, a saved model.

The log is random and the model untrained: the numbers show that the machinery agrees with itself, not that it predicts.
"""

import tempfile
import time

import numpy as np
import torch

from tapgnn import Config, Events, Model, load_model, save_model
from tapgnn.unfold import message_links, unfold

NODES, EVENTS, SEED = 500, 10_000, 0


def random_log():
    """Random pairs of nodes, a few of them very busy, at random whole seconds, so that many events share an instant."""
    rng = np.random.default_rng(SEED)
    src, dst = (NODES * rng.random((2, EVENTS)) ** 2).astype(int)
    return Events.from_arrays(src, dst, rng.integers(0, 20_000, EVENTS))


def absorb(model, chunks):
    """Embeddings of all temporal nodes, by node and then time, and the state at the end."""
    state, nodes, times, rows = model.empty_state(), [], [], []
    for chunk in chunks:
        trace, state = model.advance(chunk, state)
        nodes.append(trace.view.nodes[trace.view.owner()])
        times.append(trace.view.time)
        rows.append(trace.embedding)
    order = np.lexsort((np.concatenate(times), np.concatenate(nodes)))
    return torch.cat(rows)[torch.from_numpy(order)], state


@torch.no_grad()
def main():
    torch.manual_seed(SEED)
    log = random_log()
    temporal_nodes, links = unfold(log).size, message_links(log)
    print(f"A random log: {len(log):,} events between {len(log.vocabulary)} nodes.\n")
    print("Unfolding")
    print(f"  V^T   {temporal_nodes:>10,} temporal nodes: a node at an instant in which it is active")
    print(f"  O^T   {2 * len(log):>10,} messages, two for each event")
    print(f"  G_MP  {links:>10,} links, {links // len(log)} for each event; never built, `advance` does not need it\n")

    model = Model(Config.preset("adaptive", width=64).fitted_to(log), log.vocabulary).double().eval()
    whole, _ = absorb(model, [log])
    print("The law: however the log is cut, the embeddings are the same (float64)")
    for size in (1_000, 250, 50):
        pieces, live = absorb(model, log.chunks(size))
        print(f"  chunks of {size:>5,} events: largest difference {float((pieces - whole).abs().max()):.1e}")

    later = float(log.time[-1]) + 60.0
    names = [7, 42, 250]
    rows = log.vocabulary.known_rows(names)
    scores = model.score(live, rows, np.roll(rows, 1), later)
    print("\nScores from the live state, one minute after the last event (logits of an untrained model)")
    for name, partner, score in zip(names, np.roll(names, 1), scores, strict=True):
        print(f"  {name:>3} -> {partner:>3}: {score:+.4f}")
    unseen = model.score(live, [-1], rows[:1], later)
    print(f"  a node never seen -> {names[0]:>3}: {float(unseen):+.4f}")

    with tempfile.TemporaryDirectory() as folder:
        digest = save_model(model, folder)
        again = load_model(folder)
    # A state belongs to the weights that made it: the same weights may go on from it.
    same = torch.equal(scores, again.score(live, rows, np.roll(rows, 1), later))
    print(f"\nSaved and loaded, hash {digest[:12]}: the scores are {'the same' if same else 'DIFFERENT'}")

    model.float()
    start = time.perf_counter()
    absorb(model, log.chunks(2_000))
    speed = len(log) / (time.perf_counter() - start)
    print(f"\nSpeed: {speed:,.0f} events/s in chunks of 2,000 (float32, {torch.get_num_threads()} threads)")


if __name__ == "__main__":
    main()
