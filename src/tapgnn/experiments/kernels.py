"""kernels: AUC of the preset `paper` with each of its four kernels (Section 4.4, the figure of convolution kernels).

The runs are those of `links`.
"""

from __future__ import annotations

from tapgnn.experiments.link_training import DRAWN, variants_experiment
from tapgnn.experiments.links import KERNELS, TRAINING

METHODS = [f"paper-{kernel}" for kernel in KERNELS]
EXPERIMENT = variants_experiment("kernels", "Kernels of the preset paper", TRAINING, METHODS, DRAWN, runs_of="links")
