"""tapgnn: dynamic node representations on temporal graphs, the same numbers offline and online.

Names are loaded when they are first used, so that the command line answers without waiting for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapgnn.errors import TapgnnError
    from tapgnn.estimator import TAPGNN
    from tapgnn.events import Events
    from tapgnn.model import Config, Model, State, Trace, load_model, save_model
    from tapgnn.vocabulary import Vocabulary

__version__ = "0.1.0"

_HOMES = {
    "TAPGNN": "tapgnn.estimator",
    "Config": "tapgnn.model",
    "Events": "tapgnn.events",
    "Model": "tapgnn.model",
    "State": "tapgnn.model",
    "TapgnnError": "tapgnn.errors",
    "Trace": "tapgnn.model",
    "Vocabulary": "tapgnn.vocabulary",
    "load_model": "tapgnn.model",
    "save_model": "tapgnn.model",
}

__all__ = [
    "TAPGNN",
    "Config",
    "Events",
    "Model",
    "State",
    "TapgnnError",
    "Trace",
    "Vocabulary",
    "__version__",
    "load_model",
    "save_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tapgnn' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
