"""What runs on other devices, run here: the whole model on plain torch forms gives the numbers of the numba ones."""

import numpy as np
import pytest
import torch

from tapgnn import Events
from tapgnn.compiled import projection_fused as joining
from tapgnn.compiled import scan_ops as scan
from tapgnn.compiled.row_lookup import Rows
from tapgnn.kernels import adaptive, attention, gcn, mean, pool
from tapgnn.model import block, projection
from tapgnn.model import model as model_module
from tapgnn.model.features import walk_sketch as sketch
from tapgnn.model.projection import Facts

from ..streams import KERNEL_NAMES, assert_same_state, tiny_model


def plainly_describe(self, past):
    facts = self(past)
    return facts, self.encode(facts)


@pytest.fixture
def plain_forms(monkeypatch):
    """Every function that asks for the device takes the branch of a device without numba."""
    plain = {
        "scan_sum": scan.doubling_scan_sum,
        "scan_max": scan.doubling_scan_max,
        "gather_sum": scan.plain_gather_sum,
    }

    def switch():
        for module in (adaptive, attention, gcn, mean, pool, scan, sketch):
            for name, form in plain.items():
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, form)
        monkeypatch.setattr(block, "_on_cpu", lambda tensor: False)
        monkeypatch.setattr(projection, "join_rows", joining.plainly_join_rows)
        monkeypatch.setattr(Rows, "tensor", Rows.plain_tensor)
        monkeypatch.setattr(model_module, "propagate_sketches", sketch.plainly_propagate_sketches)
        monkeypatch.setattr(model_module, "compare_sketches", sketch.plainly_compare_sketches)
        monkeypatch.setattr(Facts, "describe", plainly_describe)

    return switch


def run(kernel, events):
    """Embeddings, scores, gradients and the last state of a log in two chunks."""
    model = tiny_model(kernel, events.vocabulary)
    _, state = model.advance(events.slice(0, 30), model.empty_state())
    chunk = events.slice(30, 60)
    traced, state = model.advance(chunk, state)
    scores = model.score(traced, chunk.src, chunk.dst, chunk.time)
    (scores.sum() + traced.embedding.square().sum()).backward()
    grads = [p.grad.to_dense() for p in model.parameters() if p.grad is not None]
    return [traced.embedding.detach(), scores.detach(), *grads], state


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_the_model_gives_the_same_numbers_without_numba(kernel, plain_forms):
    rng = np.random.default_rng(0)
    events = Events.from_arrays(*rng.integers(0, 12, (2, 60)), 1e9 + np.arange(60.0))
    fast, fast_state = run(kernel, events)
    plain_forms()
    plain, plain_state = run(kernel, events)
    assert len(fast) == len(plain)
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)
    assert_same_state(fast_state, plain_state)
