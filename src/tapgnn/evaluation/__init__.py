"""Evaluation: how accurately a method predicts events that are later than those it was trained on.

    evaluate(events, estimator)   TAP-GNN alongside the trivial methods
    compare(events, methods)      any of the methods, published and trivial, alongside TAP-GNN

The estimator imports the modules below it (metrics, protocols, questions), so these two names are loaded when they are
first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapgnn.evaluation.comparison import compare
    from tapgnn.evaluation.harness import evaluate

__all__ = ["compare", "evaluate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tapgnn.evaluation' has no attribute {name!r}")
    from tapgnn.evaluation import comparison, harness

    return getattr(comparison if name == "compare" else harness, name)
