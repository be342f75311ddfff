"""fit and evaluate: train and save a model, or measure how accurate one would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapgnn.cli.events_argument import Log, read_log
from tapgnn.cli.mlflow_log import MLflowLog
from tapgnn.cli.options import (
    PROTOCOL,
    SEEDS,
    EventsArgument,
    NodeOptions,
    ReadingOptions,
    TrainingOptions,
    command,
    option,
)
from tapgnn.cli.output import Output, check_folder, say, write_json
from tapgnn.cli.progress import TensorBoardLog, TrainingScreen, write_metrics
from tapgnn.errors import ConfigError, ModelFileError

if TYPE_CHECKING:
    from tapgnn.estimator import TAPGNN
    from tapgnn.events import Events
    from tapgnn.training.classification import Classification
    from tapgnn.training.link_prediction import TrainingProgress

FIT, EVALUATION, METRICS, REPORT = "fit.json", "evaluation.json", "metrics.jsonl", "report.html"
FOLDER = "tapgnn-evaluation"
CLASSIFY = option("", "Also train a classifier of event labels, such as fraud.", "if --label is given")


@command
def evaluate(
    events: EventsArgument,
    reading: ReadingOptions,
    node_options: NodeOptions,
    learning: TrainingOptions,
    output: Output,
    protocol: str = PROTOCOL,
    seeds: int = SEEDS,
    classify: bool | None = CLASSIFY,
    test: bool = option(
        "",
        "Test on the test events; --no-test reports validation results only, to choose settings (tgb, dyglib).",
        False,
        "--test/--no-test",
        default=True,
    ),
    out: Path | None = option("FOLDER", f"Write {EVALUATION} and {REPORT} to this folder.", f"{FOLDER}/EVENTS"),
) -> None:
    """Train and test a model on a log, alongside the trivial methods.

    The model is trained on the first 70 % of the events, its weights are selected on the next 15 %, and it is tested on
    the last 15 %: can it tell the true destination of an event from a negative? Recency, popularity, EdgeBank and the
    pair rules need no training; a model that does not beat them is not worth using. Ctrl-C keeps the
    completed seeds.

    With --classify, a classifier of the labels of events (such as fraud) is trained and tested on the same parts,
    alongside simple rules and gradient-boosted trees; with --protocol paper it uses the two representations only.
    """
    estimator = learning.estimator()
    from tapgnn.cli.results import described, main_metric, report_evaluation, result_tables, summaries, verdict
    from tapgnn.evaluation import evaluate as run

    log = read_log(events, reading)
    negatives = log.board_negatives(protocol)
    wanted = _wanted(classify, reading)
    folder = Path(FOLDER) / log.name if out is None else out
    check_folder(folder)
    nodes = node_options.read(log.schema)
    opening = log.opening(f"{len(log.events):,} events, protocol {protocol}, {seeds} seed{'s' * (seeds != 1)}", nodes)
    screen = TrainingScreen(opening, estimator.settings().epochs, seeds)
    with screen.bar:
        told = lambda seed, step: screen.step(step, seed)  # noqa: E731
        options = {"lag": estimator.lag, "test": test, "classify": wanted, "negatives": negatives}
        found = run(log.events, estimator, protocol, seeds, told, log.schema, nodes, **options)  # type: ignore[arg-type]
    rows = summaries(found.results)
    if labelled := found.results["classification"]:
        _show_classification(log, labelled, output)
    for heading, table in result_tables(f"{log.title}, {described(found.results)}", rows).items():
        output.show(heading, table)
    say(verdict(rows, main_metric(found.results)))
    _offer(log, wanted)
    results = {"name": log.name, "simulated": log.simulated, **found.results}
    # Printed first, so that nothing is lost if a file cannot be written.
    output.result(results)
    write_json(folder / EVALUATION, results)
    report_evaluation(folder / REPORT, log, found, rows)
    say(f"results in {folder / EVALUATION}, report in {folder / REPORT}{'' if out else ' (--out chooses the folder)'}")
    if found.results["interrupted"]:
        done = len(found.results["seeds"])
        say(f"interrupted; the results cover the {done} of {seeds} seeds that were completed")
        raise typer.Exit(130)


@command
def fit(
    events: EventsArgument,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to save the model.", show_default=False)],
    reading: ReadingOptions,
    node_options: NodeOptions,
    learning: TrainingOptions,
    output: Output,
    resume: bool = option("", "Continue the interrupted training in FOLDER.", True, "--resume", default=False),
    force: bool = option("", "Replace the model in FOLDER.", True, "--force", default=False),
    classify: bool | None = CLASSIFY,
    tensorboard: Path | None = option("DIR", "Also write TensorBoard curves."),
    mlflow: str | None = option(
        "ADDRESS", "Also log settings, curves, results and the model to MLflow: http://..., sqlite:///..., file:///..."
    ),
) -> None:
    """Train a model on a whole log and save it, ready for queries about future events.

    The model is trained on the first 85 % of the events, and its weights are selected on the rest; then it observes all
    of them. FOLDER gets a checkpoint after every epoch. Ctrl-C keeps the best weights so far, and --resume continues.
    """
    estimator = learning.estimator()
    from tapgnn.cli.results import cut_for_validation
    from tapgnn.training.classification import labelled_parts

    _check_folder(out, resume, force)
    curves = [] if tensorboard is None else [TensorBoardLog(tensorboard)]
    tracking = [] if mlflow is None else [MLflowLog(mlflow, out.name)]
    log = read_log(events, reading)
    for tracked in tracking:
        tracked.open(log.name)
    wanted = _wanted(classify, reading)
    if wanted:
        labelled_parts(log.events)  # refuses, before a long training, a log that no classifier can be trained on
    train, valid = cut_for_validation(log.events)
    nodes = node_options.read(log.schema)
    opening = log.opening(f"training on {len(train):,} events, validating on the next {len(valid):,}", nodes)
    table = {"schema": log.schema, "nodes": nodes}
    screen = TrainingScreen(opening, estimator.settings().epochs)
    boards: list[TensorBoardLog | MLflowLog] = [*curves, *tracking]
    with ExitStack() as stack:
        for board in boards:
            stack.callback(board.close)
        _train(estimator, (train, valid), table, out, resume, screen, boards)
        history = estimator.history_
        word = "stopped; kept the best weights so far" if history.interrupted else "done; kept the best weights"
        say(f"{word}, from epoch {history.best_epoch:.1f} (validation {estimator.select.upper()} {history.best:.4f})")
        result = _finish(out, log, estimator, (train, valid), wanted and not history.interrupted, output)
        for tracked in tracking:
            from tapgnn.exchange import model_files

            tracked.finish(result, out, *model_files(out))
            say(f"run {tracked.name} of the experiment {log.name} at {mlflow}")
    if history.interrupted:
        say("run 'tapgnn fit' with the same options and --resume to continue from the last complete epoch")
        raise typer.Exit(130)


def _wanted(classify: bool | None, reading: ReadingOptions) -> bool:
    """Whether labels are to be learnt."""
    return bool(reading.label) if classify is None else classify


def _offer(log: Log, classify: bool) -> None:
    """Mention labels that were not used."""
    if not classify and log.events.labels is not None and 0 < (log.events.labels > 0).mean() < 1:
        say("the log has labels; pass --classify to train a classifier")


def _check_folder(out: Path, resume: bool, force: bool) -> None:
    """Refuse to overwrite a model or a checkpoint without --force or --resume."""
    from tapgnn.training.checkpoint import FILE

    if resume and force:
        raise ConfigError("pass --resume to continue a training or --force to start over, not both")
    check_folder(out)
    held = (out / "model.json").exists() or (out / FILE).exists()
    if held and not (resume or force):
        raise ModelFileError(
            f"{out} already contains a model; pass --force to replace it, --resume to continue its training, "
            "or another --out"
        )


def _train(
    model: TAPGNN,
    parts: tuple[Events, Events],
    table: Mapping[str, Any],
    out: Path,
    resume: bool,
    screen: TrainingScreen,
    boards: Sequence[TensorBoardLog | MLflowLog],
) -> None:
    """Train with all listeners; exits if there is nothing to keep."""
    from tapgnn.training.checkpoint import FILE

    if not resume:
        (out / FILE).unlink(missing_ok=True)

    def listen(step: TrainingProgress) -> None:
        screen.step(step)
        if step.validation is not None:
            write_metrics(out / METRICS, step.points)
        for board in boards:
            board.step(step)

    with screen.bar:
        model.fit(*parts, **table, listener=listen, checkpoint=out, resume=resume)
    if not model.history_.points:
        say("stopped before the first validation; nothing was saved")
        raise typer.Exit(130)
    write_metrics(out / METRICS, model.history_.points)


def _finish(
    out: Path, log: Log, model: TAPGNN, parts: tuple[Events, Events], classify: bool, output: Output
) -> dict[str, Any]:
    """Let the model observe the whole log, save it, and report its accuracy; returns what is reported."""
    from tapgnn.cli.results import COLUMNS, measure_fit, method_table, report_fit, verdict
    from tapgnn.evaluation.runner import versions
    from tapgnn.events import events_fingerprint
    from tapgnn.saved_model import note_checked

    found = measure_fit(model, *parts)
    model.observe(parts[1])
    classified = _train_classifier(model, log) if classify else None
    described = model.table_.nodes
    history, baselines = model.history_, dict(found.results)
    labelled = None if classified is None else _compared(model, log, classified)
    result = {
        "name": log.name,
        "simulated": log.simulated,
        "model_sha256": model.save(out),
        "best_validation": history.best,
        "best_epoch": history.best_epoch,
        "interrupted": history.interrupted,
        "events_per_s": history.events_per_s,
        "validation": baselines.pop("tapgnn"),
        "baselines": baselines,
        "classification": labelled,
        "settings": {**model.resolved(), "model": model.model_.config.to_dict()},
        "versions": versions(),
        "data_sha256": events_fingerprint(log.events),
        "schema": model.schema.to_dict(),
        "nodes": None if described is None else {"id": described.id, "columns": dict(described.kinds)},
    }
    note_checked(out)
    output.result(result)
    write_json(out / FIT, result)
    report_fit(out / REPORT, log, found, result, classified)
    if labelled is not None:
        _show_classification(log, labelled, output)
    title = f"{log.title}, {len(found.first['tapgnn'].labels) // 2:,} validation events against newly drawn negatives"
    output.show(title, method_table(found.results, COLUMNS))
    say(verdict(found.results))
    _offer(log, classify)
    say(f"model in {out}, metrics in {out / METRICS}, report in {out / REPORT}")
    return result


def _train_classifier(model: TAPGNN, log: Log) -> Classification:
    say("training a classifier of the event labels")
    return model.fit_classifier(log.events)


def _compared(model: TAPGNN, log: Log, classified: Classification) -> dict[str, Any]:
    """The results of a classifier beside those of simple rules and of gradient-boosted trees, as plain values."""
    from tapgnn.training.classification_baselines import measure_baselines

    references = measure_baselines(model.model_, model.table_.encode(log.events), model.seed)
    beside = {name: asdict(reference) for name, reference in references.items()}
    return {"protocol": classified.protocol, **classified.metrics(), **classified.counts, "baselines": beside}


def _show_classification(log: Log, found: Mapping[str, Any], output: Output) -> None:
    """A classifier beside what it is compared with, and what it is worth at each alert budget."""
    from tapgnn.cli.results import COLUMNS, classifier_rows, classifier_verdict, method_table

    counts = f"{found['test_events']:,} events, {found['test_positives']:,} positive"
    output.show(f"{log.title}, event classification, {counts}", method_table(classifier_rows(found), COLUMNS))
    say(classifier_verdict(found))
