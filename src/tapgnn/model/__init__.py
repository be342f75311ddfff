"""The model and its parts."""

from tapgnn.model.config import PRESETS, Config
from tapgnn.model.event_classifier import EventClassifier, FactClassifier, RepresentationClassifier
from tapgnn.model.files import load_model, model_hash, save_model
from tapgnn.model.model import Model
from tapgnn.model.state import Past, State
from tapgnn.model.trace import Trace

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
