"""The five kernels, by name."""

from collections.abc import Callable

from tapgnn.kernels.adaptive import Adaptive
from tapgnn.kernels.attention import Attention
from tapgnn.kernels.gcn import GCN
from tapgnn.kernels.kernel import Kernel, pass_gate
from tapgnn.kernels.mean import Mean
from tapgnn.kernels.pool import Pool

KERNELS: dict[str, Callable[..., Kernel]] = {
    "gcn": GCN,
    "mean": Mean,
    "pool": Pool,
    "attention": Attention,
    "adaptive": Adaptive,
}

__all__ = ["GCN", "KERNELS", "Adaptive", "Attention", "Kernel", "Mean", "Pool", "pass_gate"]
