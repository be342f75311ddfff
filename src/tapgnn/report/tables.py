"""The sections with tables: results, data statistics, settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from typing import Any

from tapgnn.data.statistics import HEADINGS
from tapgnn.report.content import Report, as_float, is_share, mean_of, spread_of, stems
from tapgnn.report.headline import results, seeds
from tapgnn.report.layout import Cell, Section, Table
from tapgnn.report.numbers import UNKNOWN, count, decimal, is_unix, label, moment, number, percent

_METHODS = {
    "recency": "how recently the destination was active",
    "recency-destination": "how recently the destination received an event",
    "popularity": "how many events the destination received so far",
    "edgebank": "whether the pair has interacted before",
    "edgebank-window": "whether the pair has interacted within a time window",
    "pair-recency": "how recently the source had an event with the destination",
    "pair-recency-both": "how recently the pair had an event, in either direction",
    "pair-count": "how many events the source had with the destination",
    "pair-then-node": "how recently the pair had an event; below all pairs that had one, how recently the destination",
}
_NEGATIVE_TYPES = {
    "transductive_auc": "AUC, seen nodes",
    "inductive_auc": "AUC, unseen nodes",
    "historical_auc": "AUC, historical negatives",
    "historical_ap": "AP, historical negatives",
    "inductive_negatives_auc": "AUC, inductive negatives",
    "inductive_negatives_ap": "AP, inductive negatives",
}
_DATA = {
    "Size": ("nodes", "events", "temporal_nodes", "message_links", "ratio", "feature_width", "labels"),
    "Time": ("start", "end", "timespan_days", "timespan", "instants", "ties", "sorted"),
    "Shape": ("bipartite", "degree_max", "degree_mean", "density", "repetition", "duplicates", "self_loops"),
}


def comparison(report: Report) -> Section | None:
    """All methods and measures in one table, except those of `negative_types`."""
    table = results(report)
    columns = [stem for stem in _known(table) if stem not in _NEGATIVE_TYPES]
    if not columns:
        return None
    words = [
        f"All methods answer the same queries about the {report.period} period. The best value of each column is bold."
    ]
    if any(spread_of(row, stem) > 0 for row in table.values() for stem in columns):
        size = seeds(report)
        words[0] += f" ± is the standard deviation over {count(size, 'seed') if size > 1 else 'the seeds'}."
    terms = [(name, _METHODS[name]) for name in table if name in _METHODS]
    if terms:
        words.append("The trivial baselines are not trained; each ranks destinations by one criterion:")
    found = Table(f"Results on the {report.period} period", ["Method", *map(label, columns)], _rows(table, columns))
    return Section("results", "Results", words, terms=terms, tables=[found])


def negative_types(report: Report) -> Section | None:
    """The results by seen and unseen nodes, and by type of negative."""
    table = results(report)
    columns = [stem for stem in _NEGATIVE_TYPES if stem in _known(table)]
    if not columns:
        return None
    words = [
        "Seen nodes: both nodes occur in training (transductive). Unseen nodes: at least one does not (inductive). "
        "Both with random negatives.",
        "Historical negatives: destinations of the source in training. Inductive negatives: destinations of the source "
        "that occur only later. Both are harder to distinguish from the true destination.",
    ]
    head = ["Method", *(_NEGATIVE_TYPES[stem] for stem in columns)]
    found = Table("Results by node and negative type", head, _rows(table, columns))
    return Section("negative-types", "By node and negative type", words, tables=[found])


def measure_table(caption: str, first: str, table: dict[str, dict[str, float]]) -> Table:
    """Rows of measures, those of several seeds with their deviation; the best share of a column is bold."""
    columns = _known(table)
    return Table(caption, [first, *map(label, columns)], _rows(table, columns))


def _known(table: dict[str, dict[str, float]]) -> list[str]:
    """The measures that at least one method has."""
    return [stem for stem in stems(table) if any(math.isfinite(mean_of(row, stem)) for row in table.values())]


def _rows(table: dict[str, dict[str, float]], columns: list[str]) -> list[tuple[str, list[Cell]]]:
    """A row per method; the best share of a column is bold."""
    best = {stem: max(filter(math.isfinite, (mean_of(row, stem) for row in table.values()))) for stem in columns}
    return [(name, [_measure(row, stem, best[stem]) for stem in columns]) for name, row in table.items()]


def _measure(row: dict[str, float], stem: str, best: float) -> Cell:
    value, spread = mean_of(row, stem), spread_of(row, stem)
    if not is_share(stem):
        return Cell(number(value))
    aside = f"± {decimal(spread, 4)}" if math.isfinite(spread) and spread > 0 else ""
    return Cell(decimal(value, 4), aside, strong=value == best)


def data(report: Report) -> Section | None:
    """The statistics of the log, including unknown ones."""
    if not report.data:
        return None
    unix = is_unix([as_float(report.data.get("end"))])
    groups = {**_DATA, "Other": [key for key in report.data if key not in chain(*_DATA.values())]}
    rows = {
        title: [_statistic(key, report.data[key], unix) for key in keys if key in report.data]
        for title, keys in groups.items()
    }
    words = [
        "A temporal node is a node at an instant in which it is active; "
        "message links connect a temporal node to those that it receives messages from."
    ]
    tables = [Table(title, ["", "Value"], found) for title, found in rows.items() if found]
    return Section("data", "Data", words, tables=tables)


def _statistic(key: str, value: Any, unix: bool) -> tuple[str, list[Cell]]:
    timely = key in ("start", "end")
    shown = moment(as_float(value), unix) if timely else percent(value) if key == "repetition" else number(value)
    return label(HEADINGS.get(key, key)), [Cell(shown)]


def settings(report: Report) -> Section | None:
    """The configuration and the versions, collapsed."""
    table = settings_table(report.settings)
    return Section("settings", "Settings", tables=[table], folded=True) if table.rows else None


def settings_table(values: Mapping[str, Any]) -> Table:
    """The settings, a row for each."""
    rows = [(key, [Cell(value)]) for key, value in _flat(values)]
    return Table("Configuration and versions of this run", ["Setting", "Value"], rows, wordy=True)


def _flat(values: Mapping[Any, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows = []
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            rows += _flat(value, f"{prefix}{key}.")
        else:
            rows.append((f"{prefix}{key}", UNKNOWN if value is None else str(value)))
    return rows
