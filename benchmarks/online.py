"""Online cost against PyTorch Geometric's TGN and a well-made TGAT, in one run, all on one thread, d = 128.

    event_us               microseconds to score and then absorb one event with d = 64 and K = 2: without features, with
                           seven features, with these and a classifier that judges the event, too; `table`: with seven
                           numbers and three categories, some of them missing, judged by a classifier; `table_rows`:
                           the same from the columns of a table, which are encoded first
    event_vs_tgn           TGN (memory, last-neighbour loader, graph attention over 10) to score and then absorb one
                           event, over ours with K = 2, the same events
    event_vs_tgn_features  the same with seven features an event, which are TGN's messages
    event_vs_tgn_table     TGN with d = 64 to score and then absorb one event of the table (messages: its numbers and
                           what is missing, its categories one-hot), over `table`, which also judges the event
    batch_vs_tgat_2        TGAT (20 latest neighbours, numba sampler, every (node, time) computed once) to score and
    batch_vs_tgat_3        then append a batch of 200 events, over our score and observe with the attention kernel of
                           the paper, two and three layers each
    latency_growth         our time per batch of 200 with 1 million nodes over 10 thousand

Weights are next to untrained: time does not depend on them. The times are medians of jobs that take turns, so that a
slow moment hits both; single events in turns of 25, since a server has its caches to itself. Prints one JSON object as
the last line.
"""

import json

import numpy as np
import torch
from tgn import TGN

from tapgnn import Config, Events, Model, Vocabulary
from tapgnn.baselines.sampled.tgat import TGAT
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.data.schema import Schema
from tapgnn.experiments.latency import take_turns
from tapgnn.model import FactClassifier
from tapgnn.threads import set_threads

WIDTH, NODES, WARM, BATCH, ROUNDS = 128, 10_000, 100_000, 200, 15
EVENTS, FEATURES, SERVED_WIDTH = 1_000, 7, 64
NUMBERS = [f"number_{place}" for place in range(FEATURES)]
CATEGORIES = ["channel", "currency", "country"]


class Ours:
    """A model on a live state, and a classifier of events where one is asked for."""

    def __init__(self, preset, nodes, layers, width=WIDTH, classifies=False, **changes):
        vocabulary = Vocabulary(range(nodes))
        config = Config.preset(preset, width=width, layers=layers, span=float(WARM), unit=1.0, events=WARM, **changes)
        self.model = Model(config, vocabulary).eval()
        columns = sum(map(len, self.model.description.values()))
        self.classifier = FactClassifier(np.arange(columns)).eval() if classifies else None
        self.state = self.model.empty_state()
        self.state.admit(vocabulary)

    def fit_pieces(self, src, dst, when, features):
        """Fit how the classifier encodes its inputs to what is known of some events."""
        rows = self.model.describe_events(self.state, src, dst, np.full(len(src), when[0]), features)
        self.classifier.fit_pieces(rows.numpy())

    def absorb(self, src, dst, when, features=None):
        events = Events(src, dst, when, features, vocabulary=self.model.vocabulary)
        _, self.state = self.model.advance(events, self.state)

    def score_and_absorb(self, src, dst, when, features=None):
        """Scores of a batch from what is known before it, then the batch itself."""
        times = np.full(len(src), when[0])
        if self.classifier is None:
            scores = self.model.score(self.state, src, dst, times)
        else:
            scores, _ = self.model.score_and_classify(self.state, self.classifier, src, dst, times, features)
        self.absorb(src, dst, when, features)
        return scores


def stream(seed, size, nodes, start=0):
    """Random events, one a second; a few nodes are busy, most are not."""
    rng = np.random.default_rng(seed)
    ends = (nodes * rng.random((2, size)) ** 3).astype(np.int64)
    return ends[0], ends[1], np.arange(start, start + size, dtype=np.float64)


def batches(src, dst, when, size, features=0):
    rows = np.random.default_rng(2).normal(size=(len(src), features)).astype(np.float32)
    for start in range(0, len(src), size):
        piece = slice(start, start + size)
        yield src[piece], dst[piece], when[piece], *([rows[piece]] if features else [])


class Table:
    """Random payments: seven numbers and three categories of thirty values, one cell in a hundred missing."""

    def __init__(self):
        sample = self.columns(np.random.default_rng(3), 20_000)
        kinds = dict.fromkeys(NUMBERS, "number") | dict.fromkeys(CATEGORIES, "category")
        log = Events.from_arrays([0] * 20_000, [1] * 20_000, range(20_000), columns=sample)
        self.fitted = FittedSchema.fit(log, Schema(columns=kinds))

    @staticmethod
    def columns(rng, size):
        """The cells of some events."""
        numbers = {name: np.where(rng.random(size) < 0.01, np.nan, rng.lognormal(3, 2, size)) for name in NUMBERS}
        texts = np.array([f"value {code}" for code in range(30)] + [None], dtype=object)
        codes = {name: np.where(rng.random(size) < 0.01, 30, rng.integers(0, 30, size)) for name in CATEGORIES}
        return numbers | {name: texts[code] for name, code in codes.items()}

    def options(self):
        """Of a model that takes its events."""
        numbers, codes = self.fitted.encoder.widths
        return {"edge_features": numbers, "edge_categories": codes}

    def rows(self, src, dst, when, size):
        """Batches with the columns of their events."""
        cells = self.columns(np.random.default_rng(2), len(src))
        for start in range(0, len(src), size):
            piece = slice(start, start + size)
            yield src[piece], dst[piece], when[piece], {name: column[piece] for name, column in cells.items()}

    def batches(self, src, dst, when, size):
        """Batches with the features that a model takes."""
        for ends_and_time in self.rows(src, dst, when, size):
            yield *ends_and_time[:3], self.encode(ends_and_time[3])

    def encode(self, cells):
        return self.fitted.features(cells, len(cells[NUMBERS[0]]))

    def messages(self, features):
        """Features as messages of TGN: numbers, what is missing, and categories one-hot."""
        numbers, codes = self.fitted.encoder.widths
        hot = [np.eye(size, dtype=np.float32)[features[:, numbers + c].astype(int)] for c, size in enumerate(codes)]
        return np.concatenate([features[:, :numbers], *hot], axis=1)


