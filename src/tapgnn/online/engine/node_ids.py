"""Ids of nodes outside and inside: a user's own, and those of the two sides of a bipartite table.

Inside, a source is `card_id:7` and a destination `merchant_id:7`; outside both are 7. Where the side is not known by
the place of an id, it is the side on which such a node exists; where both sides have one, the id must be given as it
is inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.data.schema import Schema
from tapgnn.errors import QueryError
from tapgnn.vocabulary import Id

SIDES = ("src", "dst")


class NodeIds:
    """Translates the ids of a schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def src(self, ids: Any) -> Any:
        """Sources as they are inside; one that is written so already stays."""
        return self._inside(ids, self.schema.internal_src)

    def dst(self, ids: Any) -> Any:
        """Destinations as they are inside."""
        return self._inside(ids, self.schema.internal_dst)

    def own(self, ids: Sequence[Id]) -> list[Id]:
        """The user's own ids."""
        return self.schema.external(ids)

    def role(self, name: Id) -> str | None:
        """The side of a node by its id inside, src or dst; None where there is one space of ids."""
        if not self.schema.bipartite or not isinstance(name, str):
            return None
        sides = zip(SIDES, self.schema.prefixes, strict=True)
        return next((role for role, mark in sides if name.startswith(mark)), None)

    def nodes(self, ids: Any, is_known: Callable[[Id], bool]) -> Any:
        """Nodes of either side as they are inside; a source where neither side has such a node."""
        return [self.node(name, is_known) for name in _listed(ids)] if self.schema.bipartite else ids

    def node(self, name: Id, is_known: Callable[[Id], bool], role: str | None = None) -> Id:
        """A node as it is inside, on a side or on either; an id that both sides have is an error then."""
        if not self.schema.bipartite or self.role(name) is not None:
            return name
        sides: dict[str, Id] = {"src": self.src([name])[0], "dst": self.dst([name])[0]}
        if role is not None:
            return sides[role]
        known = [side for side in sides.values() if is_known(side)]
        if len(known) > 1:
            raise QueryError(f"{name!r} is the id of two nodes; ask for {sides['src']!r} or {sides['dst']!r}")
        return known[0] if known else sides["src"]

    def _inside(self, ids: Any, translate: Callable[[Any], NDArray[Any]]) -> Any:
        if not self.schema.bipartite:
            return ids
        names = _listed(ids)
        pairs = zip(names, translate(names).tolist(), strict=True)
        return [name if self.role(name) is not None else new for name, new in pairs]


def _listed(ids: Any) -> list[Any]:
    return ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
