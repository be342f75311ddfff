"""The model and its parts.

Names are loaded when they are first used: what is asked of a saved model needs neither torch nor compiled code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapgnn.model.config import PRESETS, Config
    from tapgnn.model.event_classifier import EventClassifier, FactClassifier, RepresentationClassifier
    from tapgnn.model.files import load_model, model_hash, save_model
    from tapgnn.model.model import Model
    from tapgnn.model.state import Past, State
    from tapgnn.model.trace import Trace

_HOMES = {
    "PRESETS": "config",
    "Config": "config",
    "EventClassifier": "event_classifier",
    "FactClassifier": "event_classifier",
    "Model": "model",
    "Past": "state",
    "RepresentationClassifier": "event_classifier",
    "State": "state",
    "Trace": "trace",
    "load_model": "files",
    "model_hash": "files",
    "save_model": "files",
}

__all__ = [
    "PRESETS",
    "Config",
    "EventClassifier",
    "FactClassifier",
    "Model",
    "Past",
    "RepresentationClassifier",
    "State",
    "Trace",
    "load_model",
    "model_hash",
    "save_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
