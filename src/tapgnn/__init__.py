"""tapgnn: dynamic node representations on temporal graphs, the same numbers offline and online."""

from tapgnn.errors import TapgnnError
from tapgnn.estimator import TAPGNN
from tapgnn.events import Events, Vocabulary
from tapgnn.model import Config, Model, State, Trace, load_model, save_model

__version__ = "0.1.0"
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
