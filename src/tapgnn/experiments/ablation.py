"""ablation: the preset `paper` without its projection, and without its temporal activation (Section 4.4).

Without the projection, a pair is scored from the embeddings themselves; without time, nothing but the order of events
is left of it.
"""

from __future__ import annotations

from typing import Any

from tapgnn.experiments.link_training import DRAWN, LinkRuns, variants_experiment

VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper"},
    "without-projection": {"preset": "paper", "options": {"projection": False, "log_pause": False}},
    "without-time": {"preset": "paper", "options": {"time_width": 0, "log_pause": False}},
}
EXPERIMENT = variants_experiment("ablation", "Parts of the preset paper", LinkRuns(VARIANTS), [*VARIANTS], DRAWN)
