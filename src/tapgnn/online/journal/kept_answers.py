"""Kept answers: the scores and risks that a batch with a sequence was given, for when the batch is sent again.

An answer follows from the records, as the state does, so it belongs to the checkpoint. A record says by its kind which
answer it was given. Those of records after the latest checkpoint are in memory, and a replay of these records computes
them again, to the last bit; a checkpoint writes them in its own transaction. Answers to the latest MOST_EVENTS events
are kept. An answer goes with any event of its batch that is undone, and with records that are trimmed away.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tapgnn.events import Floats
from tapgnn.online.journal.record import crc32

if TYPE_CHECKING:
    from tapgnn.online.journal.journal import Journal

MOST_EVENTS = 200_000
PAGE = 1_000
_HEAD = struct.Struct("<??")
_SET = (
    "INSERT INTO answers VALUES (?, ?, ?, ?) ON CONFLICT (position) DO UPDATE SET events = excluded.events, "
    "data = excluded.data, checksum = excluded.checksum"
)


class Answer(NamedTuple):
    """The scores [E] and risks [E] that were given, None where they were not asked for."""

    scores: Floats | None = None
    risks: Floats | None = None

    @property
    def events(self) -> int:
        """How many events it is about."""
        return max(len(values) for values in (self.scores, self.risks, ()) if values is not None)

    def data(self) -> bytes:
        """The bytes of it."""
        parts = [values.astype("<f8").tobytes() for values in self if values is not None]
        return b"".join([_HEAD.pack(*(values is not None for values in self)), *parts])

    @classmethod
    def read(cls, data: bytes) -> Answer:
        """What `data` gave."""
        given = _HEAD.unpack_from(data)
        parts = iter(np.frombuffer(data, "<f8", -1, _HEAD.size).astype(np.float64).reshape(sum(given), -1))
        return cls(*(next(parts) if each else None for each in given))


class KeptAnswers:
    """The answers in a journal, by the position of their record."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._fresh: dict[int, Answer] = {}
        self._fresh_events = 0
        self._stored: int | None = None

    def add(self, position: int, answer: Answer) -> None:
        """Keep an answer, in memory until `write`."""
        before = self._fresh.pop(position, None)
        self._fresh[position] = answer
        self._fresh_events += answer.events - (0 if before is None else before.events)
        while self._fresh_events > MOST_EVENTS and len(self._fresh) > 1:
            self._fresh_events -= self._fresh.pop(next(iter(self._fresh))).events

    def find(self, position: int) -> Answer:
        """The answer to the record at a position, an empty one where it is not kept."""
        if position in self._fresh:
            return self._fresh[position]
        return next((answer for _, answer in self._rows("WHERE position = ?", (position,))), Answer())

    def _rows(self, where: str, values: tuple[int, ...]) -> Iterator[tuple[int, Answer]]:
        if not self._journal.has_answers:
            return
        for position, events, data, checksum in self._journal.run(f"SELECT * FROM answers {where}", values):
            if crc32(f"{position} {events}", bytes(data)) != checksum:
                raise self._journal.damage(f"the answer to the batch at position {position} is damaged")
            yield position, Answer.read(bytes(data))

    def write(self, undone: Collection[int] = ()) -> None:
        """Write what is in memory, without answers to batches that are undone, within a transaction of the journal."""
        run = self._journal.run
        if undone:
            self._journal.run_many("DELETE FROM answers WHERE position = ?", ((position,) for position in undone))
        stored = self._stored
        if stored is None or undone:
            stored = int(run("SELECT COALESCE(SUM(events), 0) FROM answers")[0][0])
        fresh = {position: answer for position, answer in self._fresh.items() if position not in undone}
        rows = ((position, answer.events, answer.data()) for position, answer in fresh.items())
        self._journal.run_many(_SET, ((at, size, data, crc32(f"{at} {size}", data)) for at, size, data in rows))
        self._stored = self._without_oldest(stored + sum(answer.events for answer in fresh.values()))

    def _without_oldest(self, stored: int) -> int:
        """Drop the oldest answers where there are too many; gives how many events are left."""
        while stored > MOST_EVENTS:
            last = 0
            page = self._journal.run(f"SELECT position, events FROM answers ORDER BY position LIMIT {PAGE}")
            for position, events in page:
                if stored <= MOST_EVENTS:
                    break
                last, stored = position, stored - events
            self._journal.run("DELETE FROM answers WHERE position <= ?", (last,))
        return stored

    def clear(self) -> None:
        """Forget what is in memory: it is committed, or a replay computes it again."""
        self._fresh.clear()
        self._fresh_events = 0

    def recount(self) -> None:
        """Count again what is stored: a transaction was undone, or the journal was opened again."""
        self._stored = None

    def trim(self, position: int) -> None:
        """Drop the answers up to a position, within a transaction of the journal."""
        self._stored = None
        self._journal.run("DELETE FROM answers WHERE position <= ?", (position,))

    def verify(self) -> None:
        """Read all of them once; one that is damaged is an error."""
        after, found = -1, True
        while found:
            page = list(self._rows(f"WHERE position > ? ORDER BY position LIMIT {PAGE}", (after,)))
            found = bool(page)
            after = page[-1][0] if page else after
