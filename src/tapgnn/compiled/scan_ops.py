"""The segmented scans that PROP runs along chains, and the gather-and-add that AGG runs along messages.

    scan_sum        S_i = S_{i-1} * decay_i + a_i          decay per row and channel group, or none
    scan_max        M_i = max(M_{i-1}, a_i)
    scan_logsumexp  running maximum, numerator and denominator of a softmax-weighted mean
    gather_sum      A_i = sum of weight_m * value[index_m] over the messages m of temporal node i

i runs along one chain, started from the carried `initial` row of that chain. Each scan returns the value at every
temporal node and the last value of every chain.

On CPU they are numba loops behind `torch.library` operators with registered backwards; sums accumulate in float64,
so a chain of a million float32 rows keeps its digits, and `initial` and `last` are float64. On any other device they
are a segmented doubling scan in plain torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tapgnn.compiled import scan_loops as loops
from tapgnn.compiled.scan_loops import over_segments, streams, view


def channel_groups(width: int, groups: int) -> Tensor:
    """[width] which of the groups each channel belongs to; their sizes differ by one at most."""
    borders = torch.tensor([g * width // groups for g in range(groups + 1)])
    return torch.repeat_interleave(borders.diff(), output_size=width)


def scan_sum(value: Tensor, decay: Tensor | None, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    """Decayed running sums of value [T, d] from initial [C, d] (float64): at every row [T, d], and last [C, d].

    decay [T, G] (float64) holds the factor applied before row i is added, one for each of G groups of channels
    (`channel_groups`).
    In float32 a factor close to 1, taken a million times, would lose what it is meant to forget.
    """
    if value.device.type != "cpu":
        return doubling_scan_sum(value, decay, initial, chain)
    if _tracked(value, decay, initial):
        return torch.ops.tapgnn.scan_sum(value, decay, initial, chain)  # type: ignore[no-any-return]
    return _scan_sum_cpu(value, decay, initial, chain)


def scan_max(value: Tensor, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    """Running maxima of value [T, d] from initial [C, d]: at every row [T, d], and last [C, d]."""
    if value.device.type != "cpu":
        return doubling_scan_max(value, initial, chain)
    running, _, last = torch.ops.tapgnn.scan_max(value, initial, chain)
    return running, last


def scan_logsumexp(
    peak: Tensor, total: Tensor, initial_peak: Tensor, initial_total: Tensor, chain: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scan sums that are stored relative to a running maximum, so that no exponential overflows.

    Row i stands for total_i * exp(peak_i), with peak [T, 1] and total [T, d]; the carried rows likewise. Returns the
    running peak and total, and their last rows. Any quotient of two channels of the total is free of the peak, which
    therefore needs no gradient.
    """
    with torch.no_grad():
        running_peak, last_peak = scan_max(peak, initial_peak, chain)
        previous = running_peak.roll(1, 0)
        filled = chain[1:] > chain[:-1]
        previous[chain[:-1][filled]] = initial_peak[filled]
        # exp(-inf - -inf) is nan: nothing has been carried, and 0 says so.
        decay = torch.exp(previous.double() - running_peak.double()).nan_to_num_(nan=0.0)
        scale = torch.exp(peak - running_peak)
    running, last = scan_sum(total * scale, decay, initial_total, chain)
    return running_peak, running, last_peak, last


def gather_sum(value: Tensor, index: Tensor, weight: Tensor | None, inbox: Tensor) -> Tensor:
    """Add the rows value[index_m] [R, d] (times weight_m) of the messages of each temporal node: [T, d]."""
    if value.device.type != "cpu":
        return plain_gather_sum(value, index, weight, inbox)
    if _tracked(value, weight):
        return torch.ops.tapgnn.gather_sum(value, index, weight, inbox)  # type: ignore[no-any-return]
    return _gather_sum_cpu(value, index, weight, inbox)


