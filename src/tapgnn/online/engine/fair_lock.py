"""A fair, reentrant lock: threads acquire it in the order in which they asked for it.

The locks of the standard library go to whichever thread runs first, usually the one that has just released it: a query
would wait for many batches where this lock lets it wait for one.
"""

from __future__ import annotations

import threading
from collections import deque


class FairLock:
    """Used with `with`; the thread that holds it may acquire it again."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[tuple[threading.Lock, int]] = deque()
        self._owner: int | None = None
        self._depth = 0

    @property
    def waiting(self) -> int:
        """The number of threads that wait for it."""
        return len(self._waiting)

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._owner == me:
            self._depth += 1
            return
        gate = threading.Lock()
        with self._guard:
            if self._owner is None:
                self._owner, self._depth = me, 1
                return
            gate.acquire()
            self._waiting.append((gate, me))
        try:
            # Whoever opens the gate has made this thread the owner already.
            gate.acquire()
        except BaseException:
            self._stop_waiting((gate, me))
            raise

    def __exit__(self, *exception: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            with self._guard:
                self._hand_over()

    def _stop_waiting(self, turn: tuple[threading.Lock, int]) -> None:
        """Leave the queue; a turn that came in the meantime goes to the next one."""
        with self._guard:
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self._hand_over()

    def _hand_over(self) -> None:
        if not self._waiting:
            self._owner = None
            return
        gate, self._owner = self._waiting.popleft()
        self._depth = 1
        gate.release()
