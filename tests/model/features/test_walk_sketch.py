"""Walk sketches against exact decayed counts of temporal walks, counted one by one."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Config, Events, Model
from tapgnn.compiled.row_lookup import Rows
from tapgnn.model.features.row_layout import COSINE_FLOOR
from tapgnn.model.features.walk_sketch import (
    Sketching,
    by_rate,
    compare_sketches,
    decay_to_queries,
    plain_compare_sketches,
    sign_vectors,
)
from tapgnn.vocabulary import hash_ids

from ...streams import streams, tiny_model


def exact_walks(events, rate, steps):
    """W[k][v, x]: number of temporal walks of k steps from x to v, each fading with the age of every step.

    Age is counted in events of the whole graph. A step along an event brings what its start held at that instant, the
    instant itself included.
    """
    nodes = len(events.vocabulary)
    held = [np.eye(nodes)] + [np.zeros((nodes, nodes)) for _ in range(steps)]
    done = 0
    for time in np.unique(events.time):
        batch = np.flatnonzero(events.time == time)
        for table in held[1:]:
            table *= np.exp(-rate * len(batch))
        for k in range(1, steps + 1):
            for u, v in zip(events.src[batch], events.dst[batch], strict=True):
                held[k][u] += held[k - 1][v]
                held[k][v] += held[k - 1][u]
        done += len(batch)
    assert done == len(events)
    return held


def kept_until(model, state, nodes, time):
    """[n, 1 + H] what is left of the sketches of nodes at a time."""
    asked = model.past(state, nodes, time).tensors()
    given = (column.numpy() for column in (model.backend.pick(asked.statistics), asked.time, asked.seen))
    return decay_to_queries(*given, model.spans, model.sketching.rate, state.sketch.numpy())


def estimates(events, width, half_life, steps=2):
    config = Config(
        width=8, layers=1, sketch_width=width, sketch_steps=steps, sketch_half_lives=(half_life,), events=len(events)
    )
    model = Model(config, events.vocabulary).double().eval()
    _, state = model.advance(events, model.empty_state())
    pairs = np.array([(u, v) for u in range(len(events.vocabulary)) for v in range(len(events.vocabulary))])
    size, nodes, when = len(pairs), pairs.T.ravel(), float(events.time[-1]) + 1
    kept = torch.from_numpy(kept_until(model, state, nodes, when))
    ends = by_rate(model.recall(state, nodes, when)[2], kept, width, steps)
    counts = torch.einsum("qhiw,qhjw->qhij", ends[:size], ends[size:]) / width
    return counts.flatten(2)[:, :, 1:].flatten(1).numpy(), pairs


def truth(events, pairs, half_life, steps=2):
    columns = []
    for rate in (0.0, np.log(2) / (half_life * len(events))):
        held = exact_walks(events, rate, steps)
        steps_of = [(i, j) for i in range(steps + 1) for j in range(steps + 1) if i or j]
        columns += [[held[i][u] @ held[j][v] for u, v in pairs] for i, j in steps_of]
    return np.array(columns).T


def small_graph(seed):
    """Six nodes whose ids, and so whose random vectors, depend on the seed."""
    rng = np.random.default_rng(seed)
    return Events.from_arrays(
        *(rng.integers(0, 6, (2, 14)) + 100 * seed), np.sort(rng.integers(0, 9, 14)).astype(float)
    )


def test_products_estimate_exact_decayed_walk_counts_with_an_error_that_shrinks_as_one_over_root_r():
    half_life = 0.2
    errors = {64: [], 1024: [], 16384: []}
    for seed in range(8):
        events = small_graph(seed)
        for width, found_errors in errors.items():
            found, pairs = estimates(events, width, half_life)
            exact = truth(events, pairs, half_life)
            found_errors.append(np.mean((found - exact) ** 2) / np.mean(exact**2))
    coarse, middle, fine = (np.sqrt(np.mean(found)) for found in errors.values())
    assert coarse < 0.3
    # Sixteen times the width is a quarter of the error.
    assert 2.5 < coarse / middle < 6.5
    assert 2.5 < middle / fine < 6.5


@given(streams(max_events=20))
def test_sketches_are_the_exact_propagation_of_the_random_vectors(events):
    """Linear in the vectors: S_k equals the exact walk table times the sign vectors, to the last digit."""
    model = tiny_model("mean", events.vocabulary, sketch_half_lives=(0.3,), sketch_width=5)
    _, state = model.advance(events, model.empty_state())
    signs = sign_vectors(events.vocabulary.hashes(), 5)
    size = len(events.vocabulary)
    kept = kept_until(model, state, np.arange(size), float(events.time[-1]) + 1.0)
    for column, rate in enumerate((0.0, np.log(2) / (0.3 * 30.0))):
        held = exact_walks(events, rate, 2)
        for step in (1, 2):
            start = 5 * (1 + (step - 1) * 2 + column)
            rows = state.sketch[1 : size + 1, start : start + 5].numpy() * kept[:, 1 + column : 2 + column]
            np.testing.assert_allclose(rows, held[step] @ signs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_sketches_in_single_precision_are_the_same_bits_for_any_cut(size):
    rng = np.random.default_rng(0)
    events = Events.from_arrays(*rng.integers(0, 9, (2, 400)), np.sort(rng.random(400)))
    model = tiny_model("mean", events.vocabulary, sketch_half_lives=(0.3,)).float()
    _, whole = model.advance(events, model.empty_state())
    state = model.empty_state()
    for piece in events.chunks(size):
        _, state = model.advance(piece, state)
    assert torch.equal(state.sketch, whole.sketch)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3), st.integers(1, 9), st.sampled_from([1, 2, 4]))
def test_plain_torch_compares_sketches_to_the_same_numbers(seed, steps, rates, width, left):
    generator = torch.Generator().manual_seed(seed)
    size = width * (1 + steps * rates)
    tables = [torch.randn(4, size, generator=generator, dtype=torch.float64) for _ in range(3)]
    place, row = torch.tensor([0, -1, 5, 3, -1, 2, 4, 7]), torch.tensor([0, 2, 0, 0, 3, 0, 0, 0])
    kept = torch.rand(8, 1 + rates, generator=generator, dtype=torch.float64)
    asked = (Rows(place, row, *tables), kept, left, Sketching(width, steps, np.zeros((2, rates))))
    torch.testing.assert_close(compare_sketches(*asked), plain_compare_sketches(*asked))


def test_cosines_of_a_sketch_with_itself_are_one_and_with_nothing_zero():
    row = torch.tensor(np.tile(sign_vectors(hash_ids(["x"]), 64), 3))
    arena = torch.cat([row, torch.zeros_like(row)])
    unmoved = torch.full((2,), -1)

    def compare(*ends):
        rows = Rows(unmoved, torch.tensor(ends), arena[:0], arena[:0], arena)
        return compare_sketches(rows, torch.ones(2, 2), 1, Sketching(64, 2, np.zeros((2, 1))))

    same = compare(0, 0)
    torch.testing.assert_close(same, torch.full_like(same, 1 / (1 + COSINE_FLOOR)))
    assert not compare(0, 1).any()


@pytest.mark.parametrize("width", [1, 63, 64, 200])
def test_sign_vectors_depend_on_the_id_alone(width):
    both = sign_vectors(hash_ids(["ann", 7]), width)
    assert np.array_equal(sign_vectors(hash_ids([7]), width)[0], both[1])
    assert set(np.unique(both)) <= {-1.0, 1.0}
    many = sign_vectors(hash_ids(list(range(2000))), width)
    assert abs(many.mean()) < 0.1
    if width > 1:
        assert abs((many[:-1] * many[1:]).mean()) < 0.1
