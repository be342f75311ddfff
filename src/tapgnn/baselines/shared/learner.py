"""Learner: how every network here is trained, selected and queried, whatever it is inside.

A method brings a network, an empty state, and one function:

    _logits(events, src, dst, time) -> [Q]      absorb the events; each query sees what came strictly before it

Where each end has a representation of its own (`NodeLearner`), it brings another one, and its network a `head` (a
`MergeLayer`) for the logit of two of them:

    _embed(events, node, time) -> h [R, d]      absorb the events; each (node, time) sees what came strictly before it

Training, validation, `observe`, `score` and `replay` all go through it, so that nothing is computed in one way in
training and in another when queried.

    loss = mean of -log sigma(logit of the event) - log sigma(-logit of one random negative)

An epoch runs over the log in order of time, from the empty state. `validations` times an epoch (as for TAP-GNN) the
current weights are validated: without dropout and gradients they read the training events from the empty state, and
score the validation events from there. The best weights and that state are kept and restored together. Training stops
after `patience` epochs without a better AUC. Without validation events the last weights are kept. Where the state is
the log itself (TGAT, TDGNN, GraphSAGE*), reading the training events again costs next to nothing.

Where the state depends on the weights (`has_memory`), the one that training carried along is validated too at the end
of an epoch, and the better of the two is kept: the references continue from it. For DyRep it matters
(soc-sign-bitcoinotc, seed 0: test AUC 0.924, and 0.779 with the other state alone). The reason is not known; the
carried state comes from many successive weights, so it may tell how long ago a node was updated, which DyRep does not
see otherwise.

With a lag (`tapgnn.baselines.lag`), the queries of training and validation see a history as stale as those of the test.

Node vectors (`vectors` of the network) have sparse gradients and an optimizer that touches the rows of a batch alone,
so that a step costs the same however many nodes there are; as with TAP-GNN, their gradients are not clipped.
"""

from __future__ import annotations

import copy
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import softplus

from tapgnn.baselines.lag import replay_with_lag, stale_batches
from tapgnn.baselines.method import Details, Method, StreamClock, check_counts
from tapgnn.baselines.shared.labelled_pairs import Pairs, diverged, labelled
from tapgnn.baselines.shared.neighbourhood import distinct
from tapgnn.baselines.shared.temporal_attention import EventHistory
from tapgnn.data.negatives import rng_for, training_sampler
from tapgnn.errors import ConfigError, StateError
from tapgnn.events import Events, Floats, Ints
from tapgnn.model.trace import whole_batches

logger = logging.getLogger(__name__)
NO_QUERIES: tuple[Ints, Ints, Floats] = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))
NO_EVENTS = Events(*NO_QUERIES)


