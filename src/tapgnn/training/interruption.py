"""Ctrl-C at a safe place: the signal is noted when it arrives, and KeyboardInterrupt is raised at the next `check`.

Raised at once, it can be lost in compiled code, or surface there as another error.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Interruption:
    """Within `with`, the first Ctrl-C waits for `check`, and a second one does not wait.

    Where the process handles the signal in a way of its own, and outside the main thread, nothing is changed.
    """

    asked = False

    def __enter__(self) -> Interruption:
        self.asked = False
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self._ours = usual and threading.current_thread() is threading.main_thread()
        if self._ours:
            signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C has come."""
        if self.asked:
            raise KeyboardInterrupt

    def __exit__(self, *error: object) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
