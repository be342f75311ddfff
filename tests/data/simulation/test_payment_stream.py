"""The simulator: one stream however it is cut, the habits it promises, and fraud that only structure gives away."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tapgnn.baselines.shared.key_table import KeyTable
from tapgnn.data.simulation import payment_stream
from tapgnn.data.simulation.payment_network import CATEGORIES, CURRENCIES
from tapgnn.data.simulation.payment_stream import (
    CHANNELS,
    DAY,
    HOUR,
    NO_AMOUNT,
    NO_COUNTRY,
    START,
    merchant_table,
    simulate,
    simulate_stream,
    simulated_network,
)
from tapgnn.data.splits import split_strict
from tapgnn.errors import ConfigError
from tapgnn.evaluation.metrics import auc
from tapgnn.events import Events, Ints
from tapgnn.vocabulary import Vocabulary

COLUMNS = ("src", "dst", "time", "labels")


@pytest.fixture(scope="module")
def log() -> Events:
    return simulate()


def nodes_of(log: Events) -> tuple[Ints, Ints]:
    """Source and destination as nodes of the simulation: accounts by number, merchants as -1 - number."""
    number = np.array(
        [int(name[1:]) if name[0] == "a" else -1 - int(name[1:]) for name in map(str, log.vocabulary.ids)]
    )
    return number[log.src], number[log.dst]


def same(one: Events, other: Events) -> None:
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.columns.keys() == other.columns.keys()
    for name, column in one.columns.items():
        np.testing.assert_array_equal(column, other.columns[name])


@given(
    events=st.integers(1, 3_000),
    chunk=st.integers(1, 4_000),
    block=st.integers(50, 700),
    days=st.sampled_from([1, 3, 400]),
    seed=st.integers(0, 5),
)
def test_any_chunk_size_gives_the_same_stream_cut_as_events_cut_themselves(
    events: int, chunk: int, block: int, days: int, seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Many small blocks, whose borders fall anywhere; one day makes many ties.
        patch.setattr(payment_stream, "_BLOCK", block)
        size = {"accounts": 60, "merchants": 30, "days": days, "seed": seed}
        whole = simulate(events, **size, fraud=0.1)
        pieces = list(simulate_stream(events, **size, fraud=0.1, chunk=chunk))
    assert len(whole) == events
    assert whole.labels is not None
    assert whole.labels.sum() == round(0.1 * events)
    assert (np.diff(whole.time) >= 0).all()
    assert pieces[0].vocabulary is pieces[-1].vocabulary
    assert pieces[0].vocabulary == whole.vocabulary
    assert [len(piece) for piece in pieces] == [len(part) for part in whole.chunks(chunk)]
    for name in COLUMNS:
        np.testing.assert_array_equal(np.concatenate([getattr(piece, name) for piece in pieces]), getattr(whole, name))


def test_the_seed_decides_every_bit(log: Events) -> None:
    same(log, simulate())
    other = simulate(seed=1)
    assert not np.array_equal(log.src, other.src)
    assert not np.array_equal(log.time, other.time)


def test_rows_are_those_that_the_ids_would_get_when_read_from_a_file() -> None:
    log = simulate(2_000, accounts=100, merchants=40, days=10)
    names = np.array(log.vocabulary.ids, dtype=object)
    read = Events.from_arrays(names[log.src], names[log.dst], log.time, None, log.labels, None, log.columns)
    same(log, read)
    assert read.vocabulary == log.vocabulary


def test_the_stream_is_lazy_and_holds_little_more_than_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    everyday = payment_stream._everyday

    def counted(network: payment_stream.SimulatedNetwork, block: int, *rest: int) -> payment_stream._Columns:
        drawn.append(block)
        return everyday(network, block, *rest)

    monkeypatch.setattr(payment_stream, "_everyday", counted)
    stream: Iterator[Events] = simulate_stream(100_000_000, accounts=1_000, merchants=100, chunk=50_000)
    for number in range(1, 5):
        piece = next(stream)
        assert 50_000 <= len(piece) < 51_000
        assert len(drawn) * payment_stream._BLOCK <= number * 51_000 + payment_stream._BLOCK
    assert len(piece.vocabulary) <= 1_100


def test_vocabulary_grows_with_the_pieces_and_new_accounts_keep_coming() -> None:
    sizes = [len(piece.vocabulary) for piece in simulate_stream(30_000, accounts=500, merchants=50, chunk=3_000)]
    assert isinstance(next(simulate_stream(10)).vocabulary, Vocabulary)
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[len(sizes) // 2]


def test_days_and_weeks_have_their_rhythm(log: Events) -> None:
    elapsed = log.time - START
    hour = (elapsed % DAY // HOUR).astype(int)
    per_hour = np.bincount(hour, minlength=24) / len(log)
    assert per_hour[2:5].sum() < 0.05
    assert per_hour[18:20].sum() > 0.15
    weekday = (elapsed // DAY).astype(int) % 7
    per_day = np.bincount(weekday, minlength=7)
    assert per_day[[4, 5]].min() > 1.2 * per_day[[0, 1, 6]].max()


def test_activity_and_popularity_have_heavy_tails(log: Events) -> None:
    src, dst = nodes_of(log)
    for nodes in (src, dst[dst < 0]):
        _, count = np.unique(nodes, return_counts=True)
        count = np.sort(count)[::-1]
        assert count[: len(count) // 100].sum() > 0.12 * count.sum()
        assert count[0] > 30 * np.median(count)


def share_at(shops: Ints, favourites: NDArray[np.int64]) -> float:
    """The share of purchases made at one of the account's own favourites."""
    return float((shops[:, None] == favourites).any(axis=1).mean())


