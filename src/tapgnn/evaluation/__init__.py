"""Evaluation: how good a method is on events that came later than all that it learnt from.

    evaluate(events, estimator)   TAP-GNN beside the trivial methods
    compare(events, methods)      any of the methods, published and trivial, beside TAP-GNN

The modules below the estimator (metrics, protocols, questions) are imported by what lies between; so these two names
are loaded when they are first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapgnn.evaluation.harness import compare, evaluate

__all__ = ["compare", "evaluate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tapgnn.evaluation' has no attribute {name!r}")
    from tapgnn.evaluation import harness

    return getattr(harness, name)
