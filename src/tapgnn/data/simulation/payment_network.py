"""The network behind a SIMULATED stream of payments: its accounts and merchants, and what happens to them.

Activity and popularity are heavy-tailed and follow daily and weekly cycles. Accounts open, move (their favourite
merchants change permanently) and go on holiday (they change temporarily); sales draw customers to a few merchants.

Everything is drawn once and depends only on the arguments; `payment_stream` draws the payments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import ConfigError
from tapgnn.events import Floats, Ints

START = 1_704_067_200.0  # Monday 1 January 2024, 00:00 UTC
HOUR, DAY = 3_600.0, 86_400.0
NETWORK, EVERYDAY, PLAN, CAMPAIGN = range(4)  # the purpose of a generator, part of its seed

# The kinds of merchants by the mean log amount of a payment.
CATEGORIES = {
    3.2: "groceries",
    3.0: "restaurant",
    3.7: "clothing",
    4.6: "electronics",
    5.0: "travel",
    3.9: "health",
    4.2: "home",
    3.3: "fuel",
}
# Regions lie in these countries in turn, each with its currency.
CURRENCIES = {"DE": "EUR", "US": "USD", "GB": "GBP", "FR": "EUR", "CH": "CHF", "JP": "JPY", "SE": "SEK", "CA": "CAD"}


@dataclass(frozen=True)
class SimulatedNetwork:
    """The ground truth of a simulated stream, with times in seconds since START.

    order [A], founders      accounts from the most to the least active; those that exist from the start
    opens, moves [A]         when an account opens (0: a founder) and moves to another region (inf: never)
    leaves, returns [A]      start and end of its holiday (inf: none)
    home [A, 2], resort [A]  its region before and after the move, and on holiday
    favourites [A, 2, 8]     its merchants before and after the move, from the most to the least visited
    contacts [A, 6]          the accounts that it pays
    spending [A], level [M]  log amounts: offset of an account, typical amount at a merchant
    border [R+2]             merchants border[r] to border[r+1] are in region r, most popular first; the last is online
    sales [S, 2], bargains [S, 10]   start and end of each sale, and its merchants
    edges, expected          the activity cycle: the share of everyday payments made before each edge
    """

    seed: int
    order: Ints
    founders: Ints
    opens: Floats
    moves: Floats
    leaves: Floats
    returns: Floats
    home: Ints
    resort: Ints
    favourites: Ints
    contacts: Ints
    spending: Floats
    level: Floats
    border: Ints
    sales: Floats
    bargains: Ints
    edges: Floats
    expected: Floats

    @property
    def accounts(self) -> int:
        """A: accounts are nodes 0 to A-1 of the simulation, merchants follow."""
        return len(self.order)

    def names(self, nodes: Ints) -> list[str]:
        """The ids of nodes of the simulation: 'a00123' for an account, 'm0042' for a merchant."""
        wide, narrow = max(5, len(str(self.accounts - 1))), max(4, len(str(len(self.level) - 1)))
        split = self.accounts
        return [f"a{n:0{wide}d}" if n < split else f"m{n - split:0{narrow}d}" for n in nodes.tolist()]

    def region(self, shops: Ints) -> Ints:
        """The region of merchants; online ones are spread over all of them."""
        regions = len(self.border) - 2
        place = np.searchsorted(self.border, shops, side="right") - 1
        return np.where(place < regions, place, shops % regions)

    def country(self, regions: Ints) -> NDArray[Any]:
        """The country of regions."""
        return np.array(list(CURRENCIES), dtype=object)[regions % len(CURRENCIES)]

    def second(self, quantile: Floats) -> Floats:
        """The whole second by which this share of the everyday payments has been made."""
        moment = np.interp(quantile, self.expected, self.edges)
        return np.asarray(np.floor(np.minimum(moment, self.edges[-1] - 1)))


def simulated_network(
    accounts: int = 20_000, merchants: int = 2_000, days: float = 90, seed: int = 0
) -> SimulatedNetwork:
    """The network behind the stream that `simulate` draws from the same arguments."""
    if accounts < 50 or merchants < 20 or not 1 <= days < np.inf or seed < 0:
        raise ConfigError(
            f"a simulation needs at least 50 accounts, 20 merchants, 1 day and a seed of 0 or more, "
            f"not accounts={accounts}, merchants={merchants}, days={days}, seed={seed}"
        )
    rng = np.random.default_rng([seed, NETWORK])
    span = np.ceil(days * DAY)
    regions = max(2, min(20, merchants // 20))
    border = np.append(np.linspace(0, 0.9 * merchants, regions + 1).astype(np.int64), merchants)
    home = rng.integers(regions, size=(accounts, 2))
    moves = np.where(rng.random(accounts) < 0.15, rng.uniform(0.1, 0.9, accounts) * span, np.inf)
    home[:, 1] = np.where(np.isfinite(moves), (home[:, 0] + rng.integers(1, regions, accounts)) % regions, home[:, 0])
    leaves = np.where(rng.random(accounts) < 0.3, rng.uniform(0.0, 0.9, accounts) * span, np.inf)
    opens = np.where(rng.random(accounts) < 0.15, rng.random(accounts) * span, 0.0)
    order = rng.permutation(accounts)
    sales = np.sort(rng.uniform(0.05, 0.9, max(1, int(days // 30))) * span)[:, None] + np.array([0.0, 2 * DAY])
    edges = np.append(np.arange(0.0, span, HOUR / 4), span)
    return SimulatedNetwork(
        seed=seed,
        order=order,
        founders=order[opens[order] == 0],
        opens=opens,
        moves=moves,
        leaves=leaves,
        returns=leaves + rng.uniform(5, 14, accounts) * DAY,
        home=home,
        resort=rng.integers(regions, size=accounts),
        favourites=_chosen_favourites(home, np.isinf(moves), border, rng),
        contacts=_chosen_contacts(home[:, 0], rng),
        spending=0.4 * rng.standard_normal(accounts),
        level=rng.choice(list(CATEGORIES), merchants),
        border=border,
        sales=sales,
        bargains=rng.integers(merchants, size=(len(sales), 10)),
        edges=edges,
        expected=_rhythm(edges, sales),
    )


def _rhythm(edges: Floats, sales: Floats) -> Floats:
    """The share of payments made before each edge: quiet nights, busy noons, evenings and weekends, and sales."""
    middle = (edges[1:] + edges[:-1]) / 2
    hour, weekday = middle % DAY / HOUR, (middle // DAY).astype(np.int64) % 7
    daily = 0.08 + np.exp(-(((hour - 12.5) / 3.0) ** 2)) + 1.2 * np.exp(-(((hour - 18.5) / 2.2) ** 2))
    weekly = np.array([0.85, 0.85, 0.9, 1.0, 1.25, 1.3, 0.8])[weekday]
    on_sale = ((middle[:, None] >= sales[:, 0]) & (middle[:, None] < sales[:, 1])).any(axis=1)
    total = np.cumsum(daily * weekly * (1.0 + 0.5 * on_sale) * np.diff(edges))
    return np.concatenate([[0.0], total / total[-1]])


def ranked(uniform: Floats, size: Ints | int, skew: float) -> Ints:
    """Ranks below `size` from uniform numbers, rank r with probability proportional to about r^(1/skew - 1)."""
    return np.asarray(size * uniform**skew).astype(np.int64)


def shop_in(border: Ints, region: Ints, rng: np.random.Generator) -> Ints:
    """A merchant of each region, popular ones more often."""
    size = border[region + 1] - border[region]
    return np.asarray(border[region] + ranked(rng.random(region.shape), size, 3.0))


def _chosen_favourites(home: Ints, stays: NDArray[np.bool_], border: Ints, rng: np.random.Generator) -> Ints:
    """[A, 2, 8] six merchants of the home region and two online, before and after the move."""
    region = np.repeat(home[:, :, None], 8, axis=2)
    region[:, :, [3, 6]] = len(border) - 2
    chosen = shop_in(border, region, rng)
    chosen[stays, 1] = chosen[stays, 0]
    return chosen


def _chosen_contacts(region: Ints, rng: np.random.Generator) -> Ints:
    """[A, 6] neighbours in a line of accounts sorted by region, so that contacts share contacts."""
    line = np.lexsort((rng.random(len(region)), region))
    steps = rng.integers(1, 9, (len(line), 6)) * rng.choice([-1, 1], (len(line), 6))
    contacts = np.empty(steps.shape, dtype=np.int64)
    contacts[line] = line[(np.arange(len(line))[:, None] + steps) % len(line)]
    return contacts
