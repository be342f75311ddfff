"""The scans on the CPU: the loops of `scan_loops`, with their gradients.

Sums accumulate in float64, so a chain of a million float32 rows keeps its digits; `initial` and `last` are float64.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tapgnn.compiled import scan_loops as loops
from tapgnn.compiled.parallel import view


def scan_sum(value: Tensor, decay: Tensor | None, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    """Decayed running sums; see `Scans`."""
    return _ScanSum.apply(value, decay, initial, chain)  # type: ignore[no-untyped-call,no-any-return]


def scan_max(value: Tensor, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    """Running maxima; see `Scans`."""
    return _ScanMax.apply(value, initial, chain)  # type: ignore[no-untyped-call,no-any-return]


def gather_sum(value: Tensor, index: Tensor, weight: Tensor | None, inbox: Tensor) -> Tensor:
    """Sums of the messages of each temporal node; see `Scans`."""
    return _GatherSum.apply(value, index, weight, inbox)  # type: ignore[no-untyped-call,no-any-return]


def _or_empty(tensor: Tensor | None, like: Tensor, *shape: int) -> Any:
    """The array of a tensor, or an empty one: numba takes no None where it wants an array."""
    return view(like.new_empty(shape) if tensor is None else tensor)


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


class _ScanSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, decay: Tensor | None, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
        factors = _or_empty(decay, initial, len(value), 0)
        found = loops.sum_chains(view(value), factors, view(initial), view(chain))
        running, last = map(torch.from_numpy, found)
        ctx.save_for_backward(decay, initial, running, chain)
        ctx.set_materialize_grads(False)
        return running, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, grad_last: Tensor | None) -> tuple[Tensor | None, ...]:
        decay, initial, running, chain = ctx.saved_tensors
        grad = torch.zeros_like(running) if grad is None else grad
        wanted = ctx.needs_input_grad[2]
        grad_value, grad_decay = _like(grad), initial.new_empty(len(grad), 0 if decay is None else decay.shape[1])
        grad_initial = initial.new_empty(initial.shape if wanted else (0, 0))
        given = (_or_empty(grad_last, initial, 0, 0), _or_empty(decay, initial, len(grad), 0), view(initial))
        filled = (view(grad_value), view(grad_decay), view(grad_initial))
        arrays = (view(grad), *given, view(running), *filled)
        loops.sum_backward(view(chain), grad.shape[1], arrays)
        return grad_value, None if decay is None else grad_decay, grad_initial if wanted else None, None


class _ScanMax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
        found = loops.max_chains(view(value), view(initial), view(chain))
        running, argmax, last = map(torch.from_numpy, found)
        ctx.save_for_backward(argmax, chain)
        return running, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
        argmax, chain = ctx.saved_tensors
        grad_value, grad_initial = _like(grad), _like(grad_last)
        arrays = [view(tensor) for tensor in (grad, grad_last, argmax, grad_value, grad_initial)]
        loops.max_backward(view(chain), grad.shape[1], tuple(arrays))
        return grad_value, grad_initial, None


class _GatherSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, index: Tensor, weight: Tensor | None, inbox: Tensor) -> Tensor:
        ctx.save_for_backward(value, index, weight, inbox)
        return torch.from_numpy(
            loops.gather_messages(view(value), view(index), _or_empty(weight, value, 0), view(inbox))
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        value, index, weight, inbox = ctx.saved_tensors
        grad_value = torch.zeros_like(value, memory_format=torch.contiguous_format)
        grad_weight = grad.new_empty(0 if weight is None else len(weight))
        given = (view(inbox), view(grad), view(value), view(index), _or_empty(weight, grad, 0))
        loops.gather_backward(*given, view(grad_value), view(grad_weight))
        return grad_value, None, None if weight is None else grad_weight, None
