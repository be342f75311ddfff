"""Output: results go to standard output, messages to standard error, and JSON is the last line of standard output."""

from __future__ import annotations

import codecs
import contextlib
import csv
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapgnn.cli.options import option
from tapgnn.errors import ConfigError
from tapgnn.file_integrity import atomic_write, write_atomically

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def say(message: str, console: Console | None = None) -> None:
    """Print a message to standard error without markup; a progress bar passes its own console."""
    from rich.console import Console

    (console or Console(stderr=True)).print(message, markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Output:
    """The results of a command: tables for people, and with --json one object for programs."""

    json: bool = option(
        "", "Print one JSON object as the last line of standard output.", False, "--json", default=False
    )

    def show(self, title: str, table: Table) -> None:
        """Print a table to standard output, or to standard error if standard output is for JSON."""
        from rich.console import Console

        console = Console(stderr=self.json)
        console.print(title, style="bold", markup=False, highlight=False, soft_wrap=True)
        console.print(table)

    def result(self, value: Any) -> None:
        """Print one object on one line of standard output, if --json asks for it."""
        if self.json:
            sys.stdout.write(json.dumps(plain(value), allow_nan=False, ensure_ascii=False) + "\n")


def write_json(path: Path, value: Any) -> None:
    """Write one object to a file, whole or not at all."""
    write_atomically(path, json.dumps(plain(value), allow_nan=False, ensure_ascii=False, indent=2) + "\n")


def check_folder(folder: Path, option: str = "--out") -> None:
    """Refuse a folder that cannot be created or written to, before any work is done."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise ConfigError(f"{option} {folder}: {place} is a file; pass the name of a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"{option} {folder}: {place} is not writable; pass another folder with {option}")


def check_file(path: Path | None) -> None:
    """The same for the file that --out names, if any."""
    if path is not None:
        if path.is_dir():
            raise ConfigError(f"--out {path} is a folder; pass the name of a file")
        check_folder(path.parent)


def write_csv(header: Sequence[str], rows: Iterable[Sequence[Any]], path: Path | None = None) -> None:
    """Write rows as CSV, to a file or to standard output."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.nullcontext() if path is None else atomic_write(path) as whole:
        writer = csv.writer(sys.stdout if whole is None else codecs.getwriter("utf-8")(whole), lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def plain(value: Any) -> Any:
    """A value that JSON can hold: numpy scalars and arrays become numbers and lists, non-finite numbers become null.

    >>> plain({"auc": float("nan"), "seeds": (1, 2)})
    {'auc': None, 'seeds': [1, 2]}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Path) else value
