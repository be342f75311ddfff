"""A turnstile: a lock that is had in the order in which it was asked for; the thread that has it may take it again.

The locks of the standard library go to whoever runs first, which is the thread that has just released it: a question
would wait for many batches where this one lets it wait for one.
"""

from __future__ import annotations

import threading
from collections import deque


class Turnstile:
    """Used with `with`; the thread that is inside may enter again."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[tuple[threading.Lock, int]] = deque()
        self._inside: int | None = None
        self._depth = 0

    @property
    def waiting(self) -> int:
        """Threads that wait for their turn."""
        return len(self._waiting)

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._inside == me:
            self._depth += 1
            return
        gate = threading.Lock()
        with self._guard:
            if self._inside is None:
                self._inside, self._depth = me, 1
                return
            gate.acquire()
            self._waiting.append((gate, me))
        try:
            # Whoever opens the gate has put this thread inside already.
            gate.acquire()
        except BaseException:
            self._give_up((gate, me))
            raise

    def __exit__(self, *exception: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            with self._guard:
                self._admit_next()

    def _give_up(self, turn: tuple[threading.Lock, int]) -> None:
        """Leave the queue; a turn that came in the meantime goes to the next one."""
        with self._guard:
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self._admit_next()

    def _admit_next(self) -> None:
        if not self._waiting:
            self._inside = None
            return
        gate, self._inside = self._waiting.popleft()
        self._depth = 1
        gate.release()
