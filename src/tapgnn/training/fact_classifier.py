"""Training of the classifier on the facts of an event: plain log-loss, few epochs, several members.

Every member learns from all rare events and a sample of the common ones of its own; what the sample does to the odds is
taken back afterwards, so that the outputs are probabilities. There is no early stopping: rare events of the validation
period are too few to choose an epoch by.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tapgnn.evaluation.metrics import log_loss
from tapgnn.events import Floats, Ints
from tapgnn.model import FactClassifier
from tapgnn.model.event_classifier import MEMBERS

RATE, DECAY, BATCH, EPOCHS = 3e-3, 1e-2, 256, 8
# Common events in the sample of a member for each rare one, and at least.
COMMON_PER_RARE, COMMON_AT_LEAST = 30, 20_000
# Consecutive parts of the validation events, each of which tests a correction fitted on the others.
FOLDS = 5
# Descriptions that are encoded at a time.
PIECE = 8_192


def fit_facts(
    rows: NDArray[np.float32], labels: Ints, used: Ints, seed: int, odds: float = 1.0, members: int = MEMBERS
) -> FactClassifier:
    """A classifier on the columns `used` of the descriptions rows [n, D] of events with labels 0 or 1.

    odds: of the rare label among all events, over those among these.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    classifier = FactClassifier(used, members=members)
    classifier.fit_pieces(rows)
    rare, common = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    kept = min(len(common), max(COMMON_AT_LEAST, COMMON_PER_RARE * len(rare)))
    samples = np.stack([np.concatenate([rare, rng.choice(common, kept, replace=False)]) for _ in range(members)])
    with torch.no_grad():
        classifier.bias.fill_(math.log(len(rare) / kept))
    _train(classifier, rows, labels, samples, rng)
    with torch.no_grad():
        classifier.bias.add_(math.log(odds * kept / len(common)))
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
    given, targets = torch.from_numpy(rows), torch.from_numpy(labels).float()
    classifier.train()
    for _ in range(EPOCHS):
        order = torch.from_numpy(rng.permuted(samples, axis=1))
        for batch in torch.split(order, BATCH, dim=1):
            logits = classifier.members(classifier.encode(given[batch]))
            # A member's loss is a mean over its own batch; they have no weights in common.
            loss = binary_cross_entropy_with_logits(logits, targets[batch]) * len(logits)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()


@torch.no_grad()
def logits_of(classifier: FactClassifier, rows: NDArray[np.float32]) -> Floats:
    """[n] logits of descriptions [n, D]."""
    parts: list[Tensor] = [classifier(part) for part in torch.split(torch.from_numpy(rows), PIECE)]
    return torch.cat(parts).double().numpy()


def intercept(logits: Floats, labels: Ints) -> float:
    """What added to the logits makes their probabilities sum to the number of rare labels (Newton's method)."""
    shift, wanted = 0.0, labels.sum() + 0.5
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-(logits + shift)))
        step = (wanted - chance.sum()) / max((chance * (1.0 - chance)).sum(), 1e-9)
        shift += float(np.clip(step, -1.0, 1.0))
    return shift


def choose_shift(logits: Floats, labels: Ints) -> float:
    """The correction of the intercept that validation asks for, 0 where it would not predict held-out parts better.

    Each of some consecutive parts of the validation events tests what the others ask for. The gain must be larger than
    its standard error: with few rare events a correction is mostly chance.
    """
    gains = np.empty(len(labels))
    for part in np.array_split(np.arange(len(labels)), FOLDS):
        others = np.ones(len(labels), dtype=bool)
        others[part] = False
        shift = intercept(logits[others], labels[others])
        gains[part] = log_loss(labels[part], logits[part]) - log_loss(labels[part], logits[part] + shift)
    error = float(gains.std()) / math.sqrt(len(gains))
    return intercept(logits, labels) if gains.mean() > error else 0.0
