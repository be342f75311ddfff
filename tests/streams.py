"""Random streams for the laws: ties, repeats, self-loops, nodes that appear late, and random cuts of them."""

from dataclasses import replace

import numpy as np
import torch
from hypothesis import strategies as st

from tapgnn import Config, Events, Model, State, Vocabulary

KERNEL_NAMES = ("gcn", "mean", "pool", "attention", "adaptive", "mean-with-self")


CODES = 3


def random_features(rng, size, features):
    """Numbers [size, features], the last of them a code of a category where there are several; None for no features."""
    vectors = rng.normal(size=(size, features)) if features else None
    if features > 1:
        vectors[:, -1] = rng.integers(0, CODES, size)
    return vectors


def feature_widths(features):
    """The options of a model that takes `random_features`."""
    several = features > 1
    return {"edge_features": features - several, "edge_categories": (CODES,) if several else ()}


@st.composite
def streams(draw, max_events=40, features=0):
    """Time-sorted events over few nodes and few instants."""
    size = draw(st.integers(1, max_events))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes = draw(st.integers(1, 8))
    time = np.cumsum(rng.choice([0.0, 0.0, 0.25, 1.0, 3.5], size)) + 1e9
    # The range of ids grows along the stream, so that later chunks bring nodes never seen before.
    reach = np.linspace(1, nodes, size).astype(int)
    src, dst = rng.integers(0, reach), rng.integers(0, reach)
    vectors = random_features(rng, size, features)
    return Events.from_arrays(src, dst, time, features=vectors)


@st.composite
def cuts(draw, events):
    """The stream in pieces, cut between random instants; some pieces are empty."""
    borders = np.flatnonzero(np.diff(events.time)) + 1
    chosen = sorted(draw(st.lists(st.sampled_from([0, *borders.tolist(), len(events)]), max_size=6)))
    return [events.slice(a, b) for a, b in zip([0, *chosen], [*chosen, len(events)], strict=True)]


def tiny_model(kernel="adaptive", vocabulary=None, seed=0, **changes):
    """A float64 model in evaluation mode with everything switched on that the kernel allows."""
    torch.manual_seed(seed)
    vocabulary = Vocabulary() if vocabulary is None else vocabulary
    options = {
        "kernel": kernel,
        "width": 8,
        "layers": 2,
        "rates": 1,
        "time_width": 3,
        "sketch_width": 8,
        "half_lives": (0.3, 0.05),
        "sketch_half_lives": (0.3,),
        "dropout": 0.0,
        "origin": 1e9,
        "span": 20.0,
        "unit": 0.5,
        "events": 30.0,
    }
    model = Model(Config(**{**options, **changes}), vocabulary).double().eval()
    if model.config.head == "mlp":
        # They start at 0, and would hide the representations.
        torch.nn.init.normal_(model.head.of_pair)
    return model


def on_vocabulary(events, vocabulary):
    """The same rows under another vocabulary object, for logs whose vocabularies agree."""
    return replace(events, vocabulary=vocabulary)


def assert_same_state(first: State, second: State, tolerance=1e-10):
    assert first.clock == second.clock
    assert first.events == second.events
    assert first.size == second.size
    for name in ("sums", "statistics", "embedding", "sketch", "partners"):
        left, right = (getattr(state, name)[: state.size + 1] for state in (first, second))
        assert torch.equal(left.isinf(), right.isinf()), name
        torch.testing.assert_close(
            left.nan_to_num(neginf=0), right.nan_to_num(neginf=0), rtol=tolerance, atol=tolerance
        )
