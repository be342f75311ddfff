"""direct: training with the scan against training with direct aggregation, TAP-GNN* (Appendix, the last figure).

Both have the kernel gcn, as in the paper, and gradients through the whole history; they compute the same function, and
differ by what a step costs. scan-chunk is the scan as it is used elsewhere, with gradients that end at the chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from tapgnn.baselines.shared.subprocess_run import peak_mb
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.data.negatives import training_sampler
from tapgnn.estimator import TAPGNN
from tapgnn.evaluation.runner import Run
from tapgnn.events import Events
from tapgnn.experiments.experiment import Experiment, FinishedRun
from tapgnn.experiments.figures import Panel, ResultFigure
from tapgnn.experiments.link_training import RULES, read_log
from tapgnn.experiments.tables import ResultTable, Value
from tapgnn.model import Model, State
from tapgnn.model.differentiable import Differentiable
from tapgnn.model.inference import Inference
from tapgnn.model.trace import ChunkRows
from tapgnn.training.link_prediction import LinkTraining, TrainingProgress
from tapgnn.training.validation import Validation
from tapgnn.unfold import Unfolding

METHODS = {"scan": "full", "direct": "full", "scan-chunk": "chunk"}
EPOCHS, CHUNK, WIDTH = 8, 1_024, 64


class DirectProgram(Differentiable):
    """The program on tensors, with direct aggregation: the state is empty and the events are all history."""

    def absorb(self, events: Events, view: Unfolding, state: State) -> ChunkRows:
        """As with the scan; gradients flow through the direct aggregation alone."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            reached = super().absorb(events, view, state)
        return reached._replace(embedding=self.model.advance_directly(events))


class DirectModel(Model):
    """A model that aggregates directly in training."""

    def _program(self) -> Differentiable | Inference:
        return DirectProgram(self) if self.training else super()._program()


def estimator(run: Run) -> TAPGNN:
    """The parameters of a run."""
    return TAPGNN(
        preset="paper",
        kernel="gcn",
        width=WIDTH,
        seed=run.seed,
        epochs=2 if run.quick else EPOCHS,
        patience=EPOCHS,
        validations=1,
        chunk=CHUNK,
        gradient=METHODS[run.method],
    )


def perform(run: Run) -> dict[str, Any]:
    """Train, and measure the loss and the test AUC along the way."""
    split = RULES.split(read_log(run))
    parameters = estimator(run)
    settings = parameters.settings()
    train, valid, test = map(FittedSchema.fit(split.train).encode, (split.train, split.valid, split.test))
    kind = DirectModel if run.method == "direct" else Model
    torch.manual_seed(run.seed)
    model = kind(parameters.config().fitted_to(train), train.vocabulary)
    before, points, done = peak_mb(), [], 0
    tested = Validation(train.append(valid), test, training_sampler(train), "auc", run.seed)

    def listen(progress: TrainingProgress) -> None:
        nonlocal done
        done += 1
        points.append({"step": done, "loss": progress.loss, "auc": None})
        if progress.validation is not None:
            model.eval()
            points[-1]["auc"] = tested.measure(model)
            model.train()

    training = LinkTraining(model, train, valid, settings)
    history = training.run(listen)
    return {
        "points": points,
        "auc": tested.measure(model),
        "us_per_event": 1e6 * history.seconds / history.events,
        "memory_mb": peak_mb() - before,
    }


def settings(run: Run) -> dict[str, Any]:
    """The model and the training."""
    own = estimator(run)
    return {"model": own.config().to_dict(), "training": asdict(own.settings())}


def tables(finished: Sequence[FinishedRun]) -> list[ResultTable]:
    """Test AUC, time and memory of each."""
    columns = {"auc": ("test AUC", ".4f"), "us_per_event": ("µs an event", ",.0f"), "memory_mb": ("MB", ",.0f")}
    rows = []
    for method in dict.fromkeys(each.run.method for each in finished):
        own = [each.found for each in finished if each.run.method == method]
        cells = [Value.of([found[key] for found in own], form=form) for key, (_, form) in columns.items()]
        rows.append((method, tuple(cells)))
    note = "A step is a pass through all history, forward and backward; of scan-chunk, through its chunk. One thread."
    header = ("aggregation", *(title for title, _ in columns.values()))
    return [ResultTable("direct", "The scan against direct aggregation, fb-forum", header, rows, note=note)]


def figures(finished: Sequence[FinishedRun]) -> list[ResultFigure]:
    """Loss and test AUC along training, of the first seed."""
    first = {each.run.method: each.found["points"] for each in reversed(finished)}
    methods = [method for method in METHODS if method in first]
    steps = sorted({point["step"] for method in methods for point in first[method]})
    panels = []
    for key, title in (("loss", "training loss"), ("auc", "test AUC")):
        lines = {}
        for method in methods:
            by_step = {point["step"]: point[key] for point in first[method]}
            lines[method] = [Value(by_step.get(step)) for step in steps]
        panels.append(Panel(title, steps, lines, "training batches", ""))
    return [ResultFigure("direct", panels)]


EXPERIMENT = Experiment(
    name="direct",
    title="The scan against direct aggregation",
    datasets=("fb-forum",),
    methods=tuple(METHODS),
    perform=perform,
    tables=tables,
    settings=settings,
    figures=figures,
    seeds=1,
    timed=True,
)
