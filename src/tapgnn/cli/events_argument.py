"""EVENTS: a path or the name of a data set, read with the options of the reader.

Next to a file, `tapgnn simulate` writes FILE.simulated.json with its checksum. All results from that file are labelled
as simulated.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapgnn.cli.options import ReadingOptions
from tapgnn.cli.output import say
from tapgnn.file_integrity import file_sha256

if TYPE_CHECKING:
    from tapgnn.data import ReadReport, Schema
    from tapgnn.data.datasets.tgb_negatives import BoardNegatives
    from tapgnn.data.node_table import NodeTable
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

    @property
    def schema(self) -> Schema:
        """What its columns mean."""
        from tapgnn.data import Schema

        return self.report.schema or Schema()

    @property
    def unit(self) -> float:
        """Seconds in a unit of its times."""
        from tapgnn.data.reading.clock import UNITS

        return UNITS[self.schema.time_unit]

    def board_negatives(self, protocol: str) -> BoardNegatives | None:
        """What its board ranks each event against, where the protocol asks for it and `py-tgb` has the files."""
        from tapgnn.data.datasets.tgb import SAME_EVENTS, is_tgb
        from tapgnn.data.datasets.tgb_negatives import tgb_negatives

        if protocol != "tgb" or not is_tgb(self.name):
            return None
        found = tgb_negatives(self.name)
        if found is None and self.name not in SAME_EVENTS:
            say(f"note: py-tgb has no negatives of {self.name} here; events are ranked among all destinations")
        return found

    def opening(self, plan: str, nodes: NodeTable | None = None) -> str:
        """What a command is going to do with it, after how its columns were read, and what may be meant instead."""
        lines, suggestions = [f"columns: {schema_line(self.schema)}"], self.report.suggestions
        if nodes is not None:
            lines[0] += f"; {len(nodes.ids):,} nodes described by {', '.join(list(nodes.kinds)[:8]) or 'nothing'}"
            suggestions = [*suggestions, *nodes.suggestions]
        if suggestions:
            more = f" (and {len(suggestions) - 2} more; see 'tapgnn inspect')" if len(suggestions) > 2 else ""
            lines.append(f"note: {'; '.join(suggestions[:2])}{more}")
        return "\n".join([*lines, f"{self.title}: {plan}"])


def schema_line(schema: Schema) -> str:
    """What the columns of a log mean, in one line."""
    kinds = {"number": "numbers", "category": "categories", "boolean": "booleans"}
    parts = [f"{schema.src} -> {schema.dst} at {schema.time}{', two kinds of nodes' if schema.bipartite else ''}"]
    for kind, word in kinds.items():
        names = [name for name, own in schema.columns.items() if own == kind]
        shown = names if len(names) <= 8 else [*names[:3], "...", names[-1]]
        parts += [f"{word} {', '.join(shown)}"] if names else []
    for role in ("label", "id"):
        parts += [f"{role} {getattr(schema, role)}"] if getattr(schema, role) else []
    parts += [f"not used {', '.join(schema.dropped[:8])}{', ...' * (len(schema.dropped) > 8)}"] * bool(schema.dropped)
    return "; ".join(parts)


def read_log(events: str, reading: ReadingOptions) -> Log:
    """Read the events that the user named; skipped rows are reported."""
    return read_with(events, reading.options())


def read_with(events: str, options: Mapping[str, Any]) -> Log:
    """Read the events that the user named with the options of a reader."""
    from tapgnn.data import ReadReport, load_dataset

    report = ReadReport()
    with held_back():
        found = load_dataset(events, report=report, **options)
    return _noted(events, found, report)


def read_whole(events: str, options: Mapping[str, Any]) -> Log:
    """As `read_with`; of a file also the id of each event and the columns that no model takes, as they are there."""
    import numpy as np

    from tapgnn.data import ReadReport, dataset_path, read_table
    from tapgnn.data.reading.cells import without_missing

    path, report = dataset_path(events), ReadReport()
    if path != Path(events):
        return read_with(events, options)
    with held_back():
        found, place, rows = read_table(path, report=report, **options)
    schema, others = report.schema, {}
    for name in (schema.id, *schema.dropped) if schema is not None else ():
        if name in rows.columns:
            cells = rows[name] if report.typed else without_missing(rows[name])
            others[str(name)] = np.fromiter(cells.to_list(), object, len(cells))[place]
    return _noted(events, replace(found, columns={**found.columns, **others}), report)


def describe_log(events: str, reading: ReadingOptions) -> tuple[Log, dict[str, Any]]:
    """The statistics of the events that the user named; a file sorted by time is read in pieces and not kept."""
    from tapgnn.data import ReadReport, Summary, describe, stream_dataset
    from tapgnn.errors import DataError

    report, summary, last = ReadReport(), Summary(), None
    try:
        with held_back():
            for piece in stream_dataset(events, PIECE, report=report, **reading.options()):
                summary.add(piece)
                last = piece
    except DataError:
        if report.sorted:
            raise
    if report.sorted and last is not None:
        log = _noted(events, last.slice(0, 0), report, last)
        return log, summary.table(was_sorted=True, unit=log.unit)
    log = read_log(events, reading)
    return log, describe(log.events, was_sorted=log.report.sorted, unit=log.unit)


def _noted(events: str, found: Events, report: ReadReport, latest: Events | None = None) -> Log:
    """The log, after messages about how it was read; `latest` are its last events, where it does not hold them."""
    from tapgnn.data import DATASETS, dataset_path, missing_folder
    from tapgnn.data.reading.clock import other_unit

    times, unit = (found if latest is None else latest).time, "s" if report.schema is None else report.schema.time_unit
    odd = other_unit(times, unit) if len(times) else None
    if odd is not None and odd not in report.suggestions:
        report.suggestions.append(odd)
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
def held_back() -> Iterator[None]:
    """Silence the reader: `_noted` reports the same once reading has succeeded."""
    logger = logging.getLogger("tapgnn.data")
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False
