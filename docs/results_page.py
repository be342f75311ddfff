"""Writes docs/results.md from results/ and docs/results.md.jinja: `make page`.

Every number of the page comes from a stored file: results/EXPERIMENT/EXPERIMENT.json, which `tapgnn reproduce` writes,
and results/benchmarks/NAME.json, which `python benchmarks/record.py` writes. A section without its file is left out,
and the last one lists the command that makes it.
"""

import json
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tapgnn.evaluation.revisions import is_older
from tapgnn.experiments import find_experiment
from tapgnn.experiments.tables import ResultTable
from tapgnn.file_integrity import write_atomically

DOCS = Path(__file__).resolve().parent
RESULTS, PAGE, TEMPLATE = DOCS.parent / "results", DOCS / "results.md", "results.md.jinja"


class Stored:
    """What a file in results/ holds; false where there is nothing."""

    def __init__(self, folder, name):
        self.name, path = name, folder / self.folder.format(name) / f"{name}.json"
        self.values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def __bool__(self):
        return bool(self.values.get("runs") or self.values.get("output"))


class Experiment(Stored):
    """The results of an experiment."""

    folder = "{}"

    @property
    def command(self):
        """What makes them."""
        return f"tapgnn reproduce {self.name}" + ("" if find_experiment(self.name).timed else " --processes 2")

    def table(self, name=None, without=()):
        """A table as Markdown, without some of its rows."""
        name = name or self.name
        table = ResultTable.from_plain(name, self.values["tables"][name])
        return replace(table, rows=[row for row in table.rows if row[0] not in without]).markdown().strip()

    def rows(self, name):
        """The rows of a table by label, as plain values."""
        return self.values["tables"][name]["rows"]

    def figure(self, name=None):
        """A link to a figure, where there is one."""
        name = name or self.name
        drawn = f"![{self.values['title']}](../results/{self.name}/{name}.svg)"
        return drawn if name in self.values["figures"] else ""

    @property
    def about(self):
        """The command, the runs, the versions and the time."""
        seeds, versions = self.values["seeds"], self.values["versions"]
        libraries = ", ".join(
            f"{name} {' and '.join(versions[name])}" for name in ("tapgnn", "torch", "numpy", "numba")
        )
        threads = " or ".join(versions["threads"])
        span = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        time = f"{hours(self.values['seconds'])} of one process in all, {threads} thread{'s' * (threads != '1')}"
        about = f"`tapgnn reproduce {self.name}`: {self.values['runs']:,} runs, {span}, {time}; {libraries}."
        older = [method for method, revisions in self.values["revisions"].items() if is_older(revisions)]
        return f"{about} Of older code, whose results may differ: {', '.join(older)}." if older else about


class Benchmark(Stored):
    """The output of a benchmark."""

    folder = "benchmarks"

    @property
    def command(self):
        """What makes it."""
        return f"python benchmarks/record.py {self.name}"

    @property
    def lines(self):
        """The JSON objects that it printed."""
        return self.values["output"]

    @property
    def last(self):
        """The last of them."""
        return self.values["output"][-1]

    @property
    def about(self):
        """The command, the machine, the versions and the date."""
        values, versions = self.values, self.values["versions"]
        machine = f"{values['cores']} cores ({values['cpu']})"
        return (
            f"`{values['command']}`, {values['date']}, {machine}, torch {versions['torch']}, numba {versions['numba']}."
        )


def hours(seconds):
    """
    >>> hours(30), hours(600), hours(7200)
    ('30 seconds', '10 minutes', '2.0 hours')
    """
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6_000 else f"{seconds / 3_600:.1f} hours"


def spread(row, metric, form=".4f"):
    """Mean and deviation of a metric."""
    deviation = row.get(f"{metric}_std", 0.0)
    return f"{row[f'{metric}_mean']:{form}}" + (f" ± {deviation:{form}}" if deviation else "")


def render(results=RESULTS):
    """The page as text."""
    templates = Environment(
        loader=FileSystemLoader(DOCS),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    left_out = {}

    def stored(kind, name):
        found = kind(results, name)
        if not found:
            left_out[found.command] = name
        return found

    templates.globals |= {
        "experiment": partial(stored, Experiment),
        "benchmark": partial(stored, Benchmark),
        "left_out": left_out,
        "spread": spread,
        "zip": zip,
    }
    templates.filters["figure"] = lambda value, form=",.2f": f"{value:{form}}"
    return re.sub(r"\n{3,}", "\n\n", templates.get_template(TEMPLATE).render()).rstrip() + "\n"


def main():
    if sys.argv[1:]:
        sys.exit("usage: python docs/results_page.py")
    write_atomically(PAGE, render())


if __name__ == "__main__":
    main()
