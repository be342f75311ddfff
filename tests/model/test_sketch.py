"""Walk sketches against exact decayed counts of temporal walks, counted one by one."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Config, Events, Model
from tapgnn.model.sketch import plain_walk_products, sign_vectors, walk_products

from ..streams import streams, tiny_model


def exact_walks(events, rate, when, steps):
    """W[k][v, x]: decayed number of temporal walks of k steps from x to v, each weighted by the age of every step.

    A step along an event at time t brings what its start held at t, the instant itself included, and then fades with
    the age of the step.
    """
    nodes = len(events.vocabulary)
    held = [np.eye(nodes)] + [np.zeros((nodes, nodes)) for _ in range(steps)]
    last = np.full(nodes, -np.inf)
    for time in np.unique(events.time):
        batch = np.flatnonzero(events.time == time)
        active = np.unique(np.concatenate([events.src[batch], events.dst[batch]]))
        for k in range(1, steps + 1):
            held[k][active] *= np.exp(-rate * np.where(np.isinf(last[active]), 0, time - last[active]))[:, None]
        for k in range(1, steps + 1):
            for u, v in zip(events.src[batch], events.dst[batch], strict=True):
                held[k][u] += held[k - 1][v]
                held[k][v] += held[k - 1][u]
        last[active] = time
    fade = np.exp(-rate * np.where(np.isinf(last), 0, when - last))[:, None]
    return [held[0]] + [table * fade for table in held[1:]]


def estimates(events, width, when, half_life, steps=2):
    config = Config(
        width=2, rates=1, layers=1, sketch_width=width, sketch_steps=steps, half_lives=(0.0, half_life), span=20.0
    )
    model = Model(config, events.vocabulary).double().eval()
    _, state = model.advance(events, model.empty_state())
    pairs = np.array([(u, v) for u in range(len(events.vocabulary)) for v in range(len(events.vocabulary))])
    past = [
        state.past(torch.tensor(pairs[:, side]), torch.full((len(pairs),), when, dtype=torch.float64))
        for side in (0, 1)
    ]
    fades = [model._fade(p) for p in past]
    return walk_products(past[0].sketch, past[1].sketch, *fades, width, steps).reshape(len(pairs), 2, -1).numpy(), pairs


def truth(events, pairs, when, half_life, steps=2):
    columns = []
    for rate in (0.0, np.log(2) / (half_life * 20.0)):
        held = exact_walks(events, rate, when, steps)
        for i in range(steps + 1):
            for j in range(steps + 1):
                if i or j:
                    columns.append([held[i][u] @ held[j][v] for u, v in pairs])
    return np.array(columns).T.reshape(len(pairs), 2, -1)


def small_graph(seed):
    """Six nodes whose ids, and so whose random vectors, depend on the seed."""
    rng = np.random.default_rng(seed)
    return Events.from_arrays(
        *(rng.integers(0, 6, (2, 14)) + 100 * seed), np.sort(rng.integers(0, 9, 14)).astype(float)
    )


def test_products_estimate_exact_decayed_walk_counts_with_an_error_that_shrinks_as_one_over_root_r():
    when, half_life = 11.0, 0.2
    errors = {64: [], 1024: [], 16384: []}
    for seed in range(8):
        events = small_graph(seed)
        for width, found_errors in errors.items():
            found, pairs = estimates(events, width, when, half_life)
            exact = truth(events, pairs, when, half_life)
            found_errors.append(np.mean((found - exact) ** 2) / np.mean(exact**2))
    coarse, middle, fine = (np.sqrt(np.mean(found)) for found in errors.values())
    assert coarse < 0.3
    # Sixteen times the width is a quarter of the error.
    assert 2.5 < coarse / middle < 6.5
    assert 2.5 < middle / fine < 6.5


@given(streams(max_events=20))
def test_sketches_are_the_exact_propagation_of_the_random_vectors(events):
    """Linear in the vectors: S_k equals the exact walk table times the sign vectors, to the last digit."""
    model = tiny_model("mean", events.vocabulary, half_lives=(0.3,), sketch_width=5)
    _, state = model.advance(events, model.empty_state())
    signs = sign_vectors(events.vocabulary.ids, 5)
    rate = np.log(2) / (0.3 * 20.0)
    when = float(events.time[-1])
    held = exact_walks(events, rate, when, 2)
    size = len(events.vocabulary)
    fade = model._fade(state.past(torch.arange(size), torch.full((size,), when + 1.0, dtype=torch.float64)))
    fade = fade * np.exp(rate)
    for step in (1, 2):
        rows = state.sketch[1 : size + 1, 5 * step : 5 * step + 5] * fade
        np.testing.assert_allclose(rows.numpy(), held[step] @ signs, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3), st.integers(1, 9))
def test_plain_torch_gives_the_same_products(seed, steps, rates, width):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randn(4, width * (1 + steps * rates), generator=generator, dtype=torch.float64) for _ in range(2)]
    fades = [torch.rand(4, rates, generator=generator, dtype=torch.float64) for _ in range(2)]
    torch.testing.assert_close(
        walk_products(*rows, *fades, width, steps), plain_walk_products(*rows, *fades, width, steps)
    )


@pytest.mark.parametrize("width", [1, 63, 64, 200])
def test_sign_vectors_depend_on_the_id_alone(width):
    both = sign_vectors(["ann", 7], width)
    assert np.array_equal(sign_vectors([7], width)[0], both[1])
    assert set(np.unique(both)) <= {-1.0, 1.0}
    many = sign_vectors(list(range(2000)), width)
    assert abs(many.mean()) < 0.1
    if width > 1:
        assert abs((many[:-1] * many[1:]).mean()) < 0.1
