"""Questions to a saved model are answered in numpy with the numbers that the model itself gives."""

import numpy as np
import pytest
import torch

from tapgnn import Events, Vocabulary
from tapgnn.kernels import KERNELS
from tapgnn.model.backend import PLAIN
from tapgnn.model.config import OWN_KERNELS
from tapgnn.model.numpy_queries import NumpyQueries

from .forms import MODELS, TOLERANCE, make_model

NODES, KNOWN = 12, 10


def unsettled(name, node_features, dtype):
    """One of the models with weights, scales and centres drawn at random, and its state after some events."""
    generator = np.random.default_rng(0)
    vocabulary = Vocabulary(range(NODES))
    model = make_model(name, vocabulary, node_features=node_features, dtype=dtype).eval()
    # The oracle of all other forms.
    model.backend = PLAIN
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.from_numpy(generator.normal(size=parameter.shape))
        for called, buffer in model.named_buffers():
            if called.endswith("centre"):
                buffer += 0.3 * torch.from_numpy(generator.normal(size=buffer.shape))
            if called.endswith("scale"):
                buffer *= torch.from_numpy(generator.uniform(0.5, 1.5, size=buffer.shape))
        src, dst = generator.integers(0, KNOWN, size=(2, 60))
        time = np.sort(generator.integers(0, 50, 60)).astype(float)
        _, state = model.advance(Events.from_arrays(src, dst, time, vocabulary=vocabulary), model.empty_state())
    return model, state


def queries_of(model, state):
    """The same model by its saved arrays."""
    weights = {called: tensor.numpy() for called, tensor in model.state_dict().items()}
    arenas = {
        called: getattr(state, called)[: state.size + 1].numpy()
        for called in ("statistics", "embedding", "sketch", "partners")
    }
    return NumpyQueries(model.config, weights, arenas, state.events)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("node_features", [0, 2])
@pytest.mark.parametrize("name", MODELS)
def test_numpy_gives_the_numbers_of_the_model(name, node_features, dtype):
    model, state = unsettled(name, node_features, dtype)
    queries, tolerance = queries_of(model, state), TOLERANCE[dtype]
    nodes = np.arange(-1, NODES)
    left, right = np.repeat(nodes, len(nodes)), np.tile(nodes, len(nodes))
    when = state.clock + 2.5 + np.arange(len(left)) % 3
    with torch.no_grad():
        logits = model.score(state, left, right, when)
    np.testing.assert_allclose(queries.link(left, right, when), logits, rtol=tolerance, atol=tolerance)
    # One source, at one time, with every destination.
    with torch.no_grad():
        one = model.score(state, np.full(len(nodes), 3), nodes, np.full(len(nodes), when[0]))
    found = queries.link(np.array([3]), nodes, np.full(len(nodes), when[0]))
    np.testing.assert_allclose(found, one, rtol=tolerance, atol=tolerance)


def test_a_configuration_knows_every_kernel_of_the_package():
    assert tuple(KERNELS) == OWN_KERNELS
