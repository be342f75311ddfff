"""beyond: the default preset without each of the parts that the paper does not have.

without-kernel has the mean of the paper in place of the adaptive kernel; without-pair-network scores a pair by
f(u, t) + g(v, t) alone.
"""

from __future__ import annotations

from typing import Any

from tapgnn.evaluation.questions import NAME
from tapgnn.experiments.link_training import LinkRuns, variants_experiment

VARIANTS: dict[str, dict[str, Any]] = {
    "without-kernel": {"kernel": "mean"},
    "without-sketches": {"options": {"sketch_width": 0}},
    "without-pair-memory": {"options": {"partners": 0}},
    "without-statistics": {"options": {"statistics": False, "time_width": 64}},
    "without-roles": {"options": {"roles": False}},
    "without-self-connection": {"options": {"self_connection": False}},
    "without-pair-network": {"options": {"head": "additive"}},
    "without-node-vectors": {"options": {"node_vectors": False}},
}
EXPERIMENT = variants_experiment("beyond", "Parts of the default preset", LinkRuns(VARIANTS), [NAME, *VARIANTS])
