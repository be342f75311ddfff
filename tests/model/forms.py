"""The forms a model runs in: each backend, with and without gradients; and the models that the laws are for."""

from contextlib import contextmanager

import numpy as np
import torch

from tapgnn.model.backend import COMPILED, PLAIN

from ..streams import KERNEL_NAMES, feature_widths, tiny_model

# Without gradients the compiled backend serves from arrays, compiled whole for few events and interpreted for many.
FORMS = {
    "arrays": (COMPILED, False, 1_000),
    "arrays, many": (COMPILED, False, 0),
    "compiled, gradients": (COMPILED, True, 0),
    "plain": (PLAIN, False, 0),
    "plain, gradients": (PLAIN, True, 0),
}
PAPER = {"roles": False, "self_connection": False, "statistics": False, "sketch_width": 0, "head": "dot"}
# The default, and the paper's preset with each of its kernels; then everything at once with every kernel.
MODELS = {
    "default": {"kernel": "adaptive", "time_width": 0},
    **{f"paper {kernel}": {"kernel": kernel, **PAPER} for kernel in KERNEL_NAMES[:4]},
    **{f"all parts {kernel}": {"kernel": kernel} for kernel in KERNEL_NAMES},
}
# The one table of tolerances.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


@contextmanager
def running(model, form, monkeypatch):
    """The model in one of the FORMS."""
    backend, gradients, few = FORMS[form]
    model.backend = backend
    with monkeypatch.context() as patch, torch.set_grad_enabled(gradients):
        patch.setattr("tapgnn.model.inference.FEW", few)
        yield model


def make_model(name, vocabulary, features=0, node_features=0, dtype=torch.float64, **changes):
    """One of the MODELS, in a type, with node features for half of its nodes where it takes them."""
    options = {**MODELS[name], **feature_widths(features), "node_features": node_features, **changes}
    model = tiny_model(vocabulary=vocabulary, **options)
    if node_features:
        known = len(vocabulary) // 2
        model.inputs.describe(np.arange(known), np.random.default_rng(0).normal(size=(known, node_features)))
    return model.to(dtype)
