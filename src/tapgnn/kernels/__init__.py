"""The kernels, by name: one file each. Others are found by the entry point `tapgnn.kernels` of installed packages.

A kernel is added here in two places: in `KERNELS`, and, where it has a `scan_arrays`, in `scan_block`.
"""

from importlib.metadata import entry_points
from typing import Any, NamedTuple

from tapgnn.compiled.jit import program
from tapgnn.compiled.layer_norm import end_block
from tapgnn.errors import ConfigError
from tapgnn.kernels import adaptive, attention, gcn, mean, pool
from tapgnn.kernels.adaptive import Adaptive
from tapgnn.kernels.attention import Attention
from tapgnn.kernels.gcn import GCN
from tapgnn.kernels.kernel import Kernel, pass_gate_arrays
from tapgnn.kernels.mean import Mean, MeanWithSelf
from tapgnn.kernels.pool import Pool

__all__ = [
    "GCN",
    "KERNELS",
    "Adaptive",
    "Attention",
    "ChunkArrays",
    "Kernel",
    "LayerArrays",
    "Mean",
    "MeanWithSelf",
    "Pool",
    "find_kernel",
    "scan_block",
]

KERNELS: dict[str, type[Kernel]] = {
    "gcn": GCN,
    "mean": Mean,
    "pool": Pool,
    "attention": Attention,
    "adaptive": Adaptive,
    "mean-with-self": MeanWithSelf,
}


def find_kernel(name: str) -> type[Kernel]:
    """The kernel of a name: one of KERNELS, or one that an installed package offers."""
    if name in KERNELS:
        return KERNELS[name]
    offered = entry_points(group="tapgnn.kernels")
    if name not in offered.names:
        raise ConfigError(f"kernel {name!r} is not one of {', '.join([*KERNELS, *sorted(offered.names)])}")
    found = offered[name].load()
    if not (isinstance(found, type) and issubclass(found, Kernel)):
        raise ConfigError(f"kernel {name!r} is {offered[name].value}, which is not a subclass of tapgnn.kernels.Kernel")
    return found


class ChunkArrays(NamedTuple):
    """The unfolding of a chunk as kernels see it, as arrays: see `Flow`; degree in the type of the model."""

    chain: Any
    inbox: Any
    sender: Any
    role: Any
    degree: Any
    elapsed: Any


class LayerArrays(NamedTuple):
    """What a kernel needs of one block's weights: own, scale and shift are [0] without a self connection, the last two
    also without its norm.
    """

    gate: Any
    own: Any
    scale: Any
    shift: Any
    scan_weight: Any


@program
def scan_block(  # type: ignore[no-untyped-def]
    form, gated, chunk, value, index, message, place, table, row, layer, carried
):
    """`Kernel.run_block` of the kernel with this `array_form`, on arrays; gates are of one where they are not gated.

    Row place [T] of `message` is what a temporal node would send itself.
    """
    if form == 4:
        return adaptive.scan_arrays(chunk, value, index, table, row, layer, carried)
    if gated:
        value, index = pass_gate_arrays(value, index, layer.gate, chunk.role)
    if form == 0:
        read, last = gcn.scan_arrays(chunk, value, index, carried)
    elif form == 1:
        read, last = mean.scan_arrays(chunk, value, index, carried)
    elif form == 2:
        read, last = pool.scan_arrays(chunk, value, index, carried)
    elif form == 5:
        read, last = mean.scan_with_self(chunk, value, index, message, place, carried)
    else:
        read, last = attention.scan_arrays(chunk, value, index, table, row, layer.scan_weight, carried)
    return end_block(read, table, row, layer.own, layer.scale, layer.shift), last
