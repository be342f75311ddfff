"""Warm-up: the loops of a model are compiled before the first request needs them."""

from __future__ import annotations

import copy

import numpy as np
import torch

from tapgnn.events import Events
from tapgnn.model import Model
from tapgnn.vocabulary import Vocabulary


@torch.no_grad()
def warm_up(model: Model) -> None:
    """Advance and query once, on a few made-up events and an empty state."""
    twin = copy.copy(model)
    twin.vocabulary = Vocabulary()
    config = model.config
    vectors = np.zeros((3, config.edge_features), dtype=np.float32) if config.edge_features else None
    times = config.origin + config.unit * np.array([1.0, 2.0, 2.0])
    events = Events.from_arrays(["a", "a", "b"], ["b", "c", "c"], times, vectors, vocabulary=twin.vocabulary)
    trace, state = twin.advance(events, twin.empty_state())
    twin.score(trace, events.src, events.dst, times)
    twin.score(state, events.src, events.dst, times[-1] + config.unit)
