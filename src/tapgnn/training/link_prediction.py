"""Training of future link prediction (eq. 9), in O(M) an epoch: chunks with carried, detached state.

    loss = mean over events of -log sigma(score(u, v, t)) - 1/k sum over negatives n of log sigma(-score(u, n, t))

This teaches which destination it is; a model that remembers pairs also learns whether an event happens at all, against
events of the past, and its negatives are a mixture (`negative_mixture`).

Every query of an event at t sees the instants strictly before t, those of its own chunk included. The weights that are
best on the validation events (`validation`) are kept and restored; without such events, the last. Nodes that training
does not meet have the unknown vector. A seed reproduces a run bit for bit on one machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tapgnn.data.negatives import NegativeSampler, rng_for, training_sampler
from tapgnn.errors import ConfigError
from tapgnn.events import Events
from tapgnn.model import Model, Past
from tapgnn.model.trace import Observed, whole_batches
from tapgnn.threads import ahead
from tapgnn.training.interruption import Interruption
from tapgnn.training.link_loss import LinkQueries, ask_links, link_loss
from tapgnn.training.negative_mixture import NegativeMixture
from tapgnn.training.row_adam import RowAdam
from tapgnn.training.validation import METRICS, Metric, Validation

# Queries that the scales of the weightless inputs are measured on.
SAMPLE = 100_000


@dataclass(kw_only=True)
class TrainingParameters:
    """How a model is trained, but for what a preset of the model decides (`Settings`).

    patience               epochs without a better validation after which training stops, counted from as many epochs
                           after the start
    validations            validations per epoch
    select                 the metric of the validation events that chooses the weights: auc, ap or mrr
    chunk                  events per step; with a lag the nearest number that makes whole batches
    gradient               how far back the gradients of a step flow: 'chunk', its own events; a number of chunks; or
                           'full', all history, at the cost of a pass over it for every step
    lag                    how many events the history of a query may be stale, as in the test
    negatives              negatives per event
    met_share              share of them that the source had met before
    historical_share       share of whole past events among the negatives for whether an event happens at all
    learning_rate          learning rate of the direct part of the head
    block_rate             learning-rate multiplier for all other weights
    weight_decay, clip     weight decay and maximum gradient norm of all but the node vectors
    cold_weight            loss weight of destinations that have no history yet; a source may have none
    """

    patience: int = 3
    validations: int = 2
    select: Metric = "auc"
    chunk: int = 512
    gradient: str = "chunk"
    lag: int = 0
    negatives: int = 1
    met_share: float = 0.3
    historical_share: float = 0.1
    learning_rate: float = 3e-3
    block_rate: float = 1 / 3
    weight_decay: float = 1e-5
    clip: float = 1.0
    cold_weight: float = 0.0
    seed: int = 0


@dataclass(kw_only=True)
class Settings(TrainingParameters):
    """Parameters of a training, checked, and those that a preset decides.

    epochs                 maximum number of passes
    vector_rate            learning-rate multiplier for the node vectors, which overfit first
    """

    epochs: int = 8
    vector_rate: float = 1 / 30

    def __post_init__(self) -> None:
        for name in ("epochs", "patience", "validations", "chunk", "negatives"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.select not in METRICS:
            raise ConfigError(f"select must be one of {', '.join(METRICS)}, not {self.select!r}")
        for name in ("learning_rate", "block_rate", "vector_rate", "clip"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, not {getattr(self, name)}")
        if self.chunks_back() == 0:
            raise ConfigError(f"gradient is chunk, full, or a number of chunks, not {self.gradient!r}")
        if self.lag < 0:
            raise ConfigError(f"lag must not be negative, not {self.lag}")
        for name in ("weight_decay", "cold_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must lie in [0, 1], not {getattr(self, name)}")
        for name in ("met_share", "historical_share"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} must lie in [0, 1), not {getattr(self, name)}")

    @classmethod
    def preset(cls, name: str = "adaptive", **changes: Any) -> Settings:
        """How a preset of the model is trained, with changes.

        >>> Settings.preset("paper", patience=3).epochs
        20
        """
        return cls(**{**PRESETS.get(name, {}), **changes})

    def chunks_back(self) -> int | None:
        """How many chunks gradients flow through, the present one included; None for all, 0 where that cannot be read.

        >>> [Settings(gradient=how).chunks_back() for how in ("chunk", "4", "full")]
        [1, 4, None]
        """
        if self.gradient == "full":
            return None
        if self.gradient == "chunk":
            return 1
        return int(self.gradient) if self.gradient.isascii() and self.gradient.isdigit() else 0


# Node vectors are most of what these know of a node; at the rate of the default preset they learn too slowly.
_PAPER: dict[str, Any] = {"epochs": 20, "vector_rate": 1 / 3}
PRESETS: dict[str, dict[str, Any]] = {"paper": _PAPER, "published": _PAPER}


@dataclass
class TrainingProgress:
    """The progress of a training, passed to the listener after every chunk; `validation`, by `metric`, after one.

    `points` are those of the `History`, one per validation so far, of a resumed training too.
    """

    epoch: int
    done: int
    total: int
    loss: float
    events_per_s: float | None
    validation: float | None = None
    metric: Metric = "auc"
    points: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class History:
    """One point per validation, the best of them by the metric, and whether the user interrupted the training.

    seconds and events are those of the steps that the throughput is measured on.
    """

    points: list[dict[str, Any]] = field(default_factory=list)
    best: float = -np.inf
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
        self.validation = Validation(train, valid, self.sampler, settings.select, settings.seed, settings.lag)
        self.unseen = np.setdiff1d(np.arange(len(train.vocabulary)), np.concatenate([train.src, train.dst]))
        self.dense, self.optimizers = make_optimizers(model, settings)
        self.tensors = list(model.parameters())
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
                while self.epoch < settings.epochs and self._is_patient():
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

    def _is_patient(self) -> bool:
        """Whether a better validation may still come; a bad start does not count."""
        patience = self.settings.patience
        return self.epoch - max(self.history.best_epoch, patience) < patience

    def _run_epoch(self, listener: Listener | None) -> None:
        settings, total = self.settings, len(self.train)
        due = [round(total * (k + 1) / settings.validations) for k in range(settings.validations)]
        done, losses = 0, []
        self.model.train()
        start = time.perf_counter()
        for size, loss in self.steps():
            if not np.isfinite(loss):
                raise ConfigError(
                    f"training diverged: the loss is {loss} after {done + size} events of epoch "
                    f"{self.epoch + 1}; lower the learning rate, which is {settings.learning_rate}"
                )
            done += size
            losses.append(loss)
            if self._compiled:
                self.history.seconds += time.perf_counter() - start
                self.history.events += size
            self._compiled = True
            speed, points = self.history.events_per_s, self.history.points
            progress = TrainingProgress(self.epoch, done, total, loss, speed, None, settings.select, points)
            if done >= due[0]:
                due.pop(0)
                progress.loss = float(np.mean(losses))
                losses = []
                progress.validation = self._validate(self.epoch + done / total, progress.loss)
            if listener is not None:
                listener(progress)
            self.interruption.check()
            start = time.perf_counter()

    def _chunks(self) -> Iterator[Events]:
        return self.train.chunks(whole_batches(self.settings.chunk, self.settings.lag))

    def steps(self) -> Iterator[tuple[int, float]]:
        """Learn from one chunk after the other: how many events, and the loss."""
        if self.settings.chunks_back() != 1:
            yield from self._long_steps()
            return
        with closing(ahead(self._asked_chunks())) as chunks:
            for observed, queries in chunks:
                trace = self.model.embed(observed)
                loss = link_loss(self.model, trace, queries, self.settings.cold_weight)
                yield len(observed.events), self._learn(loss)

    @torch.no_grad()
    def _asked_chunks(self) -> Iterator[tuple[Observed, LinkQueries]]:
        """The chunks, and what is asked of each: all that needs no weights."""
        state = self.model.empty_state()
        for piece in self._chunks():
            drawn = self.negatives.draw(state.events, piece, self.rng)
            observed, state = self.model.observe(piece, state)
            observed.trace.lag = self.settings.lag
            yield observed, ask_links(self.model, observed.trace, piece, drawn)

    def _long_steps(self) -> Iterator[tuple[int, float]]:
        """`steps` whose gradients also flow through earlier chunks, which the state has not absorbed yet."""
        state, earlier = self.model.empty_state(), list[Events]()
        for piece in self._chunks():
            drawn = self.negatives.draw(state.events + sum(map(len, earlier)), piece, self.rng)
            earlier.append(piece)
            trace, _ = self.model.advance(reduce(Events.append, earlier), state.copy())
            trace.lag = self.settings.lag
            queries = ask_links(self.model, trace, piece, drawn)
            loss = link_loss(self.model, trace, queries, self.settings.cold_weight)
            yield len(piece), self._learn(loss)
            if self.settings.chunks_back() == len(earlier):
                with torch.no_grad():
                    _, state = self.model.advance(earlier.pop(0), state)

    def _learn(self, loss: Tensor) -> float:
        """One step of the optimizers; the loss."""
        for tensor in self.tensors:
            tensor.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.dense, self.settings.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        return float(loss.detach())

    def _validate(self, epoch: float, loss: float) -> float:
        self.model.eval()
        self.model.inputs.forget(self.unseen)
        found = self.validation.measure(self.model)
        self.model.train()
        measured = {"metric": self.settings.select, "validation": found, "events_per_s": self.history.events_per_s}
        self.history.points.append({"epoch": epoch, "loss": loss, **measured})
        if not found <= self.history.best:
            self.history.best, self.history.best_epoch = found, epoch
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


@torch.no_grad()
def calibrate(model: Model, train: Events, sampler: NegativeSampler, settings: Settings) -> None:
    """Set the scales of the weightless inputs from a sample of queries along one pass over the training log."""
    model.eval()
    rng = rng_for(settings.seed, "calibration")
    share = min(1.0, SAMPLE / len(train))

    def asked() -> Iterator[tuple[Past, int]]:
        state = model.empty_state()
        for piece in train.chunks(whole_batches(2_048, settings.lag)):
            trace, state = model.advance(piece, state)
            trace.lag = settings.lag
            rows = np.flatnonzero(rng.random(len(piece)) < share)
            src, dst, time = piece.src[rows], piece.dst[rows], piece.time[rows]
            nodes = np.concatenate([src, dst, sampler.draw(src, dst, rng)[:, 0]])
            yield trace.past(nodes, np.tile(time, 3)), len(rows)

    model.calibrate(asked())
