"""The forms a model runs in: each backend, with and without gradients; and the models that the laws are for."""

from contextlib import contextmanager

import numpy as np
import torch

from tapgnn.model.backend import COMPILED, PLAIN
from tapgnn.model.config import PRESETS

from ..streams import KERNEL_NAMES, feature_widths, tiny_model

# Without gradients the compiled backend serves from arrays, compiled whole for few events and interpreted for many.
FORMS = {
    "arrays": (COMPILED, False, 1_000),
    "arrays, many": (COMPILED, False, 0),
    "compiled, gradients": (COMPILED, True, 0),
    "plain": (PLAIN, False, 0),
    "plain, gradients": (PLAIN, True, 0),
}
SIZES = {"width": 8, "time_width": 6, "sketch_width": 8}


def preset(name, **changes):
    """The options of a preset, as small as `tiny_model` is, with changes."""
    options = {"time_width": 0, **PRESETS[name], **changes}
    return {key: min(value, SIZES[key]) if key in SIZES else value for key, value in options.items()}


# The presets, `paper` with each of its kernels; what they leave out; then everything at once with every kernel.
MODELS = {
    "default": preset("adaptive"),
    **{f"paper {kernel}": preset("paper", kernel=kernel) for kernel in KERNEL_NAMES[:4]},
    "published": preset("published"),
    "equations": preset("paper", kernel="gcn", self_connection=False, log_pause=False, head="dot"),
    "no projection": preset("paper", projection=False, log_pause=False, time_width=0),
    "no vectors": preset("adaptive", node_vectors=False),
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
