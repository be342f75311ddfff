"""Trivial methods: the one-pass replay is the reference, no score sees its own instant or later, real data give known
AUC."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines import EdgeBank, Method, PairCount, PairRecency, PairThenNode, Popularity, Recency, replay
from tapgnn.data.negatives import sample_negatives
from tapgnn.data.splits import Split, split_paper
from tapgnn.errors import ConfigError
from tapgnn.evaluation.metrics import auc
from tapgnn.events import Events, Floats, Ints

METHODS: list[Callable[[], Method]] = [
    Recency,
    lambda: Recency("destination"),
    Popularity,
    EdgeBank,
    lambda: EdgeBank(window=3.0),
    PairRecency,
    lambda: PairRecency(both_ways=True),
    PairCount,
    PairThenNode,
]
every_method = pytest.mark.parametrize("make", METHODS, ids=[make().name for make in METHODS])


def random_rows(size: int, nodes: int, first: int, last: int, seed: int) -> list[tuple[int, int, int]]:
    rng = np.random.default_rng(seed)
    columns = (rng.integers(nodes, size=size), rng.integers(nodes, size=size), rng.integers(first, last, size=size))
    return list(zip(*(column.tolist() for column in columns), strict=True))


rows = st.builds(random_rows, st.integers(1, 60), st.integers(1, 6), st.just(0), st.just(16), st.integers(0, 2**32))
queried = st.builds(random_rows, st.integers(0, 40), st.integers(1, 9), st.just(6), st.just(18), st.integers(0, 2**32))


def columns(queries: list[tuple[int, int, int]]) -> tuple[Ints, Ints, Floats]:
    table = np.array(queries, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2].astype(float)


def log_of(events: list[tuple[int, int, int]]) -> tuple[Events, Events]:
    """History before time 6, and the stream from then on."""
    log = Events.from_arrays(*columns(events))
    return log.between(-np.inf, 6.0), log.between(6.0, np.inf)


@every_method
@given(events=rows, queries=queried)
def test_the_batched_replay_gives_the_scores_and_the_state_of_the_reference(
    make: Callable[[], Method], events: list[tuple[int, int, int]], queries: list[tuple[int, int, int]]
) -> None:
    train, stream = log_of(events)
    src, dst, time = columns(queries)
    slow, fast = make(), make()
    slow.fit(train, stream)
    fast.fit(train, stream)
    np.testing.assert_array_equal(replay(slow, stream, src, dst, time), fast.replay(stream, src, dst, time))
    everyone = np.arange(9)
    for source in everyone:
        later = (np.full(9, source), everyone, np.full(9, 18.0))
        np.testing.assert_array_equal(slow.score(*later), fast.score(*later))


@every_method
@given(events=rows, queries=queried, seed=st.integers(0, 9))
def test_nothing_at_or_after_the_query_changes_its_score(
    make: Callable[[], Method], events: list[tuple[int, int, int]], queries: list[tuple[int, int, int]], seed: int
) -> None:
    train, stream = log_of(events)
    src, dst, time = columns(queries)
    truth = make()
    truth.fit(train, stream)
    scores = truth.replay(stream, src, dst, time)
    for query in range(len(time)):
        future = stream.time >= time[query]
        shuffled = np.random.default_rng(seed).permutation(int(future.sum()))
        other = stream.take(np.concatenate([np.flatnonzero(~future), np.flatnonzero(future)[shuffled]]))
        other.time[:] = stream.time
        for changed in (other, stream.take(~future)):
            method = make()
            method.fit(train, stream)
            assert method.replay(changed, src[[query]], dst[[query]], time[[query]])[0] == scores[query]


@given(rows, queried)
def test_the_scores_are_what_the_formulas_say(
    events: list[tuple[int, int, int]], queries: list[tuple[int, int, int]]
) -> None:
    train, stream = log_of(events)
    src, dst, time = columns(queries)
    # The vocabulary numbers nodes by first appearance, so the past is written in rows too.
    past = [list(zip(log.src.tolist(), log.dst.tolist(), log.time.tolist(), strict=True)) for log in (train, stream)]
    scores = {}
    for make in METHODS:
        method = make()
        method.fit(train, stream)
        scores[method.name] = method.replay(stream, src, dst, time)
    for q, (u, v, t) in enumerate(zip(src.tolist(), dst.tolist(), time.tolist(), strict=True)):
        before = [event for log in past for event in log if event[2] < t]
        assert scores["recency"][q] == max([e[2] - t for e in before if v in e[:2]], default=-np.inf)
        assert scores["recency-destination"][q] == max([e[2] - t for e in before if v == e[1]], default=-np.inf)
        assert scores["popularity"][q] == sum(v == e[1] for e in before)
        assert scores["edgebank"][q] == any((u, v) == e[:2] for e in before)
        assert scores["edgebank-window"][q] == any((u, v) == e[:2] and e[2] >= t - 3.0 for e in before)
        met = [e[2] - t for e in before if e[:2] in ((u, v), (v, u))]
        assert scores["pair-recency"][q] == max([e[2] - t for e in before if e[:2] == (u, v)], default=-np.inf)
        assert scores["pair-recency-both"][q] == max(met, default=-np.inf)
        assert scores["pair-count"][q] == sum(e[:2] == (u, v) for e in before)
        assert scores["pair-then-node"][q] == (-1 / max(met) if met else scores["recency"][q])


@every_method
def test_fit_forgets_and_one_event_and_unseen_nodes_have_scores(make: Callable[[], Method]) -> None:
    log = Events.from_arrays(["a", "a", "b"], ["a", "b", "a"], [1.0, 2.0, 3.0])
    fresh, used = make(), make()
    used.fit(log, log)
    for method in (fresh, used):
        method.fit(log.slice(0, 1), log)
    queries = (np.array([0, 7]), np.array([0, 7]), np.array([2.0, 2.0]))
    np.testing.assert_array_equal(fresh.score(*queries), used.score(*queries))
    assert fresh.score(*queries)[0] > fresh.score(*queries)[1]
    assert fresh.sees_history


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="any or destination"):
        Recency("source")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="positive length"):
        EdgeBank(window=0.0)


@given(rows, queried)
def test_pairs_that_met_stand_above_all_others_and_the_latest_above_the_earlier(
    events: list[tuple[int, int, int]], queries: list[tuple[int, int, int]]
) -> None:
    train, stream = log_of(events)
    src, dst, time = columns(queries)
    found = {}
    for method in (PairThenNode(), PairRecency(both_ways=True), Recency()):
        method.fit(train, stream)
        found[method.name] = method.replay(stream, src, dst, time)
    joined, pair, node = found["pair-then-node"], found["pair-recency-both"], found["recency"]
    order = np.lexsort((node, pair))
    met = np.isfinite(pair)
    assert (joined[met] > 0).all()
    assert not (joined[~met] > 0).any()
    assert (joined[order][1:] >= joined[order][:-1]).all()


def measured_auc(method: Method, split: Split, seed: int) -> float:
    """The paper's protocol: one random negative per positive, earlier validation and test events observed."""
    test = split.test
    negative = sample_negatives(test, split.train, seed=seed).dst[:, 0]
    method.fit(split.train, split.valid)
    method.observe(split.valid)
    scores = method.replay(test, np.tile(test.src, 2), np.concatenate([test.dst, negative]), np.tile(test.time, 2))
    return auc(np.repeat([1, 0], len(test)), scores)


@pytest.mark.parametrize(
    ("name", "recency", "recency_destination", "popularity", "edgebank"),
    [
        ("fb-forum", 0.904, 0.933, 0.899, 0.949),
        ("soc-wiki-elec", 0.993, 0.986, 0.819, 0.532),
    ],
)
def test_on_real_data_under_the_papers_protocol_they_reach_the_known_auc(
    data_folder: Path, name: str, recency: float, recency_destination: float, popularity: float, edgebank: float
) -> None:
    frame = polars.read_csv(data_folder / f"{name}.edges")
    split = split_paper(Events.from_frame(frame, "from_node_id", "to_node_id", "timestamp"))
    assert measured_auc(Recency(), split, seed=0) == pytest.approx(recency, abs=0.01)
    assert measured_auc(Recency("destination"), split, seed=0) == pytest.approx(recency_destination, abs=0.01)
    assert measured_auc(Popularity(), split, seed=0) == pytest.approx(popularity, abs=0.02)
    assert measured_auc(EdgeBank(), split, seed=0) == pytest.approx(edgebank, abs=0.01)
