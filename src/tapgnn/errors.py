"""Every error that a caller can cause, in one tree.

A message says what was expected, what came, where it stands, and the cure.
"""


class TapgnnError(Exception):
    """The root: catch it to catch everything the library raises on purpose."""


class EventError(TapgnnError, ValueError):
    """The events handed in are not usable as they are."""


class LateEventError(EventError):
    """An event is not younger than the clock of the state that should absorb it."""


class QueryError(TapgnnError, ValueError):
    """A question that cannot be answered exactly: an unknown node, or a time already passed."""


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
