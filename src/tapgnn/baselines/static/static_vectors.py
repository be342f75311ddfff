"""Embedding: what the methods share that give each node one vector in training and stand still afterwards.

    score(u, v, t) = the logit of (z_u, z_v), whatever t

They do not see history after training: `observe` moves the clock on and learns nothing. A node that training did not
reach has the vector zero, a defined answer. Settings are chosen on validation: each candidate is fitted to the training
events, and the one with the highest AUC on the validation events stays (the first one, where there are none).
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Protocol, Self, TypeVar

from tapgnn.baselines.method import Clock, Details, Method
from tapgnn.baselines.shared.labelled_pairs import Pairs, labelled
from tapgnn.data.negatives import training_sampler
from tapgnn.errors import StateError
from tapgnn.events import Events, Floats, Ints

Setting = TypeVar("Setting")


class Scorer(Protocol):
    """What a fit leaves behind: a logit for each pair [Q]."""

    def logits(self, src: Ints, dst: Ints) -> Floats:
        """[Q] above 0 where an event is likelier than not."""


Learned = tuple[Scorer, Details]


class EmbeddingMethod(Method):
    """One vector a node, learnt from the training events."""

    sees_history = False

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._clock = Clock()
        self._scorer: Scorer | None = None
        self._details: Details = {}

    @abstractmethod
    def _learn(self, train: Events, practice: Pairs, exam: Pairs) -> Learned:
        """Fit to the training events and the labelled pairs made of them; choose by the pairs of validation alone."""

    def fit(self, train: Events, valid: Events) -> None:
        """Learn vectors and a classifier of pairs from the training events."""
        sampler = training_sampler(train)
        practice = labelled(train, sampler, self.seed, "training")
        exam = labelled(valid, sampler, self.seed, "validation")
        self._scorer, self._details = self._learn(train, practice, exam)
        self._clock = Clock()
        self._clock.advance(train)

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] the logit of each pair; the time plays no part, but must lie after what was observed."""
        if self._scorer is None:
            raise StateError(f"{self.name} has learnt nothing yet; call fit first")
        self._clock.check(time)
        return self._scorer.logits(src, dst)

    def observe(self, events: Events) -> None:
        """Move the clock on; nothing is learnt from these events."""
        self._clock.advance(events)

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] as the reference, in one pass."""
        scores = self.score(src, dst, time)
        self.observe(events)
        return scores

    def details(self) -> Details:
        """What the last fit chose, and its AUC on validation."""
        return dict(self._details)

    def answering(self, scorer: Scorer) -> Self:
        """This fit with another scorer, and a clock of its own."""
        other = copy.copy(self)
        other._scorer, other._clock = scorer, copy.copy(self._clock)
        return other


def best_of(
    settings: Iterable[Setting], fitted: Callable[[Setting], Scorer], exam: Pairs
) -> tuple[Setting, Scorer, float]:
    """The setting whose scorer has the highest AUC on the exam, that scorer, and the AUC (0.5 for an empty exam)."""
    found: list[tuple[Setting, Scorer, float]] = []
    for setting in settings:
        scorer = fitted(setting)
        mark = exam.auc(scorer.logits(exam.src, exam.dst)) if len(exam) else 0.5
        if not found or mark > found[0][2]:
            found = [(setting, scorer, mark)]
    if not found:
        raise StateError("there is no setting to choose from; give at least one")
    return found[0]