def test_moving_house_changes_the_favourites_for_good_and_a_holiday_does_not(log: Events) -> None:
    network = simulated_network()
    src, dst = nodes_of(log)
    bought = (dst < 0) & (log.labels == 0)
    account, shop, when = src[bought], -1 - dst[bought], (log.time - START)[bought]
    before, after = network.favourites[account, 0], network.favourites[account, 1]
    moves, leaves, returns = network.moves[account], network.leaves[account], network.returns[account]
    away = (leaves <= when) & (when < returns)
    moved = np.isfinite(moves) & ~away
    assert share_at(shop[moved & (when < moves)], before[moved & (when < moves)]) > 0.7
    for days in (0, 20, 40):
        late = moved & (when >= moves + days * DAY)
        assert share_at(shop[late], before[late]) < 0.25
        assert share_at(shop[late], after[late]) > 0.7

    stays = np.isinf(moves)
    assert share_at(shop[stays & away], before[stays & away]) < 0.45
    back = stays & (when >= returns)
    assert share_at(shop[back], before[back]) > 0.7


def test_a_sale_draws_customers_only_while_it_lasts(log: Events) -> None:
    network = simulated_network()
    _, dst = nodes_of(log)
    when = log.time - START
    for (first, last), shops in zip(network.sales, network.bargains, strict=True):
        share = [np.isin(-1 - dst[rows], shops).mean() for rows in _around(when, first, last)]
        assert share[1] > 0.15
        assert max(share[0], share[2]) < share[1] / 2


def _around(when: NDArray[np.float64], first: float, last: float) -> list[NDArray[np.bool_]]:
    return [
        (when >= low) & (when < high) for low, high in ((first - 2 * DAY, first), (first, last), (last, last + 2 * DAY))
    ]


def test_columns_are_those_of_a_payment_table_with_gaps(log: Events) -> None:
    amount, channel, country = (log.columns[name] for name in ("amount", "channel", "country"))
    _, dst = nodes_of(log)
    assert set(channel) == set(CHANNELS)
    np.testing.assert_array_equal(channel == "transfer", dst >= 0)
    np.testing.assert_array_equal(amount[~np.isnan(amount)], np.round(amount[~np.isnan(amount)], 2))
    assert 10 < np.nanmedian(amount) < 150
    assert 0 < np.isnan(amount).mean() < 2 * NO_AMOUNT
    assert 0 < (country == None).mean() < 2 * NO_COUNTRY  # noqa: E711
    assert set(country) - {None} <= set(CURRENCIES)
    assert set(log.columns["currency"]) <= set(CURRENCIES.values())


