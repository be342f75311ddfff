"""EVENTS: a path or the name of a data set, read with the options of the reader.

Next to a file, `tapgnn simulate` writes FILE.simulated.json with its checksum. All results from that file are labelled
as simulated.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapgnn.cli.options import Reading
from tapgnn.cli.output import say
from tapgnn.file_integrity import file_sha256

if TYPE_CHECKING:
    from tapgnn.data import ReadReport
    from tapgnn.events import Events

NOTE = ".simulated.json"
PIECE = 1 << 18


@dataclass(frozen=True)
class Log:
    """A log: its name, its events, the report of the reader, and whether it is simulated."""

    name: str
    events: Events
    report: ReadReport
    simulated: bool

    @property
    def title(self) -> str:
        """Its name in tables and messages."""
        return f"{self.name} (simulated)" if self.simulated else self.name


def read_log(events: str, reading: Reading) -> Log:
    """Read the events that the user named; skipped rows are reported."""
    from tapgnn.data import ReadReport, load_dataset

    report = ReadReport()
    with _held_back():
        found = load_dataset(events, report=report, **reading.options())
    return _noted(events, found, report)


def describe_log(events: str, reading: Reading) -> tuple[Log, dict[str, Any]]:
    """The statistics of the events that the user named; a file sorted by time is read in pieces and not kept."""
    from tapgnn.data import ReadReport, Summary, describe, stream_dataset
    from tapgnn.errors import DataError

    report, summary, last = ReadReport(), Summary(), None
    try:
        with _held_back():
            for piece in stream_dataset(events, PIECE, report=report, **reading.options()):
                summary.add(piece)
                last = piece
    except DataError:
        if report.sorted:
            raise
    if report.sorted and last is not None:
        return _noted(events, last.slice(0, 0), report), summary.table(was_sorted=True)
    log = read_log(events, reading)
    return log, describe(log.events, was_sorted=log.report.sorted)


def _noted(events: str, found: Events, report: ReadReport) -> Log:
    """The log, after messages about how it was read."""
    from tapgnn.data import DATASETS, dataset_path, missing_folder

    if report.skipped:
        say(report.skipped_rows())
    if events in DATASETS and (remark := missing_folder()):
        say(f"{remark}; {events} is read from the cache")
    path = dataset_path(events)
    return Log(events if path != Path(events) else path.name, found, report, is_simulated(path))


def is_simulated(path: Path) -> bool:
    """Whether FILE.simulated.json says so and has the checksum of this file."""
    note = Path(f"{path}{NOTE}")
    try:
        return bool(json.loads(note.read_text(encoding="utf-8"))["sha256"] == file_sha256(path))
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """Silence the reader: `_noted` reports the same once reading has succeeded."""
    logger = logging.getLogger("tapgnn.data")
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False
