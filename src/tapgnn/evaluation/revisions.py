"""Revisions: numbers of the code that results depend on, so that a stored run tells whether it is of older code.

A change of code after which some results are other ones raises the number of what it changes, in the same commit; a
change that leaves them as they are, such as one of names or speed, raises none. A run is stored with the numbers that
concern it. A file without numbers has 0 for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapgnn.baselines import family_of

REVISIONS = {
    "evaluation": 0,  # how data sets are read and split, negatives and metrics
    "tapgnn": 1,  # the model and its training
    "trivial": 0,  # the baselines, by family
    "static": 0,
    "sampled": 0,
    "memory": 0,
}


def revisions_of(method: str, settings: Mapping[str, Any]) -> dict[str, int]:
    """The numbers that concern a run; among the settings of one of TAP-GNN there is a model."""
    own = "tapgnn" if "model" in settings else family_of(method)
    return {name: REVISIONS[name] for name in ("evaluation", own) if name is not None}


def stored_revisions(run: Mapping[str, Any]) -> Mapping[str, int]:
    """The numbers of the code that a stored run is of."""
    return run.get("revisions") or dict.fromkeys(revisions_of(run["method"], run["settings"]), 0)


def is_older(revisions: Mapping[str, int]) -> bool:
    """Whether code of these numbers may give other results than today's.

    >>> is_older({"evaluation": REVISIONS["evaluation"]}), is_older({"tapgnn": 0})
    (False, True)
    """
    return any(REVISIONS.get(name) != number for name, number in revisions.items())
