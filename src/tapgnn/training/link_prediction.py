"""Training of future link prediction (eq. 9), in O(M) an epoch: chunks with carried, detached state.

    loss = mean over events of -log sigma(score(u, v, t)) - 1/k sum over negatives n of log sigma(-score(u, n, t))

This teaches which destination it is; a model that remembers pairs also learns whether an event happens at all, against
events of the past, and its negatives are a mixture (`negative_mixture`).

Every query of an event at t sees the instants strictly before t, those of its own chunk included. Validation replays
the training log with the current weights, then scores the validation events with negatives drawn once; the best weights
are kept and restored (without validation events, the last). Nodes that training does not meet have the unknown vector.
A seed reproduces a run bit for bit on one machine with one number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from tapgnn.data.negatives import NegativeSampler, rng_for, training_sampler
from tapgnn.errors import ConfigError
from tapgnn.evaluation.metrics import auc
from tapgnn.events import Bools, Events, Floats, Ints
from tapgnn.model import Model, Past, State, Trace
from tapgnn.training.interruption import Interruption
from tapgnn.training.negative_mixture import Drawn, NegativeMixture
from tapgnn.training.row_adam import RowAdam
from tapgnn.training.stream_scoring import score_along

# Queries that the scales of the weightless inputs are measured on.
SAMPLE = 100_000


@dataclass(kw_only=True)
class TrainingParameters:
    """How a model is trained.

    epochs, patience       maximum number of passes; epochs without a better validation AUC after which training stops
    validations            validations per epoch
    chunk                  events per step
    lag                    how many events the history of a query may be stale, as in the test
    negatives              negatives per event
    met_share              share of them that the source had met before
    historical_share       share of whole past events among the negatives for whether an event happens at all
    learning_rate          learning rate of the direct part of the head
    block_rate             learning-rate multiplier for all other weights
    vector_rate            learning-rate multiplier for the node vectors, which overfit first
    weight_decay, clip     weight decay and maximum gradient norm of all but the node vectors
    cold_weight            loss weight of queries for a destination with a node that has no history yet
    """

    epochs: int = 8
    patience: int = 3
    validations: int = 2
    chunk: int = 512
    lag: int = 0
    negatives: int = 1
    met_share: float = 0.3
    historical_share: float = 0.1
    learning_rate: float = 3e-3
    block_rate: float = 1 / 3
    vector_rate: float = 1 / 30
    weight_decay: float = 1e-5
    clip: float = 1.0
    cold_weight: float = 0.0
    seed: int = 0


@dataclass(kw_only=True)
class Settings(TrainingParameters):
    """Parameters of a training, checked."""

    def __post_init__(self) -> None:
        for name in ("epochs", "patience", "validations", "chunk", "negatives"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("learning_rate", "block_rate", "vector_rate", "clip"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, not {getattr(self, name)}")
        if self.lag < 0:
            raise ConfigError(f"lag must not be negative, not {self.lag}")
        for name in ("weight_decay", "cold_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must lie in [0, 1], not {getattr(self, name)}")
        for name in ("met_share", "historical_share"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} must lie in [0, 1), not {getattr(self, name)}")


@dataclass
class TrainingProgress:
    """The progress of a training, passed to the listener after every chunk; `valid_auc` after a validation.

    `points` are those of the `History`, one per validation so far, of a resumed training too.
    """

    epoch: int
    done: int
    total: int
    loss: float
    events_per_s: float | None
    valid_auc: float | None = None
    points: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class History:
    """One point per validation, the best of them, and whether the user interrupted the training.

    seconds and events are those of the steps that the throughput is measured on.
    """

    points: list[dict[str, Any]] = field(default_factory=list)
    best_auc: float = -np.inf
    best_epoch: float = 0.0
    interrupted: bool = False
    seconds: float = 0.0
    events: int = 0

    @property
    def events_per_s(self) -> float | None:
        """Events per second without validation and the first step, which compiles loops; None before it is known."""
        return self.events / self.seconds if self.seconds > 0 else None


Listener = Callable[[TrainingProgress], None]


class LinkTraining:
    """A training that can be interrupted, and resumed after any epoch."""

    def __init__(self, model: Model, train: Events, valid: Events, settings: Settings) -> None:
        self.model, self.train, self.valid, self.settings = model, train, valid, settings
        self.sampler = training_sampler(train)
        # A model that cannot tell whether two have met could not follow the mixture.
        shares = (settings.met_share, settings.historical_share) if model.pairs is not None else (0.0, 0.0)
        self.negatives = NegativeMixture(train, self.sampler, settings.negatives, *shares)
        self.rng = rng_for(settings.seed, "training")
        self.valid_negatives = self.sampler.draw(valid.src, valid.dst, rng_for(settings.seed, "validation"))[:, 0]
        self.unseen = np.setdiff1d(np.arange(len(train.vocabulary)), np.concatenate([train.src, train.dst]))
        self.dense, self.optimizers = make_optimizers(model, settings)
        self.best: dict[str, Tensor] = {}
        self.history = History()
        self.interruption = Interruption()
        self.epoch = 0
        self._compiled = False

    def run(
        self, listener: Listener | None = None, after_epoch: Callable[[LinkTraining], None] | None = None
    ) -> History:
        """Train until the last epoch or until patience is over, and restore the best weights.

        Ctrl-C stops after the current step or validation and keeps the best weights so far.
        """
        settings = self.settings
        if self.epoch == 0:
            torch.manual_seed(settings.seed)
            calibrate(self.model, self.train, self.sampler, settings)
        try:
            with self.interruption:
                while self.epoch < settings.epochs and self.epoch - self.history.best_epoch < settings.patience:
                    self._run_epoch(listener)
                    self.epoch += 1
                    if after_epoch is not None:
                        after_epoch(self)
        except KeyboardInterrupt:
            self.history.interrupted = True
        if self.best:
            self.model.load_state_dict(self.best)
        self.model.inputs.forget(self.unseen)
        self.model.eval()
        return self.history

    def _run_epoch(self, listener: Listener | None) -> None:
        settings, total = self.settings, len(self.train)
        due = [round(total * (k + 1) / settings.validations) for k in range(settings.validations)]
        state, done, losses = self.model.empty_state(), 0, []
        self.model.train()
        for piece in self.train.chunks(settings.chunk):
            start = time.perf_counter()
            loss, state = self._step(piece, state)
            if not np.isfinite(loss):
                raise ConfigError(
                    f"training diverged: the loss is {loss} after {done + len(piece)} events of epoch "
                    f"{self.epoch + 1}; lower the learning rate, which is {settings.learning_rate}"
                )
            done += len(piece)
            losses.append(loss)
            if self._compiled:
                self.history.seconds += time.perf_counter() - start
                self.history.events += len(piece)
            self._compiled = True
            progress = TrainingProgress(
                self.epoch, done, total, loss, self.history.events_per_s, None, self.history.points
            )
            if done >= due[0]:
                due.pop(0)
                progress.loss = float(np.mean(losses))
                losses = []
                progress.valid_auc = self._validate(self.epoch + done / total, progress.loss)
            if listener is not None:
                listener(progress)
            self.interruption.check()

    def _step(self, piece: Events, state: State) -> tuple[float, State]:
        drawn = self.negatives.draw(state.events, piece, self.rng)
        trace, state = self.model.advance(piece, state)
        trace.lag = self.settings.lag
        loss = link_loss(self.model, trace, piece, drawn, self.settings.cold_weight)
        self.model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.dense, self.settings.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        return float(loss.detach()), state

    def _validate(self, epoch: float, loss: float) -> float:
        self.model.eval()
        self.model.inputs.forget(self.unseen)
        found = validation_auc(self.model, self.train, self.valid, self.valid_negatives, self.settings.lag)
        self.model.train()
        speed = self.history.events_per_s
        self.history.points.append({"epoch": epoch, "loss": loss, "valid_auc": found, "events_per_s": speed})
        if not found <= self.history.best_auc:
            self.history.best_auc, self.history.best_epoch = found, epoch
            self.best = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        return found


def make_optimizers(model: Model, settings: Settings) -> tuple[list[Tensor], list[torch.optim.Optimizer]]:
    """The dense parameters, and the optimizers: Adam for them, one by rows for the node vectors."""
    vectors = [] if model.inputs.vectors is None else [model.inputs.vectors.weight]
    direct = getattr(model.head, "direct", None)
    head = [] if direct is None else list(direct.parameters())
    taken = {id(tensor) for tensor in (*vectors, *head)}
    body: list[Tensor] = [tensor for tensor in model.parameters() if id(tensor) not in taken]
    rate = settings.learning_rate
    groups = [{"params": body, "lr": rate * settings.block_rate}]
    if head:
        groups.append({"params": head, "lr": rate})
    optimizers: list[torch.optim.Optimizer] = [torch.optim.Adam(groups, weight_decay=settings.weight_decay, fused=True)]
    if vectors:
        by_rows = RowAdam if model.backend.compiled else torch.optim.SparseAdam
        optimizers.append(by_rows(vectors, lr=rate * settings.vector_rate))
    return [*body, *head], optimizers


def link_loss(model: Model, trace: Trace, events: Events, drawn: Drawn, cold_weight: float) -> Tensor:
    """The loss of one chunk: of the question for the destination, and, where a model has it, of that for the event."""
    size, count = drawn.dst.shape
    src, time = np.append(events.src, drawn.old_src), np.append(events.time, events.time[drawn.old_row])
    # Events of the past stand beside the true ones, and once more below, where they do not count.
    blocks = [np.append(column, drawn.old_dst) for column in (events.dst, *drawn.dst.T)]
    past = trace.past(np.concatenate([src, *blocks]), np.tile(time, 2 + count))
    active = model.active(past).reshape(2 + count, len(src))[:, :size]
    logits = model.link_rows(past.tensors(), len(src))
    logits = logits.view(1 + count, len(src), logits.shape[1])
    happened, weight = np.zeros((1 + count, len(src)), dtype=bool), np.ones((1 + count, len(src)))
    happened[0, :size] = True
    weight[1:] /= count
    warm = np.where(active[0] & active[1:], 1.0, cold_weight) * weight[:, :size]
    shift = torch.from_numpy(drawn.shift).to(logits)
    loss = _contrast(logits[:, :size, 0] - shift, happened[:, :size], warm)
    if logits.shape[2] == 1:
        return loss
    olds = len(drawn.old_src)
    share = drawn.old_share if olds else 0.0
    weight[1:, :size] *= (1.0 - share) * drawn.uniform.T
    weight[1:, size:] = 0.0
    weight[0, size:] = share * size / max(olds, 1)
    return loss + _contrast(logits[..., 1], happened, weight)


def _contrast(logits: Tensor, happened: Bools, weight: Floats) -> Tensor:
    """The weighed mean of the log-losses of logits."""
    losses = softplus(torch.where(torch.from_numpy(happened).to(logits.device), -logits, logits))
    weights = torch.from_numpy(weight).to(logits)
    return (losses * weights).sum() / weights.sum().clamp(min=1.0)


@torch.no_grad()
def calibrate(model: Model, train: Events, sampler: NegativeSampler, settings: Settings) -> None:
    """Set the scales of the weightless inputs from a sample of queries along one pass over the training log."""
    model.eval()
    rng = rng_for(settings.seed, "calibration")
    share = min(1.0, SAMPLE / len(train))

    def asked() -> Iterator[tuple[Past, int]]:
        state = model.empty_state()
        for piece in train.chunks(2_048):
            trace, state = model.advance(piece, state)
            trace.lag = settings.lag
            rows = np.flatnonzero(rng.random(len(piece)) < share)
            src, dst, time = piece.src[rows], piece.dst[rows], piece.time[rows]
            nodes = np.concatenate([src, dst, sampler.draw(src, dst, rng)[:, 0]])
            yield trace.past(nodes, np.tile(time, 3)), len(rows)

    model.calibrate(asked())


@torch.no_grad()
def validation_auc(model: Model, train: Events, valid: Events, negatives: Ints, lag: int = 0) -> float:
    """AUC of the validation events against one negative each, after replaying the training log; NaN without events."""
    if not len(valid):
        return float("nan")
    state = model.empty_state()
    for piece in train.chunks(4_096):
        _, state = model.advance(piece, state)
    src, dst, when = np.tile(valid.src, 2), np.concatenate([valid.dst, negatives]), np.tile(valid.time, 2)
    scores, _ = score_along(model, state, valid, src, dst, when, lag=lag)
    return auc(np.repeat([1, 0], len(valid)), scores)