def test_the_table_of_merchants_names_every_merchant_once(log: Events) -> None:
    table = merchant_table(simulated_network())
    assert len(set(table["merchant_id"])) == 2_000
    paid = {name for name in log.vocabulary.ids if str(name).startswith("m")}
    assert paid <= set(table["merchant_id"])
    assert set(table["category"]) == set(CATEGORIES.values())


@pytest.mark.parametrize("seed", [0, 1])
def test_fraud_is_rare_hidden_in_the_columns_and_plain_in_the_history(seed: int) -> None:
    linear = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    log = simulate(seed=seed)
    assert log.labels is not None
    assert 0.005 <= log.labels.mean() <= 0.01
    row = np.column_stack(
        [
            np.nan_to_num(np.log(log.columns["amount"]), nan=3.7),
            *(log.columns[name] == value for name, value in (("channel", "card"), ("channel", "online"))),
            log.columns["currency"] == "EUR",
            log.columns["country"] == "DE",
            np.cos(2 * np.pi * (log.time % DAY) / DAY),
        ]
    )
    for column in row.T:
        assert 0.3 < auc(log.labels, column) < 0.7

    past = log.time < np.quantile(log.time, 0.7)
    edge = row / row.std(axis=0)
    logistic = linear.LogisticRegression(class_weight="balanced").fit(edge[past], log.labels[past])
    from_edge = auc(log.labels[~past], logistic.predict_proba(edge[~past])[:, 1])
    assert from_edge < 0.8

    history = _history(log)
    for column in history.T:
        assert 0.15 < auc(log.labels, column) < 0.85
    forest = ensemble.RandomForestClassifier(
        40, min_samples_leaf=20, max_samples=0.1, class_weight="balanced_subsample", random_state=0
    )
    forest.fit(history[past], log.labels[past])
    assert auc(log.labels[~past], forest.predict_proba(history[~past])[:, 1]) > max(0.88, from_edge + 0.1)


def _history(log: Events) -> NDArray[np.float64]:
    """Counts and ages of what the pair and both ends did before: all, in six hours, in four days."""
    nodes = len(log.vocabulary)
    pair, back = log.src * nodes + log.dst, log.dst * nodes + log.src
    columns: list[NDArray[np.float64]] = []
    for key, asked in ((pair, pair), (pair, back), (log.dst, log.dst), (log.src, log.src), (log.dst, log.src)):
        count, latest = KeyTable().walk(key, log.time, asked, log.time)
        columns += [count.astype(float), np.minimum(log.time - latest, 1e9)]
        for ago in (6 * HOUR, 4 * DAY):
            columns.append((count - KeyTable().walk(key, log.time, asked, log.time - ago)[0]).astype(float))
    return np.column_stack(columns)


def test_few_shops_take_all_the_fraud_and_mules_pass_the_money_on(log: Events) -> None:
    src, dst = nodes_of(log)
    assert log.labels is not None
    fraud = log.labels.astype(bool)
    at_shops = fraud & (dst < 0)
    assert len(np.unique(dst[at_shops])) < at_shops.sum() / 20
    assert len(np.unique(src[fraud])) > 50
    assert _passed_on(src, dst, fraud & (dst >= 0)) > 0.5
    assert _passed_on(src, dst, ~fraud & (dst >= 0)) < 0.01


def _passed_on(src: Ints, dst: Ints, chosen: NDArray[np.bool_]) -> float:
    """The share of these transfers whose receiver sends the next one."""
    return float((dst[chosen][:-1] == src[chosen][1:]).mean())


def test_impossible_simulations_are_refused_at_once() -> None:
    for wrong in ({"events": 0}, {"chunk": 0}, {"fraud": 0.9}, {"accounts": 3}, {"merchants": 1}, {"days": 0}):
        with pytest.raises(ConfigError, match="a simulation needs"):
            simulate_stream(**wrong)
    assert simulate(500, fraud=0.0).labels is not None


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("events", "fraud"), [(5_000, 0.007), (8_000, 0.04), (3_000, 0.05), (20_000, 0.007)])
def test_every_part_of_a_short_log_has_fraud(events: int, fraud: float, seed: int) -> None:
    log = simulate(events, accounts=300, merchants=60, seed=seed, fraud=fraud)
    parts = split_strict(log)
    for part in (parts.train, parts.valid, parts.test):
        assert part.labels is not None
        assert part.labels.any()
