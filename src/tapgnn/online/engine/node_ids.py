"""Ids of nodes outside and inside: a user's own, and those of the two sides of a bipartite table.

Inside, a source is `card_id:7` and a destination `merchant_id:7`; outside both are 7. Where the side is not known by
the place of an id, it is the side on which such a node exists; where both sides have one, the id must be given as it
is inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapgnn.data.schema import Schema
from tapgnn.errors import QueryError
from tapgnn.vocabulary import Id


class NodeIds:
    """Translates the ids of a schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._prefixes = tuple(str(inside(["x"])[0])[:-1] for inside in (schema.internal_src, schema.internal_dst))

    def src(self, ids: Any) -> Any:
        """Sources as they are inside; one that is written so already stays."""
        return self._inside(ids, 0)

    def dst(self, ids: Any) -> Any:
        """Destinations as they are inside; one that is written so already stays."""
        return self._inside(ids, 1)

    def own(self, ids: Sequence[Id]) -> list[Id]:
        """The user's own ids."""
        return self.schema.external(ids)

    def nodes(self, ids: Any, is_known: Callable[[Id], bool]) -> Any:
        """Nodes of either side as they are inside; a source where neither side has such a node."""
        return [self.node(name, is_known) for name in _listed(ids)] if self.schema.bipartite else ids

    def node(self, name: Id, is_known: Callable[[Id], bool]) -> Id:
        """A node of either side as it is inside; an id that both sides have is an error."""
        if not self.schema.bipartite or (isinstance(name, str) and name.startswith(self._prefixes)):
            return name
        sides: list[Id] = [self.src([name])[0], self.dst([name])[0]]
        known = [side for side in sides if is_known(side)]
        if len(known) > 1:
            raise QueryError(f"{name!r} is the id of two nodes; ask for {sides[0]!r} or {sides[1]!r}")
        return known[0] if known else sides[0]

    def _inside(self, ids: Any, side: int) -> Any:
        if not self.schema.bipartite:
            return ids
        names, prefix = _listed(ids), self._prefixes[side]
        fresh = (self.schema.internal_src if side == 0 else self.schema.internal_dst)(names).tolist()
        return [name if isinstance(name, str) and name.startswith(prefix) else new
                for name, new in zip(names, fresh, strict=True)]  # fmt: skip


def _listed(ids: Any) -> list[Any]:
    return ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
