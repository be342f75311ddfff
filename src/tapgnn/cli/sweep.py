"""sweep: search the settings that are best on validation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapgnn.cli.events_argument import read_log
from tapgnn.cli.options import PROTOCOL, SEEDS, EventsArgument, ReadingOptions, TrainingOptions, command, option
from tapgnn.cli.output import Output, check_folder, say, write_json

if TYPE_CHECKING:
    from rich.table import Table

    from tapgnn.evaluation.sweep import Sweep

SWEEP, BEST = "sweep.json", "best.toml"
Vary = Annotated[
    list[str],
    typer.Option(
        metavar="NAME=VALUES",
        help="A setting and its values: width=32,64,128, or a range: learning_rate=1e-4..1e-2. Repeat it for others.",
        show_default=False,
    ),
]


@command
def sweep(
    events: EventsArgument,
    vary: Vary,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help=f"Where to keep the trials, {SWEEP} and {BEST}.", show_default=False)
    ],
    reading: ReadingOptions,
    learning: TrainingOptions,
    output: Output,
    trials: int | None = option("N", "Number of trials.", "every combination; with a range, 30"),
    protocol: str = PROTOCOL,
    seeds: int = SEEDS,
) -> None:
    """Search the settings of model and training that are best on the validation events, and test the best.

    Every trial is trained on the first 70 % of the log and judged on the next 15 %, by the metric of --select; one that
    is worse than the median of the others is stopped early. The last 15 % are not looked at before the search is over;
    then the best settings are tested on them, with --seeds seeds, alongside the trivial methods.

    The best settings are written as a file for 'tapgnn fit EVENTS --config FOLDER/best.toml --out MODEL'. A sweep that
    was stopped anywhere goes on where it was when the same command is given again; more --trials add to it.
    """
    estimator = learning.estimator()
    from tapgnn.cli.results import described, main_metric, result_tables, summaries, verdict
    from tapgnn.evaluation import evaluate
    from tapgnn.evaluation.sweep import parse_space, with_settings
    from tapgnn.evaluation.sweep import sweep as run

    space = parse_space(vary)
    check_folder(out)
    log = read_log(events, reading)
    say(log.opening(f"{len(log.events):,} events, {', '.join(space.written)} vary, protocol {protocol}"))
    found = run(log.events, estimator, space, out, trials, protocol, log.schema, _tell)  # type: ignore[arg-type]
    output.show(f"{log.title}, trials by validation {estimator.select.upper()}", _trials(found))
    write_toml(out / BEST, {**_given(reading), **_given(learning), **found.settings})
    say(f"best settings in {out / BEST}; testing them")
    best = with_settings(estimator, found.settings)
    negatives = log.board_negatives(protocol)
    tested = evaluate(log.events, best, protocol, seeds, schema=log.schema, lag=best.lag, negatives=negatives).results  # type: ignore[arg-type]
    rows = summaries(tested)
    for heading, table in result_tables(f"{log.title}, {described(tested)}", rows).items():
        output.show(heading, table)
    say(verdict(rows, main_metric(tested)))
    results = {
        "name": log.name,
        "simulated": log.simulated,
        "vary": dict(space.written),
        "select": estimator.select,
        "best": {"settings": found.settings, "validation": found.validation},
        "trials": found.trials,
        "test": tested,
    }
    write_json(out / SWEEP, results)
    output.result(results)
    say(f"results in {out / SWEEP}, best settings in {out / BEST}")
    if tested["interrupted"]:
        raise typer.Exit(130)


def _tell(trial: Mapping[str, Any], done: int, total: int) -> None:
    """One line for each finished trial."""
    settings = ", ".join(f"{name} {_short(value)}" for name, value in trial["settings"].items())
    ended = trial.get("error") or (f"{trial['validation']:.4f}" + (", stopped early" * (trial["state"] == "pruned")))
    say(f"[{done}/{total}] {settings}: {'failed: ' * ('error' in trial)}{ended}")


def _trials(found: Sweep) -> Table:
    """The complete trials, the best first."""
    from rich.table import Table

    complete = [trial for trial in found.trials if trial["state"] == "complete"]
    table = Table(box=None, pad_edge=False)
    for name in (*complete[0]["settings"], "validation"):
        table.add_column(name, justify="right")
    for trial in sorted(complete, key=lambda trial: -trial["validation"])[:10]:
        table.add_row(*(_short(value) for value in trial["settings"].values()), f"{trial['validation']:.4f}")
    return table


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _given(options: ReadingOptions | TrainingOptions) -> dict[str, Any]:
    """The options that were given, which a later fit takes as well."""
    return {name: value for name, value in asdict(options).items() if value is not None}


def write_toml(path: Path, options: Mapping[str, Any]) -> None:
    """A file for --config: the long names of options and their values."""
    from tapgnn.file_integrity import write_atomically

    lines = [f"{name.replace('_', '-')} = {json.dumps(value)}\n" for name, value in options.items()]
    write_atomically(path, "".join(lines))
