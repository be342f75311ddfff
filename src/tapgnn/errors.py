"""Every error that a caller can cause, in one tree.

A message says what was expected, what came, where it stands, and the cure. Where the cure is another one on the command
line or over HTTP than in Python, the error knows it in their words (`advise`, `TapgnnError.told`).
"""

from __future__ import annotations

from typing import Literal, TypeVar

Interface = Literal["command_line", "http"]


class TapgnnError(Exception):
    """The root: catch it to catch everything the library raises on purpose."""

    def told(self, interface: Interface) -> str:
        """The message in the words of an interface."""
        return str(getattr(self, f"_{interface}", self))


class EventError(TapgnnError, ValueError):
    """The events handed in are not usable as they are."""


class LateEventError(EventError):
    """An event is not later than the clock of the state that should absorb it."""


class QueryError(TapgnnError, ValueError):
    """A query that cannot be answered exactly: an unknown node, or a time in the past."""


class ConfigError(TapgnnError, ValueError):
    """A configuration that does not fit itself or the data."""


class StateError(TapgnnError, RuntimeError):
    """A state that was already consumed by `advance`, or that belongs to another model."""


class ModelFileError(TapgnnError, OSError):
    """A saved model that is missing, damaged, or newer than this version can read."""


class DataError(EventError):
    """A file of events that cannot be read as it is: the message names the file, the place and the cure."""


class DatasetError(TapgnnError):
    """A registered data set that is unknown, not here, or not what its checksum and counts say."""


class JournalError(TapgnnError):
    """A journal that cannot be used: in use, damaged, full, newer, or of another model."""


class OutcomeUnknownError(JournalError):
    """A batch that may be in the journal or not: only one with a producer and a sequence may be sent again."""


class UnavailableError(JournalError):
    """A batch of which certainly nothing was taken in: replaying, stopping, failed before, or the disk is full."""


class AnswerGoneError(TapgnnError):
    """A batch that was taken in before, whose scores are no longer kept: it counts once."""


class OverloadError(TapgnnError):
    """More is waiting for a live engine than it lets wait; `seconds` says when to try again."""

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.seconds = seconds


class ServerError(TapgnnError):
    """A server refused, or could not be reached; `status` and `type` are those of its answer, None without them."""

    def __init__(self, message: str, status: int | None = None, type: str | None = None) -> None:
        super().__init__(message)
        self.status, self.type = status, type


class IrrevocableError(StateError, JournalError):
    """Events that cannot be taken back: the state saved with the model holds them, or earlier records were dropped."""


Kind = TypeVar("Kind", bound=TapgnnError)


def advise(kind: type[Kind], what: str, python: str, command_line: str, http: str | None = None) -> Kind:
    """An error that says what is wrong, and the cure in the words of each interface.

    >>> late = advise(LateEventError, "the event is late", "pass late='merge'", "pass --late merge")
    >>> str(late), late.told("command_line")
    ("the event is late; pass late='merge'", 'the event is late; pass --late merge')
    """
    found = kind(f"{what}; {python}")
    for name, cure in {"_command_line": command_line, "_http": http}.items():
        if cure is not None:
            setattr(found, name, f"{what}; {cure}")
    return found