def _tracked(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


# --- plain torch: every device, every order of derivative --------------------------------------------------------


def doubling_scan_sum(value: Tensor, decay: Tensor | None, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    """`scan_sum` in about log2(longest chain) passes of plain torch."""
    rows, width = value.shape
    exact = initial.dtype
    factor = torch.ones(rows, 1, dtype=exact, device=value.device) if decay is None else decay.to(exact)
    factor = factor[:, channel_groups(width, factor.shape[1]).to(value.device)]
    owner, place = _places(chain, rows)
    running = value.to(exact)
    span = 1
    while rows and span <= int(place.max()):
        reaches = (place >= span).unsqueeze(1)
        running = running + torch.where(reaches, factor * running.roll(span, 0), 0.0)
        factor = torch.where(reaches, factor * factor.roll(span, 0), factor)
        span *= 2
    running = running + factor * initial[owner]
    return running.to(value.dtype), _last(running, initial, chain)


def doubling_scan_max(value: Tensor, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    """`scan_max` in about log2(longest chain) passes of plain torch."""
    owner, place = _places(chain, len(value))
    running = value
    span = 1
    while len(value) and span <= int(place.max()):
        reaches = (place >= span).unsqueeze(1)
        running = torch.where(reaches, torch.maximum(running.roll(span, 0), running), running)
        span *= 2
    running = torch.maximum(initial[owner], running)
    return running, _last(running, initial, chain)


def plain_gather_sum(value: Tensor, index: Tensor, weight: Tensor | None, inbox: Tensor) -> Tensor:
    """`gather_sum` in plain torch."""
    message = value[index] if weight is None else value[index] * weight.unsqueeze(1)
    receiver = torch.repeat_interleave(inbox.diff())
    return value.new_zeros(len(inbox) - 1, value.shape[1]).index_add(0, receiver, message)


def _places(chain: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The chain of each row, and its place in it."""
    owner = torch.repeat_interleave(chain.diff())
    return owner, torch.arange(rows, device=chain.device) - chain[owner]


def _last(running: Tensor, initial: Tensor, chain: Tensor) -> Tensor:
    filled = (chain[1:] > chain[:-1]).unsqueeze(1)
    if len(running) == 0:
        return initial
    return torch.where(filled, running[(chain[1:] - 1).clamp(min=0)], initial)


# --- the CPU: operators on the loops, with their derivatives -------------------------------------------------------


def _optional(tensor: Tensor | None, like: Tensor, *shape: int) -> Tensor:
    """The tensor, or an empty one: numba takes no None where it wants an array."""
    return like.new_empty(shape) if tensor is None else tensor


def _scan_sum_cpu(value: Tensor, decay: Tensor | None, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    running = torch.empty_like(value, memory_format=torch.contiguous_format)
    last = torch.empty_like(initial, memory_format=torch.contiguous_format)
    factors = _optional(decay, initial, len(value), 0)
    arrays = [view(t) for t in (value, factors, initial, running, last)]
    over_segments(loops.sum_forward, view(chain), value.shape[1], streams(running, last), *arrays)
    return running, last


def _gather_sum_cpu(value: Tensor, index: Tensor, weight: Tensor | None, inbox: Tensor) -> Tensor:
    out = value.new_empty(len(inbox) - 1, value.shape[1])
    arrays = [view(t) for t in (value, index, _optional(weight, value, 0), out)]
    over_segments(loops.gather_forward, view(inbox), value.shape[1], *arrays)
    return out


@torch.library.custom_op("tapgnn::scan_sum", mutates_args=(), device_types="cpu")
def _scan_sum_op(value: Tensor, decay: Tensor | None, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    return _scan_sum_cpu(value, decay, initial, chain)


@torch.library.custom_op("tapgnn::scan_sum_backward", mutates_args=(), device_types="cpu")
def _scan_sum_backward_op(
    grad: Tensor,
    grad_last: Tensor | None,
    decay: Tensor | None,
    initial: Tensor,
    running: Tensor,
    chain: Tensor,
    to_initial: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    out = _empty_slopes(grad, decay, initial, to_initial)
    factors = _optional(decay, initial, len(grad), 0)
    tensors = (grad, _optional(grad_last, initial, 0, 0), factors, initial, running, *out)
    over_segments(loops.sum_backward, view(chain), grad.shape[1], streams(out[0]), *[view(t) for t in tensors])
    return out


def _empty_slopes(
    grad: Tensor, decay: Tensor | None, initial: Tensor, to_initial: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.empty_like(grad, memory_format=torch.contiguous_format),
        torch.empty_like(_optional(decay, initial, len(grad), 0), memory_format=torch.contiguous_format),
        initial.new_empty(initial.shape if to_initial else (0, 0)),
    )


@torch.library.custom_op("tapgnn::scan_max", mutates_args=(), device_types="cpu")
def _scan_max_op(value: Tensor, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    running = torch.empty_like(value, memory_format=torch.contiguous_format)
    origin = torch.empty_like(running, dtype=torch.int64)
    last = torch.empty_like(initial, memory_format=torch.contiguous_format)
    arrays = [view(t) for t in (value, initial, running, origin, last)]
    over_segments(loops.max_forward, view(chain), value.shape[1], *arrays)
    return running, origin, last


@torch.library.custom_op("tapgnn::scan_max_backward", mutates_args=(), device_types="cpu")
def _scan_max_backward_op(grad: Tensor, grad_last: Tensor, origin: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    out = torch.empty_like(grad, memory_format=torch.contiguous_format), torch.empty_like(grad_last)
    arrays = [view(t) for t in (grad, grad_last, origin, *out)]
    over_segments(loops.max_backward, view(chain), grad.shape[1], *arrays)
    return out


@torch.library.custom_op("tapgnn::gather_sum", mutates_args=(), device_types="cpu")
def _gather_sum_op(value: Tensor, index: Tensor, weight: Tensor | None, inbox: Tensor) -> Tensor:
    return _gather_sum_cpu(value, index, weight, inbox)


@torch.library.custom_op("tapgnn::gather_sum_backward", mutates_args=(), device_types="cpu")
def _gather_sum_backward_op(
    grad: Tensor, value: Tensor, index: Tensor, weight: Tensor | None, inbox: Tensor
) -> tuple[Tensor, Tensor]:
    shares = _optional(weight, grad, 0)
    out = torch.zeros_like(value, memory_format=torch.contiguous_format), torch.empty_like(shares)
    loops.gather_backward(*[view(t) for t in (inbox, grad, value, index, shares, *out)])
    return out


@_scan_sum_op.register_fake
def _(value: Tensor, decay: Tensor | None, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(value), torch.empty_like(initial)


@_scan_sum_backward_op.register_fake
def _(
    grad: Tensor,
    grad_last: Tensor | None,
    decay: Tensor | None,
    initial: Tensor,
    running: Tensor,
    chain: Tensor,
    to_initial: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_slopes(grad, decay, initial, to_initial)


@_scan_max_op.register_fake
def _(value: Tensor, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(value), torch.empty_like(value, dtype=torch.int64), torch.empty_like(initial)


@_scan_max_backward_op.register_fake
def _(grad: Tensor, grad_last: Tensor, origin: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(grad), torch.empty_like(grad_last)


@_gather_sum_op.register_fake
def _(value: Tensor, index: Tensor, weight: Tensor | None, inbox: Tensor) -> Tensor:
    return value.new_empty(len(inbox) - 1, value.shape[1])


@_gather_sum_backward_op.register_fake
def _(grad: Tensor, value: Tensor, index: Tensor, weight: Tensor | None, inbox: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(value), torch.empty_like(_optional(weight, grad, 0))


def _keep_sum(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _, decay, initial, chain = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(decay, initial, output[0], chain)


def _differentiate_sum(ctx: Any, grad: Tensor | None, grad_last: Tensor | None) -> tuple[Tensor | None, ...]:
    decay, initial, running, chain = ctx.saved_tensors
    to_value, to_decay, to_initial = torch.ops.tapgnn.scan_sum_backward(
        torch.zeros_like(running) if grad is None else grad,
        grad_last,
        decay,
        initial,
        running,
        chain,
        ctx.needs_input_grad[2],
    )
    return (
        to_value,
        None if decay is None else to_decay,
        to_initial if ctx.needs_input_grad[2] else None,
        None,
    )


def _keep_max(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(output[1], inputs[2])
    ctx.mark_non_differentiable(output[1])


def _differentiate_max(ctx: Any, grad: Tensor, _: Any, grad_last: Tensor) -> tuple[Tensor | None, ...]:
    origin, chain = ctx.saved_tensors
    to_value, to_initial = torch.ops.tapgnn.scan_max_backward(grad, grad_last, origin, chain)
    return to_value, to_initial, None


def _keep_gather(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    value, index, weight, inbox = inputs
    ctx.save_for_backward(value, index, weight, inbox)


def _differentiate_gather(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    value, index, weight, inbox = ctx.saved_tensors
    to_value, to_weight = torch.ops.tapgnn.gather_sum_backward(grad, value, index, weight, inbox)
    return to_value, None, None if weight is None else to_weight, None


torch.library.register_autograd("tapgnn::scan_sum", _differentiate_sum, setup_context=_keep_sum)
torch.library.register_autograd("tapgnn::scan_max", _differentiate_max, setup_context=_keep_max)
torch.library.register_autograd("tapgnn::gather_sum", _differentiate_gather, setup_context=_keep_gather)
