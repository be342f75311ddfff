"""What is printed where: results to standard output, remarks to standard error, JSON as the last line of the former."""

from __future__ import annotations

import codecs
import contextlib
import csv
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tapgnn.errors import ConfigError
from tapgnn.file_integrity import atomic_write, write_atomically


def say(message: str, console: Console | None = None) -> None:
    """A remark on standard error, as it stands; a bar that is drawn there has a console of its own."""
    (console or Console(stderr=True)).print(message, markup=False, highlight=False, soft_wrap=True)


def show(title: str, table: Table, as_json: bool) -> None:
    """A table for people: on standard output, unless a JSON object is to stand there."""
    console = Console(stderr=as_json)
    console.print(title, style="bold", markup=False, highlight=False, soft_wrap=True)
    console.print(table)


def print_json(value: Any) -> None:
    """One object on one line of standard output."""
    sys.stdout.write(json.dumps(plain(value), allow_nan=False, ensure_ascii=False) + "\n")


def write_json(path: Path, value: Any) -> None:
    """One object in a file that is there whole or not at all."""
    write_atomically(path, json.dumps(plain(value), allow_nan=False, ensure_ascii=False, indent=2) + "\n")


def check_folder(folder: Path, option: str = "--out") -> None:
    """Refuse, before any work is done, a folder that could not be made or written to."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise ConfigError(f"{option} {folder}: {place} is a file; pass the name of a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"{option} {folder}: nothing can be written in {place}; pass another folder with {option}")


def check_file(path: Path | None) -> None:
    """The same of a file that --out names, where it names one."""
    if path is not None:
        if path.is_dir():
            raise ConfigError(f"--out {path} is a folder; pass the name of a file")
        check_folder(path.parent)


def write_csv(header: Sequence[str], rows: Iterable[Sequence[Any]], path: Path | None = None) -> None:
    """Rows as CSV, into a file or to standard output."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.nullcontext() if path is None else atomic_write(path) as whole:
        writer = csv.writer(sys.stdout if whole is None else codecs.getwriter("utf-8")(whole), lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def plain(value: Any) -> Any:
    """A value that JSON can hold: numpy scalars and arrays become numbers and lists, what is not finite becomes null.

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
    return str(value) if isinstance(value, Path) else value
