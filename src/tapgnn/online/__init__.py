"""The live side: an engine with its journal, the server around it, and the client of that server.

Names are loaded when they are first used, so that a client does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapgnn.online.client import Client
    from tapgnn.online.engine.engine import Engine
    from tapgnn.online.engine.ingest import Outcome, Receipt, Request
    from tapgnn.online.journal.undo_and_migrate import migrate

_HOMES = {
    "Client": "tapgnn.online.client",
    "Engine": "tapgnn.online.engine.engine",
    "Outcome": "tapgnn.online.engine.ingest",
    "Receipt": "tapgnn.online.engine.ingest",
    "Request": "tapgnn.online.engine.ingest",
    "migrate": "tapgnn.online.journal.undo_and_migrate",
}

__all__ = ["Client", "Engine", "Outcome", "Receipt", "Request", "migrate"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tapgnn.online' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
