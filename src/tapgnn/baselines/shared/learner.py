"""Learner: how every network here is trained, chosen and asked, whatever it is inside.

A method brings a network, an empty state, and one function:

    _along(events, src, dst, time) -> logits [Q]      absorb the events; each question sees what came strictly before it

Training, validation, `observe`, `score` and `replay` all go through it, so that nothing is computed in one way when
learning and in another when asked.

    loss = mean of -log sigma(logit of the event) - log sigma(-logit of one random negative)

An epoch runs over the log in order of time, from the empty state. `validations` times an epoch (as for TAP-GNN) the
weights of the moment are examined: without dropout and gradients they read the training events from the empty state,
and score the validation events from there. The best weights and that state are kept together and restored together.
Training stops after `patience` epochs without a better AUC. Without validation events the last weights are kept. Where
a state is the log itself (TGAT, TDGNN, GraphSAGE*), reading the training events again costs next to nothing.

Where a state depends on the weights (`remembers`), the one that training has carried along is tried too at the end of
an epoch, and the better of the two on validation is kept: the references go on from it. For DyRep it matters
(soc-sign-bitcoinotc, seed 0: test AUC 0.924, and 0.779 with the other state alone). Why is not known; weights of many
moments made it, so it may tell how long ago a node was written, which DyRep does not see otherwise.

Node vectors (`vectors` of the network) have sparse gradients and an optimizer that touches the rows of a batch alone,
so that a step costs the same however many nodes there are; as with TAP-GNN, their gradients are not clipped.
"""

from __future__ import annotations

import copy
import logging
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn.functional import softplus

from tapgnn.baselines.method import Clock, Details, Method
from tapgnn.data.negatives import NegativeSampler, rng_for, training_sampler
from tapgnn.errors import ConfigError, StateError
from tapgnn.events import Events, Floats, Ints

logger = logging.getLogger(__name__)
VECTORS = "vectors."