def table_events(table):
    """Seconds a single event of a table: ours, ours from its columns, and TGN."""
    models = [Ours("adaptive", NODES, 2, SERVED_WIDTH, classifies=True, **table.options()) for _ in range(2)]
    ours, encoding = models
    numbers, codes = table.fitted.encoder.widths
    peer = TGN(NODES, SERVED_WIDTH, numbers + sum(codes))
    peer.forget()
    for part in (peer.memory, peer.attention, peer.head):
        part.eval()
    for piece in table.batches(*stream(0, WARM, NODES), BATCH):
        for model in models:
            model.absorb(*piece)
        peer.remember(*piece[:3], table.messages(piece[3]))
    for model in models:
        model.fit_pieces(*next(table.batches(*stream(2, EVENTS, NODES, WARM), EVENTS)))

    def from_columns(src, dst, when, cells, *rest):
        encoding.score_and_absorb(src, dst, when, table.encode(cells))

    def tgn(src, dst, when, cells, features, message):
        peer.rate(src, dst)
        peer.remember(src, dst, when, message)

    jobs = {
        "table": lambda src, dst, when, cells, features, message: ours.score_and_absorb(src, dst, when, features),
        "table_rows": from_columns,
        "tgn": tgn,
    }
    work = []
    for src, dst, when, cells in table.rows(*stream(1, 2 * EVENTS, NODES, WARM), 1):
        features = table.encode(cells)
        work.append((src, dst, when, cells, features, table.messages(features)))
    return take_turns(jobs, work, turn=25)


def event_against_tgn(features):
    """Seconds a single event of ours and of TGN."""
    ours = Ours("adaptive", NODES, layers=2, edge_features=features)
    peer = TGN(NODES, WIDTH, max(features, 1))
    peer.forget()
    for part in (peer.memory, peer.attention, peer.head):
        part.eval()
    for piece in batches(*stream(0, WARM, NODES), BATCH, features):
        ours.absorb(*piece)
        peer.remember(*piece)

    def tgn(src, dst, when, *rest):
        peer.rate(src, dst)
        peer.remember(src, dst, when, *rest)

    jobs = {"ours": ours.score_and_absorb, "tgn": tgn}
    return take_turns(jobs, batches(*stream(1, EVENTS, NODES, WARM), 1, features), turn=25)


def single_events():
    """Seconds a single event of ours, in three models that take turns."""
    models = {
        "plain": Ours("adaptive", NODES, 2, SERVED_WIDTH),
        "features": Ours("adaptive", NODES, 2, SERVED_WIDTH, edge_features=FEATURES),
        "classifier": Ours("adaptive", NODES, 2, SERVED_WIDTH, edge_features=FEATURES, classifies=True),
    }
    jobs = {}
    for name, ours in models.items():
        width = 4 if ours.model.config.edge_features else 3
        jobs[name] = lambda *piece, ours=ours, width=width: ours.score_and_absorb(*piece[:width])
        for piece in batches(*stream(0, WARM, NODES), BATCH, FEATURES):
            ours.absorb(*piece[:width])
        if ours.classifier is not None:
            ours.fit_pieces(*next(batches(*stream(2, EVENTS, NODES, WARM), EVENTS, FEATURES)))
    return take_turns(jobs, batches(*stream(1, 4 * EVENTS, NODES, WARM), 1, FEATURES), turn=25)


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
    single, table = single_events(), table_events(Table())
    event, described = event_against_tgn(0), event_against_tgn(FEATURES)
    two, three = batch_against_tgat(2), batch_against_tgat(3)
    size = growth()
    print(
        json.dumps(
            {
                "event_us": {name: round(1e6 * value, 1) for name, value in (single | table).items()},
                "event_vs_tgn": round(event["tgn"] / event["ours"], 1),
                "event_vs_tgn_features": round(described["tgn"] / described["ours"], 1),
                "event_vs_tgn_table": round(table["tgn"] / table["table"], 1),
                "batch_vs_tgat_2": round(two["tgat"] / two["ours"], 1),
                "batch_vs_tgat_3": round(three["tgat"] / three["ours"], 1),
                "latency_growth": round(size["many"] / size["few"], 3),
                "milliseconds": {
                    "event": {name: round(1e3 * value, 3) for name, value in event.items()},
                    "event_features": {name: round(1e3 * value, 3) for name, value in described.items()},
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
