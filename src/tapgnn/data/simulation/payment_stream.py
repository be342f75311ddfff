"""A SIMULATED payment network: no account, merchant, payment or fraud in it is real.

Accounts pay merchants and each other. Activity and popularity are heavy-tailed and follow daily and weekly cycles.
Habits change permanently (an account moves, and its favourite merchants change) and temporarily (a holiday, a sale);
new accounts open. About one event in 140 belongs to a fraud ring and has label 1:

    card testing         stolen cards of many accounts try small amounts at one online merchant within about an hour
    mule cycle           money circulates in a ring of accounts within hours, a little less at every hop
    collusive merchant   the same few accounts from other regions keep paying one merchant for days

Every payment has the columns of a payment table: amount, currency (of the payer's country), channel and country (of the
payee), some of them missing. Those of a fraudulent payment resemble those of many legitimate ones: who pays whom, and
when, gives it away.

Invariants. The stream depends only on the arguments, bit for bit, whatever the chunk size: everyday payments are drawn
in blocks of fixed size and every fraud campaign separately, each from a generator seeded by its number. Memory is
O(accounts + merchants + chunk), plus one row per fraud campaign (about one per 1,600 events).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from tapgnn.data.chunking import cut_between_instants, join_rows, take_rows
from tapgnn.data.simulation.payment_network import (
    CAMPAIGN,
    CATEGORIES,
    CURRENCIES,
    DAY,
    EVERYDAY,
    HOUR,
    PLAN,
    START,
    SimulatedNetwork,
    ranked,
    shop_in,
    simulated_network,
)
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints
from tapgnn.vocabulary import Vocabulary

CHANNELS = ("card", "online", "transfer")
CARD, ONLINE, TRANSFER = range(3)
# The share of payments without an amount, and without a country.
NO_AMOUNT, NO_COUNTRY = 0.01, 0.03
TESTING, MULES, COLLUSION = range(3)

_BLOCK = 65_536
_FEW = 40
_TRANSFER_LEVEL = 4.0
_CAMPAIGN_LASTS = np.array([HOUR, 12 * HOUR, 3 * DAY])  # by kind, at average traffic


class _Columns(NamedTuple):
    """Raw events: nodes of the simulation, whole seconds since START, log amount, channel, label.

    uniform in [0, 1) decides which cells are missing.
    """

    src: Ints
    dst: Ints
    time: Floats
    amount: Floats
    channel: Ints
    label: Ints
    uniform: Floats


class _Plan(NamedTuple):
    """The fraud campaigns by start (a quantile), each with its ring and size; the accounts and shop of each ring."""

    start: Floats
    ring: Ints
    size: Ints
    members: Ints
    shop: Ints


class SimulationOptions(TypedDict, total=False):
    """The options of a simulation besides the number of events; the defaults are those of `simulate_stream`."""

    accounts: int
    merchants: int
    days: float
    seed: int
    fraud: float


def simulate(events: int = 100_000, **options: Unpack[SimulationOptions]) -> Events:
    """The whole simulated log, with the columns of a payment table and labels (1 = fraud).

    >>> log = simulate(events=1_000, accounts=200, merchants=50, days=7)
    >>> len(log), list(log.columns), log.vocabulary.ids[:2]
    (1000, ['amount', 'currency', 'channel', 'country'], ['a00046', 'a00013'])
    """
    return next(simulate_stream(events, chunk=max(events, 1), **options))


def simulate_stream(
    events: int = 100_000,
    accounts: int = 20_000,
    merchants: int = 2_000,
    days: float = 90,
    seed: int = 0,
    fraud: float = 0.007,
    chunk: int = 100_000,
) -> Iterator[Events]:
    """The simulated log in pieces, cut as `Events.chunks(chunk)` would cut it, in bounded memory.

    The pieces share one vocabulary, which grows with them in order of first appearance.
    """
    network = simulated_network(accounts, merchants, days, seed)
    if events < 1 or chunk < 1 or not 0 <= fraud <= 0.5:
        raise ConfigError(
            f"a simulation needs at least one event, chunks of at least one event and a fraud share from 0 to 0.5, "
            f"not events={events}, chunk={chunk}, fraud={fraud}"
        )
    plan = _planned(network, round(events * fraud))
    return _numbered(network, cut_between_instants(_blocks(network, plan, events), chunk))


def _planned(network: SimulatedNetwork, wanted: int) -> _Plan:
    """Campaigns of 6 to 16 events, `wanted` in total; a ring runs about five of them within two fifths of the span.

    If there are few, they are smaller and evenly spaced, so that every part of a short log has some.
    """
    rng = np.random.default_rng([network.seed, PLAN])
    most = max(2, wanted // 8)
    size = np.minimum(rng.integers(6, 17, wanted // min(6, most) + 1), most)
    size = size[: int(np.searchsorted(np.cumsum(size), wanted)) + 1] if wanted else size[:0]
    size[-1:] -= size.sum() - wanted
    rings = min(max(3, len(size) // 5), max(3, network.accounts // 100))
    kind = np.arange(rings) % 3
    online, merchants = network.border[-2:]
    members = min(40, len(network.founders))
    ring = rng.integers(rings, size=len(size))
    width = (_CAMPAIGN_LASTS / network.edges[-1])[kind[ring]]
    start = (rng.random(rings)[ring] + 0.4 * rng.random(len(size))) % 1.0
    if len(size) < _FEW:
        start = (np.argsort(np.argsort(start)) + 0.5) / max(1, len(size))
    start *= 1.0 - np.minimum(width, 0.5)
    order = np.argsort(start, kind="stable")
    return _Plan(
        start=start[order],
        ring=ring[order],
        size=size[order],
        members=np.array([rng.choice(network.founders, members, replace=False) for _ in range(rings)]),
        shop=np.where(kind == TESTING, rng.integers(online, merchants, rings), rng.integers(0, online, rings)),
    )


def _campaign(network: SimulatedNetwork, plan: _Plan, number: int) -> _Columns:
    """The events of one fraud campaign, in order of time; they follow the activity cycle of everyday payments."""
    rng = np.random.default_rng([network.seed, CAMPAIGN, number])
    ring, size = plan.ring[number], int(plan.size[number])
    kind, members, shop = ring % 3, plan.members[ring], plan.shop[ring]
    width = min(_CAMPAIGN_LASTS[kind] / network.edges[-1], 0.5)
    time = network.second(plan.start[number] + width * np.sort(rng.random(size)))
    if kind == MULES:
        circle = rng.permutation(members[:9])[: rng.integers(4, 8)]
        src = circle[np.arange(size) % len(circle)]
        dst = circle[np.arange(1, size + 1) % len(circle)]
        amount = _TRANSFER_LEVEL + 0.3 + 0.7 * rng.standard_normal() - 0.03 * np.arange(float(size))
        channel = np.full(size, TRANSFER)
    else:
        src = rng.choice(members if kind == TESTING else members[:12], size)
        dst = np.full(size, network.accounts + shop)
        level = network.level[shop] if kind == COLLUSION else 3.1
        amount = level + network.spending[src] + 0.6 * rng.standard_normal(size)
        channel = np.where((kind == TESTING) | (rng.random(size) < 0.15), ONLINE, CARD)
    return _Columns(src, dst, time, amount, channel, np.ones(size, dtype=np.int64), rng.random(size))


def _everyday(network: SimulatedNetwork, block: int, first: int, size: int, total: int) -> _Columns:
    """Payments `first` to `first + size` of the `total` everyday ones, in order of time."""
    rng = np.random.default_rng([network.seed, EVERYDAY, block])
    time = network.second((first + size * np.sort(rng.random(size))) / total)
    src = _opened(network, network.order[ranked(rng.random(size), network.accounts, 2.5)], time, rng)
    moved = (time >= network.moves[src]).astype(np.int64)
    shop = network.favourites[src, moved, ranked(rng.random(size), 8, 2.0)]

    away = (network.leaves[src] <= time) & (time < network.returns[src])
    region = np.where(away, network.resort[src], network.home[src, moved])
    region[rng.random(size) < 0.2] = len(network.border) - 2
    explores = rng.random(size) < np.where(away, 0.8, 0.2)
    shop = np.where(explores, shop_in(network.border, region, rng), shop)

    sale = np.maximum(np.searchsorted(network.sales[:, 0], time, side="right") - 1, 0)
    on_sale = (network.sales[sale, 0] <= time) & (time < network.sales[sale, 1])
    bargain = network.bargains[sale, rng.integers(network.bargains.shape[1], size=size)]
    shop = np.where(on_sale & (rng.random(size) < 0.3), bargain, shop)

    contact = _opened(network, network.contacts[src, rng.integers(6, size=size)], time, rng)
    transfer = rng.random(size) < 0.2
    level = np.where(transfer, _TRANSFER_LEVEL, network.level[shop])
    online = (shop >= network.border[-2]) | (rng.random(size) < 0.15)
    return _Columns(
        src=src,
        dst=np.where(transfer, contact, network.accounts + shop),
        time=time,
        amount=level + network.spending[src] + 0.6 * rng.standard_normal(size),
        channel=np.where(transfer, TRANSFER, np.where(online, ONLINE, CARD)),
        label=np.zeros(size, dtype=np.int64),
        uniform=rng.random(size),
    )


def _opened(network: SimulatedNetwork, account: Ints, time: Floats, rng: np.random.Generator) -> Ints:
    """The account, or a founder in its place if it has not opened yet."""
    founder = network.founders[ranked(rng.random(len(account)), len(network.founders), 2.5)]
    return np.where(network.opens[account] <= time, account, founder)


def _blocks(network: SimulatedNetwork, plan: _Plan, events: int) -> Iterator[_Columns]:
    """The stream in blocks of ascending time; an instant may continue in the next block."""
    total = events - int(plan.size.sum())
    kinds = (np.int64, np.int64, float, float, np.int64, np.int64, float)
    pending, begun = _Columns(*(np.empty(0, kind) for kind in kinds)), 0
    for block, first in enumerate(range(0, total, _BLOCK)):
        size = min(_BLOCK, total - first)
        quantile = (first + size) / total
        last = first + size == total
        until = len(plan.start) if last else int(np.searchsorted(plan.start, quantile))
        pending = join_rows([pending, *(_campaign(network, plan, number) for number in range(begun, until))])
        begun = until
        # Campaigns still to begin, and the next block, start in the second in which this block ends or later.
        due = pending.time < (np.inf if last else network.second(np.array(quantile)))
        merged = join_rows([_everyday(network, block, first, size, total), take_rows(pending, due)])
        yield take_rows(merged, np.argsort(merged.time, kind="stable"))
        pending = take_rows(pending, ~due)


def _numbered(network: SimulatedNetwork, pieces: Iterator[_Columns]) -> Iterator[Events]:
    """Raw pieces as events: nodes become rows of one vocabulary in order of first appearance."""
    vocabulary = Vocabulary()
    row = np.full(network.accounts + len(network.level), -1)
    for piece in pieces:
        ends = np.column_stack([piece.src, piece.dst]).ravel()
        fresh, place = np.unique(ends[row[ends] < 0], return_index=True)
        fresh = fresh[np.argsort(place)]
        row[fresh] = vocabulary.add(network.names(fresh))
        table = _table(network, piece)
        yield Events(row[piece.src], row[piece.dst], START + piece.time, None, piece.label, vocabulary, table)


def _table(network: SimulatedNetwork, piece: _Columns) -> dict[str, NDArray[Any]]:
    """The columns of the payments: amount, currency, channel and country."""
    shop = piece.dst - network.accounts
    paid = np.where(shop < 0, network.home[piece.dst % network.accounts, 0], network.region(np.maximum(shop, 0)))
    country = network.country(paid)
    country[(piece.uniform >= NO_AMOUNT) & (piece.uniform < NO_AMOUNT + NO_COUNTRY)] = None
    home = network.country(network.home[piece.src, 0])
    return {
        "amount": np.where(piece.uniform < NO_AMOUNT, np.nan, np.round(np.exp(piece.amount), 2)),
        "currency": np.array([CURRENCIES[name] for name in home], dtype=object),
        "channel": np.array(CHANNELS, dtype=object)[piece.channel],
        "country": country,
    }


def merchant_table(network: SimulatedNetwork) -> dict[str, list[Any]]:
    """What is known of every merchant: its id, its category and its country."""
    shops = np.arange(len(network.level))
    return {
        "merchant_id": network.names(network.accounts + shops),
        "category": [CATEGORIES[level] for level in network.level],
        "country": network.country(network.region(shops)).tolist(),
    }