class Learner(Method):
    """A network that is trained on links and carries a state along the stream.

    patience       epochs without a better AUC on validation after which training stops
    validations    how often an epoch is validated
    batch          events per step of training
    asked          questions that are answered at once
    vector_rate    the learning rate of node vectors, as a share of the others': they overfit soonest
    """

    sees_history = True
    remembers = False
    asked = 4_096

    def __init__(
        self,
        seed: int = 0,
        *,
        width: int = 64,
        epochs: int = 10,
        patience: int = 3,
        validations: int = 2,
        batch: int = 200,
        learning_rate: float = 1e-3,
        vector_rate: float = 0.1,
        weight_decay: float = 1e-5,
    ) -> None:
        if min(width, epochs, patience, validations, batch) < 1 or not learning_rate > 0:
            raise ConfigError(
                "width, epochs, patience, validations and batch must be at least 1 and the learning rate positive, "
                f"not {width}, {epochs}, {patience}, {validations}, {batch} and {learning_rate}"
            )
        self.seed, self.width, self.epochs, self.patience, self.batch = seed, width, epochs, patience, batch
        self.validations = validations
        self.learning_rate, self.vector_rate, self.weight_decay = learning_rate, vector_rate, weight_decay
        self.network: nn.Module
        self.state: Any = None
        self.history: list[dict[str, float]] = []
        self._clock = Clock()

    @abstractmethod
    def _build(self, train: Events) -> nn.Module:
        """A new network for this log."""

    @abstractmethod
    def _empty_state(self) -> Any:
        """The state before the first event."""

    @abstractmethod
    def _along(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Tensor:
        """[Q] logits; the events are absorbed into `self.state`, and a question sees those strictly before it."""

    def fit(self, train: Events, valid: Events) -> None:
        """Train from scratch, choose the epoch on the validation events, and be left with the training events."""
        sampler = training_sampler(train)
        rng = rng_for(self.seed, "training")
        negative = sampler.draw(valid.src, valid.dst, rng_for(self.seed, "validation"))[:, 0]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.network = self._build(train)
            self._train(train, valid, negative, sampler, rng)
        self.network.eval()
        self._clock = Clock()
        self._clock.advance(train)

    def _train(
        self, train: Events, valid: Events, negative: Ints, sampler: NegativeSampler, rng: np.random.Generator
    ) -> None:
        optimizers = self._optimizers()
        best, best_auc, best_epoch = (self.network.state_dict(), self._empty_state()), -np.inf, 0.0
        self.history = []
        for epoch in range(self.epochs):
            if epoch - best_epoch >= self.patience:
                break
            for share, loss in self._epoch(train, sampler, rng, optimizers):
                kept, found = self._look(train, valid, negative, share == 1.0)
                self.history.append({"epoch": epoch + share, "loss": loss, "valid_auc": found})
                logger.info("%s: %s", self.name, self.history[-1])
                if not found <= best_auc:
                    best, best_auc, best_epoch = kept, found, epoch + share
        weights, self.state = best
        self.network.load_state_dict(weights)

    def _epoch(
        self, train: Events, sampler: NegativeSampler, rng: np.random.Generator, optimizers: list[torch.optim.Optimizer]
    ) -> Iterator[tuple[float, float]]:
        """Train along the log; whenever validation is due, the share of it that was read and the mean loss."""
        due = [round(len(train) * (place + 1) / self.validations) for place in range(self.validations)]
        losses, done = [], 0
        self.state = self._empty_state()
        self.network.train()
        for piece in train.chunks(self.batch):
            losses.append(self._step(piece, sampler, rng, optimizers))
            done += len(piece)
            if done >= due[0]:
                due = [mark for mark in due if mark > done]
                yield done / len(train), float(np.mean(losses))
                losses = []

    def _look(
        self, train: Events, valid: Events, negative: Ints, whole: bool
    ) -> tuple[tuple[dict[str, Tensor], Any], float]:
        """The weights of the moment with the better of their states after all of `train`, and its AUC on validation."""
        carried, self.state = self.state, self._empty_state()
        self.network.eval()
        self._ask(train, *_no_questions())
        looks = []
        for state in [self.state, *([carried] if whole and self.remembers else [])]:
            kept = copy.deepcopy((self.network.state_dict(), state))
            self.state = state
            looks.append((kept, self._validate(valid, negative)))
        self.state = carried
        self.network.train()
        return max(looks, key=lambda look: look[1])

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        """Adam, and one that touches only the rows of the node vectors that a batch has read."""
        named = list(self.network.named_parameters())
        vectors = [tensor for name, tensor in named if name.startswith(VECTORS)]
        others = [tensor for name, tensor in named if not name.startswith(VECTORS)]
        return [
            torch.optim.Adam(others, lr=self.learning_rate, weight_decay=self.weight_decay, fused=True),
            torch.optim.SparseAdam(vectors, lr=self.learning_rate * self.vector_rate),
        ]

    def _step(
        self, piece: Events, sampler: NegativeSampler, rng: np.random.Generator, optimizers: list[torch.optim.Optimizer]
    ) -> float:
        negative = sampler.draw(piece.src, piece.dst, rng)[:, 0]
        logits = self._along(piece, *_paired(piece, negative))
        happened = torch.arange(len(logits)) < len(piece)
        loss = softplus(torch.where(happened, -logits, logits)).mean()
        if not torch.isfinite(loss):
            raise self._astray(f"the loss is {float(loss.detach())} at time {piece.time[0]}")
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(optimizers[0].param_groups[0]["params"], 1.0)
        for optimizer in optimizers:
            optimizer.step()
        return float(loss.detach())

    def _validate(self, valid: Events, negative: Ints) -> float:
        """AUC of the validation events against their negatives, as they come; the state moves on."""
        if not len(valid):
            return float("nan")
        scores = self._ask(valid, *_paired(valid, negative))
        if not np.isfinite(scores).all():
            raise self._astray("scores of the validation events are not finite")
        return float(roc_auc_score(np.repeat([1, 0], len(valid)), scores))

    def _astray(self, what: str) -> ConfigError:
        cure = f"lower the learning rate, which is {self.learning_rate}"
        return ConfigError(f"the training of {self.name} went astray: {what}; {cure}")

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] logits from the state."""
        self._clock.check(time)
        return self._ask(None, src, dst, time)

    def observe(self, events: Events) -> None:
        """Absorb the events into the state."""
        self.replay(events, *_no_questions())

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] as the reference, chunk by chunk."""
        self._clock.check(time)
        moved = copy.copy(self._clock)
        moved.advance(events)
        scores = self._ask(events, src, dst, time)
        self._clock = moved
        return scores

    def details(self) -> Details:
        """How many epochs the last fit ran, after how many its weights were kept, and their AUC on validation."""
        if not self.history:
            return {}
        marks = np.array([look["valid_auc"] for look in self.history])
        kept = self.history[-1 if np.isnan(marks).any() else int(marks.argmax())]
        return {"epochs": self.history[-1]["epoch"], "kept_epoch": kept["epoch"], "valid_auc": kept["valid_auc"]}

    @torch.no_grad()
    def _ask(self, events: Events | None, src: Ints, dst: Ints, time: Floats) -> Floats:
        """Logits along the stream: pieces of it, each with the questions that fall into it."""
        if self.state is None:
            raise StateError(f"{self.name} has learnt nothing yet; call fit first")
        order = np.argsort(time, kind="stable")
        scores = np.empty(len(time))
        done = 0
        share = 1 if events is None else max(1, self.asked * len(events) // max(len(events), len(time)))
        for piece in [] if events is None else events.chunks(share):
            until = int(np.searchsorted(time[order], piece.time[-1], side="right"))
            rows = order[done:until]
            scores[rows] = self._along(piece, src[rows], dst[rows], time[rows]).double().numpy()
            done = until
        nothing = _no_events()
        for start in range(done, len(order), self.asked):
            rows = order[start : start + self.asked]
            scores[rows] = self._along(nothing, src[rows], dst[rows], time[rows]).double().numpy()
        return scores


def _paired(events: Events, negative: Ints) -> tuple[Ints, Ints, Floats]:
    """The questions of the events themselves, then of their negatives."""
    return np.tile(events.src, 2), np.concatenate([events.dst, negative]), np.tile(events.time, 2)


def _no_questions() -> tuple[Ints, Ints, Floats]:
    nothing = np.empty(0, dtype=np.int64)
    return nothing, nothing, np.empty(0)


def _no_events() -> Events:
    rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    return Events(rows, rows, np.empty(0))
