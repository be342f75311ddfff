"""Embedding methods: one vector per node, learned from the training events and fixed afterwards.

    score(u, v, t) = the logit of (z_u, z_v), whatever t

They do not see history after training: `observe` advances the clock and learns nothing. A node that training did not
reach has the vector zero, so that its scores are defined. Settings are selected on validation: each candidate is fitted
to the training events, and the one with the highest AUC on the validation events is kept (the first, without them).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch

from tapgnn.baselines.method import Details, Method, StreamClock, check_counts
from tapgnn.baselines.shared.labelled_pairs import Pairs, labelled
from tapgnn.data.negatives import rng_for, training_sampler
from tapgnn.errors import ConfigError, StateError
from tapgnn.events import Events, Floats, Ints

Setting = TypeVar("Setting")
# The result of a fit: the logit [Q] of each pair (src, dst), above 0 where an event is likelier than not.
Scorer = Callable[[Ints, Ints], Floats]


@dataclass(eq=False)
class EmbeddingMethod(Method):
    """One vector per node, learned from the training events."""

    sees_history = False

    seed: int = 0

    def __post_init__(self) -> None:
        check_counts(self)
        self._clock = StreamClock()
        self._scorer: Scorer | None = None
        self._details: Details = {}

    @abstractmethod
    def _learn(self, train: Events, train_pairs: Pairs, valid_pairs: Pairs) -> tuple[Scorer, Details]:
        """Fit to the training events and pairs; the validation pairs may only select settings."""

    def fit(self, train: Events, valid: Events) -> None:
        """Learn vectors and a classifier of pairs from the training events."""
        sampler = training_sampler(train)
        train_pairs = labelled(train, sampler, rng_for(self.seed, "training"))
        valid_pairs = labelled(valid, sampler, rng_for(self.seed, "validation"))
        with torch.random.fork_rng(devices=[]):
            self._scorer, self._details = self._learn(train, train_pairs, valid_pairs)
        self._clock = StreamClock()
        self._clock.advance(train)

    def forget(self) -> None:
        """Reset the clock; the vectors know the training events alone."""
        self._clock = StreamClock()

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] the logit of each pair; the time is ignored, but must lie after what was observed."""
        if self._scorer is None:
            raise StateError(f"{self.name} has not been fitted; call fit first")
        self._clock.check(time)
        return self._scorer(src, dst)

    def observe(self, events: Events) -> None:
        """Advance the clock; nothing is learned from these events."""
        self._clock.advance(events)

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] the same scores as the reference, in one pass."""
        scores = self.score(src, dst, time)
        self.observe(events)
        return scores

    def details(self) -> Details:
        """What the last fit selected, and its validation AUC."""
        return dict(self._details)


def validation_auc(scorer: Scorer, pairs: Pairs) -> float:
    """The AUC of a scorer on the validation pairs, 0.5 where there are none."""
    return pairs.auc(scorer(pairs.src, pairs.dst)) if len(pairs) else 0.5


def select(
    settings: Iterable[Setting], fit: Callable[[Setting], Scorer], pairs: Pairs
) -> tuple[Setting, Scorer, float]:
    """The setting whose scorer has the highest validation AUC, that scorer, and the AUC; ties go to the first."""

    def tried(setting: Setting) -> tuple[Setting, Scorer, float]:
        scorer = fit(setting)
        return setting, scorer, validation_auc(scorer, pairs)

    best = max(map(tried, settings), key=lambda found: found[2], default=None)
    if best is None:
        raise ConfigError("there is no setting to select from; give at least one")
    return best
