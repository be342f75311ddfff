"""GrowingLog: the events that a model has observed, kept so that it can answer queries about the past.

Pieces are merged as in a binary counter: a piece is merged with the previous one as soon as it is at least as long. An
event is therefore copied O(log M) times however small the pieces are, and a single piece is never copied. Labels are
dropped: no replay needs them, and a piece may have none.
"""

from __future__ import annotations

from dataclasses import replace

from tapgnn.errors import EventError
from tapgnn.events import Events


class GrowingLog:
    """Events in order of time that share a vocabulary, appended piece by piece.

    >>> log = GrowingLog()
    >>> first = Events.from_arrays(["a"], ["b"], [1.0])
    >>> log.append(first)
    >>> log.append(Events.from_arrays(["b"], ["c"], [2.0], vocabulary=first.vocabulary))
    >>> log.events().time
    array([1., 2.])
    """

    def __init__(self) -> None:
        self._pieces: list[Events] = []

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def append(self, events: Events) -> None:
        """Add events that start no earlier than the log ends."""
        if not len(events):
            return
        self._pieces.append(replace(events, labels=None))
        while len(self._pieces) > 1 and len(self._pieces[-2]) <= len(self._pieces[-1]):
            self._merge_last()

    def events(self) -> Events:
        """The whole log."""
        if not self._pieces:
            raise EventError("the log is empty; observe events first")
        while len(self._pieces) > 1:
            self._merge_last()
        return self._pieces[0]

    def _merge_last(self) -> None:
        later = self._pieces.pop()
        self._pieces[-1] = self._pieces[-1].append(later)