@dataclass(eq=False)
class Learner(Method):
    """A network that is trained on links, `batch` events a step, and carries a state along the stream.

    `vector_rate` multiplies the learning rate of the node vectors, which overfit first.
    """

    sees_history = True
    has_memory: ClassVar[bool] = False
    query_batch: ClassVar[int] = 4_096

    seed: int = 0
    width: int = 64
    epochs: int = 10
    patience: int = 3
    validations: int = 2
    batch: int = 200
    learning_rate: float = 1e-3
    vector_rate: float = 0.1
    weight_decay: float = 1e-5
    dropout: float = 0.1

    def __post_init__(self) -> None:
        check_counts(self)
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate must be positive, not {self.learning_rate}")
        self.network: Any = None
        self.state: Any = None
        self.history: list[dict[str, float]] = []
        self._details: Details = {}
        self._clock = StreamClock()

    @abstractmethod
    def _build(self, train: Events) -> nn.Module:
        """A new network for this log."""

    def _empty_state(self) -> Any:
        """The state before the first event: by default, the past that a network with an encoding of time reads."""
        return EventHistory(self.network.encoding, self.network.features)

    @abstractmethod
    def _logits(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Tensor:
        """[Q] the logit of each query, from what came strictly before it; `self.state` takes the events."""

    def fit(self, train: Events, valid: Events) -> None:
        """Train from scratch and select the weights on validation; afterwards exactly `train` has been observed."""
        sampler = training_sampler(train)
        draw = partial(labelled, sampler=sampler, rng=rng_for(self.seed, "training"))
        valid_pairs = labelled(valid, sampler, rng_for(self.seed, "validation"))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.network = self._build(train)
            self._train(train, draw, valid, valid_pairs)
        self.network.eval()
        self._clock = StreamClock()
        self._clock.advance(train)

    def _train(self, train: Events, draw: Callable[[Events], Pairs], valid: Events, valid_pairs: Pairs) -> None:
        """Train until `epochs` or `patience` is over; `draw` adds negatives to a batch of training events."""
        optimizers = self._optimizers()
        best, best_auc, best_epoch = (self.network.state_dict(), self._empty_state()), -np.inf, 0.0
        self.history = []
        for epoch in range(self.epochs):
            if epoch - best_epoch >= self.patience:
                break
            for share, loss in self._epoch(train, lambda piece: self._step(piece, draw(piece), optimizers)):
                kept, auc = self._validate(train, valid, valid_pairs, share == 1.0)
                self.history.append({"epoch": epoch + share, "loss": loss, "valid_auc": auc})
                logger.info("%s: %s", self.name, self.history[-1])
                if not auc <= best_auc:
                    best, best_auc, best_epoch = kept, auc, epoch + share
        weights, self.state = best
        self.network.load_state_dict(weights)
        self._details = {"epochs": self.history[-1]["epoch"], "kept_epoch": best_epoch, "valid_auc": best_auc}

    def _epoch(self, train: Events, step: Callable[[Events], float]) -> Iterator[tuple[float, float]]:
        """Train along the log; whenever a validation is due, yield the share of the log that was read and the loss."""
        due = [round(len(train) * (place + 1) / self.validations) for place in range(self.validations)]
        losses, done = [], 0
        self.state = self._empty_state()
        self.network.train()
        for piece in train.chunks(whole_batches(self.batch, self.lag)):
            losses.append(step(piece))
            done += len(piece)
            if done >= due[0]:
                due = [count for count in due if count > done]
                yield done / len(train), float(np.mean(losses))
                losses = []

    def _validate(self, train: Events, valid: Events, pairs: Pairs, epoch_ended: bool) -> tuple[tuple[Any, Any], float]:
        """The current weights with the better of their states after all of `train`, and its validation AUC."""
        carried, self.state = self.state, self._empty_state()
        self.network.eval()
        self._score_stream(train, *NO_QUERIES)
        candidates = []
        for state in [self.state, *([carried] if epoch_ended and self.has_memory else [])]:
            kept = copy.deepcopy((self.network.state_dict(), state))
            self.state = state
            candidates.append((kept, self._validation_auc(valid, pairs)))
        self.state = carried
        self.network.train()
        return max(candidates, key=lambda candidate: candidate[1])

    def _validation_auc(self, valid: Events, pairs: Pairs) -> float:
        """AUC of the validation events against their negatives, along the stream; the state moves on."""
        self._clock = StreamClock()
        scores = replay_with_lag(self, valid, pairs.src, pairs.dst, pairs.time, self.lag)
        return pairs.auc(scores) if len(pairs) else float("nan")

    def _optimizers(self) -> Sequence[torch.optim.Optimizer]:
        """Adam, and one that touches only the rows of the node vectors that a batch has read."""
        vectors = list(self.network.vectors.parameters())
        others = [tensor for name, tensor in self.network.named_parameters() if not name.startswith("vectors.")]
        return [
            torch.optim.Adam(others, lr=self.learning_rate, weight_decay=self.weight_decay, fused=True),
            torch.optim.SparseAdam(vectors, lr=self.learning_rate * self.vector_rate),
        ]

    def _step(self, piece: Events, pairs: Pairs, optimizers: Sequence[torch.optim.Optimizer]) -> float:
        """One step on a batch of events and their negatives; returns the loss."""
        logits = self._stale_logits(piece, pairs.src, pairs.dst, pairs.time)
        loss = softplus(torch.where(torch.from_numpy(pairs.label == 1), -logits, logits)).mean()
        value = float(loss.detach())
        if not np.isfinite(value):
            raise diverged(f"the loss is {value} at time {piece.time[0]} with learning rate {self.learning_rate}")
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(optimizers[0].param_groups[0]["params"], 1.0)
        for optimizer in optimizers:
            optimizer.step()
        return value

    def _stale_logits(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Tensor:
        """[Q] the logit of each query, whose history is as stale as it will be in the test; the state takes the events.

        What is absorbed alone gets its gradient, as what came in earlier batches does, from the state that is read.
        """
        if self.lag < 2:
            return self._logits(events, src, dst, time)
        asked = list[Ints]()
        found = list[Tensor]()
        for rows in stale_batches(lambda seen: self._score_stream(seen, *NO_QUERIES), events, time, self.lag):
            asked.append(rows)
            found.append(self._logits(NO_EVENTS, src[rows], dst[rows], time[rows]))
        return torch.cat(found)[torch.from_numpy(np.argsort(np.concatenate(asked)))]

    def forget(self) -> None:
        """Start from the empty state."""
        self.state, self._clock = self._empty_state(), StreamClock()

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] logits from the state."""
        return self.replay(NO_EVENTS, src, dst, time)

    def observe(self, events: Events) -> None:
        """Absorb the events into the state."""
        self.replay(events, *NO_QUERIES)

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] the same scores as the reference, chunk by chunk."""
        self._clock.check(time)
        moved = copy.copy(self._clock)
        moved.advance(events)
        scores = self._score_stream(events, src, dst, time)
        self._clock = moved
        return scores

    def details(self) -> Details:
        """How many epochs the last fit ran, after how many its weights were kept, and their validation AUC."""
        return dict(self._details)

    def _score_stream(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """Logits along the stream."""
        scores = np.empty(len(time))
        self._ask_along(events, time, lambda piece, q: self._logits(piece, src[q], dst[q], time[q]).double(), scores)
        return scores

    @torch.no_grad()
    def _ask_along(
        self, events: Events, time: Floats, answer: Callable[[Events, Ints], Tensor], answers: NDArray[Any]
    ) -> None:
        """Fill answers [Q, ...] along the stream, in chunks of it, each with the queries [q] that fall into it."""
        if self.state is None:
            raise StateError(f"{self.name} has not been fitted; call fit first")
        order = np.argsort(time, kind="stable")
        done = 0
        share = max(1, self.query_batch * len(events) // max(len(events), len(time), 1))
        for piece in events.chunks(share):
            until = int(np.searchsorted(time[order], piece.time[-1], side="right"))
            rows = order[done:until]
            answers[rows] = answer(piece, rows).numpy()
            done = until
        for start in range(done, len(order), self.query_batch):
            rows = order[start : start + self.query_batch]
            answers[rows] = answer(NO_EVENTS, rows).numpy()


@dataclass(eq=False)
class NodeLearner(Learner):
    """A learner whose network gives each end a vector of its own; every (node, time) of a batch is computed once."""

    @abstractmethod
    def _embed(self, events: Events, node: Ints, time: Floats) -> Tensor:
        """h [R, d] of distinct (node, time) [R], each from what came strictly before; `self.state` takes the events."""

    def _logits(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Tensor:
        (node, when), place = distinct(np.concatenate([src, dst]), np.tile(time, 2))
        h = self._embed(events, node, when)[torch.from_numpy(place)]
        logits: Tensor = self.network.head(h[: len(src)], h[len(src) :]).squeeze(1)
        return logits

    def represent(self, events: Events, node: Ints, time: Floats) -> NDArray[np.float32]:
        """h [Q, d] of nodes along a stream, each from what came strictly before its time; observes the events."""

        def answer(piece: Events, rows: Ints) -> Tensor:
            (distinct_node, when), place = distinct(node[rows], time[rows])
            return self._embed(piece, distinct_node, when)[torch.from_numpy(place)]

        self._clock.check(time)
        found = np.empty((len(node), self.width), dtype=np.float32)
        self._ask_along(events, time, answer, found)
        self._clock.advance(events)
        return found
