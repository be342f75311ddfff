"""Warm-up: the loops of a model are compiled before the first request needs them."""

from __future__ import annotations

import copy

import numpy as np
import torch

from tapgnn.events import Events
from tapgnn.model import EventClassifier, Model
from tapgnn.model.inference import FEW
from tapgnn.vocabulary import Vocabulary


@torch.no_grad()
def warm_up(model: Model, classifier: EventClassifier | None = None) -> None:
    """Advance and query on made-up events and an empty state: a few, which run compiled whole, and then many."""
    twin = copy.copy(model)
    twin.vocabulary = Vocabulary()
    config, state = model.config, twin.empty_state()
    step = max(config.span, 1.0)
    for size in (3, FEW + 1):
        times = max(state.clock, config.origin) + step * np.arange(1.0, size + 1)
        features = np.zeros((size, config.feature_width), dtype=np.float32) if config.feature_width else None
        ends = np.arange(size), np.arange(1, size + 1)
        events = Events.from_arrays(*ends, times, features, vocabulary=twin.vocabulary)
        trace, state = twin.advance(events, state)
        for where, asked in ((trace, times), (state, times + step * size)):
            twin.score(where, events.src, events.dst, asked)
            twin.query(where, events.src, asked)
            if classifier is not None:
                twin.classify(where, classifier, events.src, events.dst, asked, features)
