"""Training of the classifier on the facts of an event: plain log-loss, few epochs, several members.

Every member learns from all rare events and a sample of the common ones of its own; what the sample does to the odds is
taken back afterwards, so that the outputs are probabilities. There is no early stopping: rare events of the validation
period are too few to choose an epoch by.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, embedding

from tapgnn.evaluation.metrics import log_loss, sigmoid
from tapgnn.events import Floats, Ints
from tapgnn.model import FactClassifier
from tapgnn.model.event_classifier import MEMBERS, PIECES

RATE, DECAY, BATCH, EPOCHS = 3e-3, 1e-2, 256, 8
# Common events in the sample of a member for each rare one, and at least.
COMMON_PER_RARE, COMMON_AT_LEAST = 30, 20_000
# Where earlier training parts end, as shares of the training events: each is periods on what follows, up to the next.
EARLIER = (0.5, 0.75)
# More pieces than usual, for labels that are not too rare for them.
MORE_PIECES = 8
# Descriptions that are encoded at a time.
ENCODED = 8_192


class Plan(NamedTuple):
    """What a classifier is given: the columns of a description, and into how many pieces each is cut."""

    used: Ints
    pieces: int = PIECES


def fit_facts(rows: NDArray[np.float32], labels: Ints, plan: Plan, seed: int) -> FactClassifier:
    """A classifier from the descriptions rows [n, D] of events with labels 0 or 1."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    classifier = FactClassifier(plan.used, plan.pieces)
    classifier.fit_pieces(rows)
    rare, common = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    kept = min(len(common), max(COMMON_AT_LEAST, COMMON_PER_RARE * len(rare)))
    samples = np.stack([np.concatenate([rare, rng.choice(common, kept, replace=False)]) for _ in range(MEMBERS)])
    with torch.no_grad():
        classifier.bias.fill_(math.log(len(rare) / kept))
    _train(classifier, rows, labels, samples, rng)
    with torch.no_grad():
        classifier.bias.add_(math.log(kept / len(common)))
    return classifier.eval()


def _train(
    classifier: FactClassifier, rows: NDArray[np.float32], labels: Ints, samples: Ints, rng: np.random.Generator
) -> None:
    """Some epochs over the samples [M, n] of the members."""
    decayed = [classifier.additive, classifier.first, classifier.second, classifier.out]
    free = [part for part in classifier.parameters() if all(part is not other for other in decayed)]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": free, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, fused=True)
    steps = EPOCHS * math.ceil(samples.shape[1] / BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=0.1)
    drawn, samples = np.unique(samples, return_inverse=True)
    parts = torch.split(torch.from_numpy(rows[drawn]), ENCODED)
    encoded, targets = torch.cat([classifier.encode(part) for part in parts]), torch.from_numpy(labels[drawn]).float()
    classifier.train()
    for _ in range(EPOCHS):
        order = torch.from_numpy(rng.permuted(samples, axis=1))
        for batch in torch.split(order, BATCH, dim=1):
            logits = classifier.members(embedding(batch, encoded))
            # A member's loss is a mean over its own batch; they have no weights in common.
            loss = binary_cross_entropy_with_logits(logits, targets[batch]) * len(logits)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()


@torch.no_grad()
def logits_of(classifier: FactClassifier, rows: NDArray[np.float32]) -> Floats:
    """[n] logits of descriptions [n, D]."""
    parts: list[Tensor] = [classifier(part) for part in torch.split(torch.from_numpy(rows), ENCODED)]
    return torch.cat(parts).double().numpy()


class Period(NamedTuple):
    """Logits and labels [n] of the events of some period, by a classifier that was trained on earlier ones alone."""

    logits: Floats
    labels: Ints

    def loss(self, shift: float = 0.0) -> float:
        """The mean log-loss."""
        return float(log_loss(self.labels, self.logits + shift).mean())


def forward_test(
    train: tuple[NDArray[np.float32], Ints], valid: tuple[NDArray[np.float32], Ints], plan: Plan, seed: int
) -> tuple[FactClassifier, list[Period]]:
    """A classifier of the training events, tested on validation; before, others of earlier parts on what followed.

    Each part has rows [n, D] and labels [n]. A period or an earlier part without both classes is left out. With few
    rare events one period says little, and positive labels drift: what is chosen should hold in more than one.
    """
    rows, labels = train
    periods = []
    borders = [*(int(share * len(labels)) for share in EARLIER), len(labels)]
    for end, until in pairwise(borders):
        if _both(labels[:end]) and _both(labels[end:until]):
            earlier = fit_facts(rows[:end], labels[:end], plan, seed)
            periods.append(Period(logits_of(earlier, rows[end:until]), labels[end:until]))
    classifier = fit_facts(rows, labels, plan, seed)
    return classifier, [*periods, Period(logits_of(classifier, valid[0]), valid[1])]


def predicts_better(one: list[Period], other: list[Period]) -> bool:
    """Whether a plan has the lower log-loss in most of the periods, each at its own share of the positive label.

    That share drifts, which no choice of inputs can know. One period, in which something new happens, does not decide.
    """
    wins = [
        first.loss(_intercept([first])) < second.loss(_intercept([second]))
        for first, second in zip(one, other, strict=True)
    ]
    return 2 * sum(wins) > len(wins)


def choose_shift(periods: list[Period]) -> float:
    """The correction of the intercept, fitted on all periods; 0 unless it helps in each, fitted on the others."""
    for place, period in enumerate(periods):
        others = [*periods[:place], *periods[place + 1 :]]
        if not others or period.loss(_intercept(others)) >= period.loss():
            return 0.0
    return _intercept(periods)


def _intercept(periods: list[Period]) -> float:
    """What added to the logits makes their probabilities sum to the number of positive labels (Newton's method)."""
    logits = np.concatenate([period.logits for period in periods])
    shift, wanted = 0.0, sum(int(period.labels.sum()) for period in periods)
    for _ in range(50):
        probability = sigmoid(logits + shift)
        step = (wanted - probability.sum()) / max((probability * (1.0 - probability)).sum(), 1e-9)
        shift += float(np.clip(step, -1.0, 1.0))
    return shift


def _both(labels: Ints) -> bool:
    return bool(0 < labels.sum() < len(labels))
