"""What a saved model answers, in numpy alone: the scores of pairs.

A question from the command line is about a few rows, and loading torch and compiled code would take longer than the
answer. These are the formulas of `projection` and `heads`, in float64, on the arrays of a folder that was checked
before. `inference` is what serves a stream, and a test holds both to the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tapgnn.events import Floats, Ints
from tapgnn.model.config import Config
from tapgnn.model.features.row_layout import (
    COSINE_FLOOR,
    COUNT_FLOOR,
)
from tapgnn.model.features.row_layout import (
    PairColumns as Pair,
)
from tapgnn.model.features.row_layout import (
    PartnerColumns as Partner,
)
from tapgnn.model.features.row_layout import (
    StatisticColumns as Statistic,
)

Array = NDArray[Any]
# The columns of encoded statistics that say 'never', which are not encoded by pieces; see `statistics_encoder`.
NEVER = slice(6, 9)
EPSILON = 1e-5


class Ends(NamedTuple):
    """Nodes at the times of queries: z [n, d], statistics encoded and as they are, partners and sketches."""

    time: Floats
    z: Array
    encoded: Array
    past: Array
    partners: Array
    sketch: Array


@dataclass(frozen=True)
class NumpyQueries:
    """The weights of a model by name, and the arenas of its state; `events` is how many it has absorbed."""

    config: Config
    weights: Mapping[str, Array]
    arenas: Mapping[str, Array]
    events: int

    def link(self, left: Ints, right: Ints, time: Floats) -> Array:
        """Logits [Q] of events left -> right, rows of the vocabulary (-1: a node nobody knows), at times after what was
        absorbed; one left end, and its time, may stand for all.
        """
        ours = self._ends(left, time[: len(left)])
        theirs = self._ends(right, time)
        head, weights = self.config.head, self.weights
        u, v = ours.z, theirs.z
        if head == "dot":
            return np.asarray((u * v).sum(axis=1))
        if head == "role-dot":
            products = self._linear("head.of_left", u) * self._linear("head.of_right", v)
            return np.asarray(products.sum(axis=1) * self.config.width**-0.5)
        if head == "additive":
            of_left, of_right = weights["head.of_both.weight"].reshape(2, -1)
            return np.asarray(u @ of_left + v @ of_right + weights["head.of_both.bias"])
        by_left, by_right, by_product = weights["head.of_pair"]
        logits = np.asarray(u @ by_left + (v * (by_right + by_product * u)).sum(axis=1))
        return logits if "head.direct.bias" not in weights else logits + self._direct(ours, theirs)

    def _direct(self, ours: Ends, theirs: Ends) -> Array:
        """Logits [Q] of the network over what is known of pairs without weights: is it this destination?"""
        weights = self.weights
        hidden = weights["head.direct.bias"]
        if self.config.statistics:
            hidden = hidden + self._product("head.direct.of_left", ours.encoded)
            hidden = hidden + self._product("head.direct.of_right", theirs.encoded)
        if self.config.sketched:
            walks = self._cosines(ours, theirs) / weights["walk_scale"]
            hidden = hidden + self._product("head.direct.of_walks", walks)
        if self.config.partners:
            hidden = hidden + self._product("head.direct.of_pairs", self._pairs(ours, theirs))
        hidden = np.maximum(self._linear("head.direct.second", np.maximum(hidden, 0)), 0)
        return np.asarray(hidden @ weights["head.direct.out.weight"][0] + weights["head.direct.out.bias"][0])

    def _ends(self, node: Ints, time: Floats) -> Ends:
        """Nodes at times."""
        row = np.where((node >= 0) & (node < len(self.arenas["embedding"]) - 1), node + 1, 0)
        embedding, past, partners, sketch = (
            self.arenas[name][row].astype(np.float64) for name in ("embedding", "statistics", "partners", "sketch")
        )
        if not self.config.statistics:
            z = self._project(embedding, (time - past[:, Statistic.LAST :][:, :2].max(axis=1)) / self.config.span)
            return Ends(time, z, z[:, :0], past, partners, sketch)
        columns, encoded = self._encode(past, partners, time)
        known = self._product("projection.of_statistics", columns)
        if "projection.of_node.weight" in self.weights:
            known = known + self._product("projection.of_node", self._inputs(node))
        line = self.weights["projection.own"] * embedding + (known + self.weights["projection.of_statistics.bias"])
        line = np.maximum(line, 0)
        line = line - line.mean(axis=1, keepdims=True)
        line = line / np.sqrt((line * line).mean(axis=1, keepdims=True) + EPSILON)
        z = line * self.weights["projection.norm.weight"] + self.weights["projection.norm.bias"]
        return Ends(time, z, encoded, past, partners, sketch)

    def _project(self, embedding: Array, pause: Floats) -> Array:
        """z [Q, d] without statistics, from h and the pause [Q] in spans, infinite where there was no event."""
        if not self.config.projection:
            return embedding
        never = np.isinf(pause)
        pause = np.where(never, 0.0, pause)
        if self.config.log_pause:
            shortest = self.config.unit / self.config.span
            pause = np.log1p(pause / shortest) / (2.0 * np.log1p(1.0 / shortest))
        frequency, phase = (
            self.weights[f"projection.encoding.{name}"].astype(np.float64) for name in ("frequency", "phase")
        )
        waves = np.where(never[:, None], 0.0, np.cos(pause[:, None] * frequency + phase))
        hidden = np.maximum(self._linear("projection.hidden", np.concatenate([embedding, waves], axis=1)), 0)
        return self._linear("projection.out", hidden)

    def _inputs(self, node: Ints) -> Array:
        """h_0 [Q, d] of nodes; see `Inputs`."""
        total = np.zeros((len(node), self.config.width))
        for name in ("inputs.vectors.weight", "inputs.features"):
            table = self.weights.get(name)
            if table is not None and table.shape[1]:
                rows = table[np.where(node < len(table) - 1, node + 1, 0)]
                total = total + (rows if name.endswith("weight") else self._linear("inputs.of_features", rows))
        return total

    def _encode(self, past: Array, partners: Array, time: Floats) -> tuple[Array, Array]:
        """Statistics [Q, .] centred and scaled, and encoded, as in `StatisticsEncoder`."""
        config, weights = self.config, self.weights
        last, seen = past[:, Statistic.LAST :][:, :2], past[:, Statistic.SEEN :][:, :2]
        never = np.isinf(last)
        since = np.where(never, np.inf, [time[:, None] - last, self.events - seen])
        since = np.concatenate([since, since.min(axis=2, keepdims=True)], axis=2)
        unknown = np.isinf(since[0])
        pause, ticks = np.where(unknown, 0.0, since)
        rate = config.count_rates() / config.events
        kept = np.exp(-ticks[:, 2:] * rate)
        recent = past[:, Statistic.RECENT :] * np.repeat(kept, 2, axis=1)
        columns = [np.log1p(pause / config.unit), np.log1p(ticks), unknown]
        columns += [np.log(past[:, Statistic.COUNT :][:, :2] + COUNT_FLOOR), np.log(recent + COUNT_FLOOR)]
        if config.partners:
            fresh = partners[:, Partner.RECENT :][:, : len(rate)] * kept
            columns += [np.log(partners[:, Partner.NEW :][:, :2] + COUNT_FLOOR), np.log(fresh + COUNT_FLOOR)]
        rows = np.concatenate(columns, axis=1)
        rows = (rows - weights["statistics.centre"]) / weights["statistics.scale"]
        graded = np.delete(np.arange(rows.shape[1]), NEVER)
        return rows, np.concatenate([rows, _pieces(rows[:, graded], weights["statistics.edges"])], axis=1)

    def _pairs(self, ours: Ends, theirs: Ends) -> Array:
        """[Q, .] the encoded facts of pairs, as in `PairEncoder`; see `recent_partners.pair_facts`."""
        config, weights = self.config, self.weights
        facts = np.zeros((len(theirs.time), Pair.WIDTH))
        known = (ours.partners[:, Partner.KEY] >= 0) & (theirs.partners[:, Partner.KEY] >= 0)
        left, right = self._remembered(ours.partners, theirs.partners), self._remembered(theirs.partners, ours.partners)
        there, other = known & left[0], known & right[0]
        met = there | other
        last, seen = (np.where(other, right[1][part], left[1][part]) for part in (Partner.LAST, Partner.SEEN))
        facts[:, Pair.MET] = met
        facts[:, Pair.PAUSE] = np.where(met, (theirs.time - last) / config.unit, 0.0)
        facts[:, Pair.TICKS] = np.where(met, self.events - seen, 0.0)
        for role, end, (_, noted), which in ((0, ours, left, there), (1, theirs, right, other)):
            total = end.past[:, Statistic.COUNT :][:, :2].sum(axis=1)
            facts[:, Pair.OWN_EVENTS + role] = total - np.where(which, noted[Partner.OWN], 0.0)
            mine = np.where(there, left[1][Partner.OUT + role], 0.0)
            facts[:, Pair.COUNTS + role] = np.maximum(mine, np.where(other, right[1][Partner.OUT + 1 - role], 0.0))
        told = (np.log1p(facts[:, 1:]) - weights["pairs.centre"]) / weights["pairs.scale"]
        encoded = np.concatenate([np.ones_like(told[:, :1]), told, _pieces(told, weights["pairs.edges"])], axis=1)
        return np.where(met[:, None], encoded, 0.0)

    def _remembered(self, rows: Array, others: Array) -> tuple[Array, list[Array]]:
        """Whether each node remembers each other as a partner [Q], and what, by block; any number where it does not."""
        slots, begin = self.config.partners, Partner.RECENT + len(self.config.half_lives)
        same = rows[:, begin : begin + slots] == others[:, Partner.KEY, None]
        place, slot = np.arange(len(same)), begin + same.argmax(axis=1)
        rows = np.broadcast_to(rows, (len(same), rows.shape[1]))
        return same.any(axis=1), [rows[place, slot + block * slots] for block in range(Partner.BLOCKS)]

    def _cosines(self, ours: Ends, theirs: Ends) -> Array:
        """Cosines [Q, .] of the sketches of pairs; see `walk_sketch`."""
        left, right = self._walks(ours), self._walks(theirs)
        width = self.config.sketch_width
        products = np.matmul(left, right.swapaxes(2, 3)) / width
        norms = [np.sqrt((side * side).sum(axis=3) / width) for side in (left, right)]
        cosines = products / (norms[0][:, :, :, None] * norms[1][:, :, None] + COSINE_FLOOR)
        return np.asarray(cosines.reshape(*cosines.shape[:2], -1)[:, :, 1:].reshape(len(cosines), -1))

    def _walks(self, ends: Ends) -> Array:
        """[n, H, steps + 1, width] what is left of the sketches at the time of the query."""
        config, rate = self.config, self.config.sketch_rates()
        last = ends.past[:, Statistic.LAST :][:, :2].max(axis=1)
        known = last > -np.inf
        pause = np.where(known, ends.time - last, 0.0) / config.span
        ticks = np.where(known, self.events - ends.past[:, Statistic.SEEN :][:, :2].max(axis=1), 0.0) / config.events
        kept = np.exp(-pause[:, None] * rate[0] - ticks[:, None] * rate[1])
        rows, width, rates = ends.sketch, config.sketch_width, rate.shape[1]
        first = np.where(known[:, None], rows[:, :width], 0.0)[:, None, None]
        walks = rows[:, width:].reshape(len(rows), config.sketch_steps, rates, width).swapaxes(1, 2)
        first = np.broadcast_to(first, (len(rows), rates, 1, width))
        return np.concatenate([first, walks * kept[:, :, None, None]], axis=2)

    def _product(self, name: str, rows: Array) -> Array:
        """Rows times the weight of a linear layer."""
        return np.asarray(rows @ self.weights[f"{name}.weight"].T)

    def _linear(self, name: str, rows: Array) -> Array:
        """A linear layer."""
        return self._product(name, rows) + self.weights[f"{name}.bias"]


def _pieces(rows: Array, edges: Array) -> Array:
    """[Q, F bins] how much of each interval between the edges [F, bins + 1] lies below each of the rows [Q, F]."""
    low, high = edges[:, :-1], edges[:, 1:]
    share = np.clip((rows[:, :, None] - low) / (high - low), 0, 1)
    return np.asarray(share.reshape(len(rows), -1))
