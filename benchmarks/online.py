"""Online cost against PyTorch Geometric's TGN and a well-made TGAT, in one run, all on one thread, d = 128.

    event_vs_tgn      TGN (memory, last-neighbour loader, graph attention over 10) to score and then absorb one event,
                      over ours with K = 2, the same events
    batch_vs_tgat_2   TGAT (20 latest neighbours, numba sampler, every (node, time) computed once) to score and then
    batch_vs_tgat_3   append a batch of 200 events, over our score and observe with the attention kernel of the paper,
                      two and three layers each
    latency_growth    our time per batch of 200 with 1 million nodes over 10 thousand

Weights are next to untrained: time does not depend on them. The times are medians of jobs that take turns, so that a
slow moment hits both; single events in turns of 25, since a server has its caches to itself. Prints one JSON object as
the last line.
"""

import json
import time

import numpy as np
import torch
from tgn import TGN

from tapgnn import Config, Events, Model, Vocabulary
from tapgnn.baselines.sampled.tgat import TGAT
from tapgnn.threads import set_threads

WIDTH, NODES, WARM, BATCH, ROUNDS = 128, 10_000, 100_000, 200, 15
EVENTS = 1_000


class Ours:
    """A model on a live state."""

    def __init__(self, preset, nodes, layers, **changes):
        vocabulary = Vocabulary(range(nodes))
        config = Config.preset(preset, width=WIDTH, layers=layers, span=float(WARM), unit=1.0, events=WARM, **changes)
        self.model = Model(config, vocabulary).eval()
        self.state = self.model.empty_state()
        self.state.admit(vocabulary)

    def absorb(self, src, dst, when):
        events = Events(src, dst, when, vocabulary=self.model.vocabulary)
        _, self.state = self.model.advance(events, self.state)

    def score_and_absorb(self, src, dst, when):
        """Scores of a batch from what is known before it, then the batch itself."""
        scores = self.model.score(self.state, src, dst, np.full(len(src), when[0]))
        self.absorb(src, dst, when)
        return scores


def stream(seed, size, nodes, start=0):
    """Random events, one a second; a few nodes are busy, most are not."""
    rng = np.random.default_rng(seed)
    ends = (nodes * rng.random((2, size)) ** 3).astype(np.int64)
    return ends[0], ends[1], np.arange(start, start + size, dtype=np.float64)


def batches(src, dst, when, size):
    for start in range(0, len(src), size):
        yield src[start : start + size], dst[start : start + size], when[start : start + size]


def take_turns(jobs, work, turn=1):
    """Median seconds of each job over the pieces of work, `turn` of them in a row."""
    spent = {name: [] for name in jobs}
    work = list(work)
    for start in range(0, len(work), turn):
        for name, job in jobs.items():
            for piece in work[start : start + turn]:
                begin = time.perf_counter()
                job(*piece)
                spent[name].append(time.perf_counter() - begin)
    return {name: float(np.median(seconds[len(seconds) // 5 :])) for name, seconds in spent.items()}


def event_against_tgn():
    """Seconds a single event of ours and of TGN."""
    ours, peer = Ours("adaptive", NODES, layers=2), TGN(NODES, WIDTH)
    peer.forget()
    for part in (peer.memory, peer.attention, peer.head):
        part.eval()
    for piece in batches(*stream(0, WARM, NODES), BATCH):
        ours.absorb(*piece)
        peer.remember(*piece)

    def tgn(src, dst, when):
        peer.rate(src, dst)
        peer.remember(src, dst, when)

    jobs = {"ours": ours.score_and_absorb, "tgn": tgn}
    return take_turns(jobs, batches(*stream(1, EVENTS, NODES, WARM), 1), turn=25)


def batch_against_tgat(layers):
    """Seconds a batch of ours, with the attention kernel, and of TGAT."""
    warm = stream(0, WARM, NODES)
    ours = Ours("paper", NODES, layers, kernel="attention")
    log = Events(*warm, vocabulary=ours.model.vocabulary)
    tgat = TGAT(layers=layers, neighbours=20, width=WIDTH, epochs=1)
    with torch.enable_grad():
        tgat.fit(log.slice(0, 400), log.slice(400, 600))
    tgat.observe(log.slice(400, WARM))
    for piece in batches(*warm, BATCH):
        ours.absorb(*piece)

    def peer(src, dst, when):
        tgat.score(src, dst, np.full(len(src), when[0]))
        tgat.observe(Events(src, dst, when, vocabulary=ours.model.vocabulary))

    work = batches(*stream(1, ROUNDS * BATCH, NODES, WARM), BATCH)
    return take_turns({"ours": ours.score_and_absorb, "tgat": peer}, work)


def growth():
    """Seconds a batch of the default preset with few and with many nodes; the batches touch as many."""
    jobs = {}
    for name, nodes in (("few", NODES), ("many", 100 * NODES)):
        ours = Ours("adaptive", nodes, layers=2)
        spread = nodes // NODES

        def job(src, dst, when, ours=ours, spread=spread):
            ours.score_and_absorb(src * spread, dst * spread, when)

        for piece in batches(*stream(0, WARM, NODES), BATCH):
            ours.absorb(piece[0] * spread, piece[1] * spread, piece[2])
        jobs[name] = job
    return take_turns(jobs, batches(*stream(1, 40 * BATCH, NODES, WARM), BATCH))


@torch.no_grad()
def main():
    set_threads(1)
    torch.manual_seed(0)
    event = event_against_tgn()
    two, three = batch_against_tgat(2), batch_against_tgat(3)
    size = growth()
    print(
        json.dumps(
            {
                "event_vs_tgn": round(event["tgn"] / event["ours"], 1),
                "batch_vs_tgat_2": round(two["tgat"] / two["ours"], 1),
                "batch_vs_tgat_3": round(three["tgat"] / three["ours"], 1),
                "latency_growth": round(size["many"] / size["few"], 3),
                "milliseconds": {
                    "event": {name: round(1e3 * value, 3) for name, value in event.items()},
                    "batch_2": {name: round(1e3 * value, 2) for name, value in two.items()},
                    "batch_3": {name: round(1e3 * value, 2) for name, value in three.items()},
                    "growth": {name: round(1e3 * value, 2) for name, value in size.items()},
                },
                "width": WIDTH,
                "batch": BATCH,
                "nodes": NODES,
                "threads": 1,
            }
        )
    )


if __name__ == "__main__":
    main()
