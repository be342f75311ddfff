"""What any fitted model is asked: questions in the user's ids and times, put to its rows and clock.

`TAPGNN` answers them with the whole of a model, `SavedModel` with the arrays of a folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tapgnn.data.arguments import is_whole, listed_ids, seconds_of
from tapgnn.data.frame_answers import answer_like
from tapgnn.data.reading.clock import UNITS
from tapgnn.data.schema import Schema
from tapgnn.errors import QueryError, advise
from tapgnn.events import Floats, Ints
from tapgnn.vocabulary import Id, Vocabulary

Ids = Sequence[Id] | ArrayLike
Side = Literal["src", "dst"]


class FittedQueries(ABC):
    """Questions about the nodes of a vocabulary, whose ids a schema explains."""

    # The rows of the destinations of the training log.
    candidates_: Ints

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The ids that the model knows: later events are read or built with it."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """What the columns of the table mean."""

    @property
    @abstractmethod
    def now(self) -> float:
        """The time of a question without one: just after the last event."""

    @abstractmethod
    def embed_rows(self, node: Ints, when: Floats) -> NDArray[np.float32]:
        """z [Q, d] of rows of the vocabulary at times in the unit of the log."""

    @abstractmethod
    def score_rows(self, src: Ints, dst: Ints, when: Floats) -> Floats:
        """Logits [Q] of links of rows of the vocabulary; one source, at one time, may stand for all."""

    def embed(self, nodes: Ids, times: ArrayLike | None = None, side: Side | None = None) -> Any:
        """z(v,t) [Q, d], from what came strictly before each time; times in the past replay the log.

        `side` says whether ids that a source and a destination share stand for the one ('src') or the other ('dst').
        """
        node = self._rows(nodes, side)
        vectors = self.embed_rows(node, self._times(times, len(node)))
        return answer_like(nodes, vectors, [f"z{place}" for place in range(vectors.shape[1])])

    def score(self, src: Ids, dst: Ids, times: ArrayLike | None = None) -> Any:
        """The score [Q] of each link src -> dst at its time, which must lie after what was observed.

        The chance that an event has this destination rather than one drawn at random.
        """
        left, right = self._rows(src, "src"), self._rows(dst, "dst")
        if len(left) != len(right):
            raise QueryError(f"expected as many destinations as sources, not {len(right)} and {len(left)}; pair them")
        return answer_like(src, _chance(self.score_rows(left, right, self._times(times, len(left)))), ["score"])

    def rank(self, src: Id | Ids, time: Any = None, k: int = 10, among: Ids | None = None) -> Any:
        """The k likeliest destinations of a source at a time, with their scores; of several sources, a list of each.

        Candidates are the destinations of the training log (every node of one that is not bipartite), or those given.
        """
        if not is_whole(k) or k < 1:
            raise QueryError(f"k must be a whole number of at least 1, not {k!r}")
        sources = self._rows(src, "src")
        when = self._times(time, len(sources))
        pool = self.candidates_
        if among is not None:
            pool = self.vocabulary.known_rows(self.schema.internal_dst(listed_ids(among)))
        best = [self._best(sources[place : place + 1], when[place], pool, k) for place in range(len(sources))]
        return best[0] if isinstance(src, str | Integral) else best

    def _best(self, source: Ints, when: float, pool: Ints, k: int) -> list[tuple[Id, float]]:
        """The k best rows of the pool for a source [1] as the user's ids, with their scores."""
        if not len(pool):
            return []
        logits = self.score_rows(source, pool, np.full(len(pool), when))
        best = np.argsort(-logits, kind="stable")[:k]
        names = self.schema.external([self.vocabulary.ids[row] for row in pool[best].tolist()])
        return list(zip(names, _chance(logits[best]).tolist(), strict=True))

    def _rows(self, ids: Any, side: Side | None) -> Ints:
        """[Q] the rows of the user's ids, -1 for an unknown node; on one side, or on the only one that knows it."""
        schema, vocabulary = self.schema, self.vocabulary
        if side not in ("src", "dst", None):
            raise QueryError(f"side is 'src' or 'dst', not {side!r}")
        names = listed_ids(ids)
        if not schema.bipartite:
            return vocabulary.rows(names)
        left, right = vocabulary.rows(schema.internal_src(names)), vocabulary.rows(schema.internal_dst(names))
        if side is not None:
            return left if side == "src" else right
        both = np.flatnonzero((left >= 0) & (right >= 0))
        if len(both):
            raise advise(
                QueryError,
                f"{list(names)[both[0]]!r} is a {schema.src} and also a {schema.dst}",
                "pass side='src' or side='dst'",
                "pass --side src or --side dst",
            )
        return np.maximum(left, right)

    def _times(self, times: Any, size: int) -> Floats:
        """[Q] times in the unit of the log: numbers as they are, datetimes counted in it, now where there are none."""
        if times is None:
            return np.full(size, self.now)
        when = seconds_of(times, size)
        is_number = np.asarray(times).dtype.kind in "iuf" or isinstance(np.atleast_1d(times).flat[0], int | float)
        return when if is_number else when / UNITS[self.schema.time_unit]


def _chance(logits: Floats) -> Floats:
    """The logistic function, which must not overflow."""
    return np.exp(-np.logaddexp(0.0, -logits))
