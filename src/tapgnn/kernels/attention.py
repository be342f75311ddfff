"""Attention (Appendix B, corrected): a softmax-weighted mean of the messages of the whole neighbourhood.

    alpha_uv = LeakyReLU(q_u . value_u + q_v . h_v)         both at the event's instant, frozen there
    h(v,t)   = sum over u of exp(alpha_uv) value_u / sum over u of exp(alpha_uv)

AGG   numerator and denominator of one instant, relative to the largest alpha of the instant
PROP  m_i = max(m_{i-1}, m), both sums rescaled to it and added to the carried ones        read  numerator / denominator

The paper's appendix drops the carried numerator and lets exp overflow. The state is (m, numerator, denominator), to
which a message contributes (0, w value_u, w), w = exp(alpha_uv - m). Compiled, AGG, PROP and read are one loop, whose
gradients are running sums too: with L_i = log of the denominator, g_i the gradient of h_i, and F_i and G_i the sums of
exp(L_i - L_k) g_k and of exp(L_i - L_k) g_k . h_k over the later temporal nodes k of the chain, i included,

    grad value_u = exp(alpha_uv - L_i) F_i         grad alpha_uv = exp(alpha_uv - L_i) (F_i . value_u - G_i)
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import leaky_relu

from tapgnn.compiled.jit import compiled, fast, program
from tapgnn.compiled.parallel import parallel, view
from tapgnn.compiled.products import empty_rows
from tapgnn.kernels.flow import Flow
from tapgnn.kernels.kernel import Kernel, Messages, add_up, ratio


class Attention(Kernel):
    """Graph attention over all messages."""

    reads_receiver = True
    array_form = 3

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.of_sender = nn.Linear(width, 1, bias=False)
        self.of_receiver = nn.Linear(width, 1, bias=False)

    @property
    def state_width(self) -> int:
        """m, the numerator, the denominator."""
        return self.width + 2

    def empty(self) -> Tensor:
        """m = -inf, both sums 0."""
        state = super().empty()
        state[0] = -torch.inf
        return state

    def scan(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow, carried: Tensor) -> tuple[Tensor, Tensor]:
        """AGG, PROP, read."""
        scans = flow.scans
        if scans.softmax_mean is not None:
            sent, received = self.of_sender(value)[:, 0], self.of_receiver(own)[:, 0]
            return scans.softmax_mean(value, sent, received, index, flow.inbox, flow.chain, carried)
        alpha = self._alpha(value, index, own, flow)
        with torch.no_grad():
            nothing = alpha.new_full((flow.size, 1), -torch.inf)
            _, peak = scans.scan_max(alpha.unsqueeze(1), nothing, flow.inbox)
        weight = torch.exp(alpha - peak[flow.receiver(), 0])
        with_one = torch.cat([value, value.new_ones(len(value), 1)], dim=1)
        total = scans.gather_sum(with_one, index, weight, flow.inbox)
        _, total, last_peak, last_total = scans.scan_logsumexp(
            peak, total, carried[:, :1].to(value.dtype), carried[:, 1:], flow.chain
        )
        return total[:, :-1] / total[:, -1:], torch.cat([last_peak.to(carried.dtype), last_total], dim=1)

    def reference(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """The definition, with the usual shift by the largest alpha."""
        alpha = self._alpha(value, index, own, flow)
        receiver, message = flow.neighbourhood()
        weight = torch.exp(alpha[message] - alpha.detach().max()).unsqueeze(1)
        numerator = add_up(weight * value[index[message]], receiver, flow.size)
        return numerator / add_up(weight, receiver, flow.size)

    def _alpha(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """[2E] the score of each message."""
        scores = self.of_sender(value)[index, 0] + self.of_receiver(own)[flow.receiver(), 0]
        return leaky_relu(scores, 0.2)

    def scan_weights(self) -> Tensor:
        """q_u and q_v."""
        return torch.cat([self.of_sender.weight, self.of_receiver.weight]).double()

    def contributions(self, messages: Messages, now: Tensor, peak: Tensor) -> Tensor:
        """0, w value_u, w."""
        weight = torch.exp(self._received_alpha(messages) - peak).unsqueeze(1)
        return torch.cat([torch.zeros_like(weight), weight * messages.value, weight], dim=1)

    def _received_alpha(self, messages: Messages) -> Tensor:
        """[M] (float64) alpha of each message."""
        scores = self.of_sender(messages.value.to(messages.own))[:, 0] + self.of_receiver(messages.own)[:, 0]
        return leaky_relu(scores, 0.2).double()

    def find_peak(self, sums: Tensor, messages: Messages) -> Tensor:
        """m, or the largest alpha of the messages where nothing was absorbed yet."""
        return sums[0] if bool(torch.isfinite(sums[0])) else self._received_alpha(messages).max()

    def additive(self, sums: Tensor) -> Tensor:
        """Without m."""
        return torch.cat([torch.zeros_like(sums[:1]), sums[1:]])

    def summed_values(self) -> slice:
        """The numerator."""
        return slice(1, -1)

    def read_sums(self, sums: Tensor, degree: Tensor) -> Tensor:
        """numerator / denominator."""
        return ratio(sums[:, 1:-1], sums[:, -1:].expand(-1, self.width))


@program
def scan_arrays(chunk, value, index, table, row, weight, carried):  # type: ignore[no-untyped-def]
    """`scan` on arrays; weight [2, d] has q_u and q_v."""
    query = weight.astype(value.dtype)
    sent, received = _dots(value, query[0]), _dots(table, query[1])[row]
    read, last, level = empty_rows(len(row), value.shape[1], value), carried.copy(), np.empty(len(row))
    _softmax_chains(chunk.chain, value.shape[1], (chunk.inbox, index, sent, received, value, last, read, level))
    return read, last


def softmax_mean(
    value: Tensor, sent: Tensor, received: Tensor, index: Tensor, inbox: Tensor, chain: Tensor, carried: Tensor
) -> tuple[Tensor, Tensor]:
    """Softmax-weighted means [T, d] along chains from carried [C, d + 2], and the last states, which have no gradient.

    A message of temporal node i carries value[index_m] and scores LeakyReLU(sent[index_m] + heard_i).
    """
    return _SoftmaxMean.apply(value, sent, received, index, inbox, chain, carried)  # type: ignore[no-untyped-call,no-any-return]


class _SoftmaxMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> tuple[Tensor, Tensor]:
        value, sent, received, index, inbox, chain, carried = given
        size, width = len(received), value.shape[1]
        read, last, level = value.new_empty(size, width), carried.detach().clone(), np.empty(size)
        rows = map(view, (inbox, index, sent, received, value, last, read))
        _softmax_chains(view(chain), width, (*rows, level))
        ctx.save_for_backward(value, sent, received, index, inbox, chain, read, torch.from_numpy(level))
        ctx.mark_non_differentiable(last)
        return read, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        value, sent, received, *rest = ctx.saved_tensors
        grads = [torch.zeros_like(tensor, memory_format=torch.contiguous_format) for tensor in (value, sent, received)]
        arrays = tuple(map(view, (value, sent, received, *rest, grad, *grads)))
        _softmax_backward(arrays)
        return (*grads, None, None, None, None)


@fast
def _dots(rows: Any, query: Any) -> Any:
    """[n] the dot product of each row."""
    out = np.empty(len(rows), dtype=rows.dtype)
    for r in range(len(rows)):
        total = rows.dtype.type(0)
        for j in range(len(query)):
            total += rows[r, j] * query[j]
        out[r] = total
    return out


@parallel
@compiled
def _softmax_chains(first: Any, last: Any, chain: Any, arrays: Any) -> None:
    """Read the temporal nodes of the chains first to last; row c of the states is replaced by the last of chain c.

    level [T] is the logarithm of the denominator, free of the peak.
    """
    inbox, index, sent, received, value, states, read, level = arrays
    width = value.shape[1]
    for c in range(first, last):
        state = states[c]
        peak, numerator, denominator = state[0], state[1:-1], state[-1]
        for i in range(chain[c], chain[c + 1]):
            before = peak
            for m in range(inbox[i], inbox[i + 1]):
                peak = max(peak, _leaky(sent[index[m]] + received[i]))
            kept = np.exp(before - peak) if before < peak else 1.0
            for m in range(inbox[i], inbox[i + 1]):
                weight = np.exp(_leaky(sent[index[m]] + received[i]) - peak)
                message = value[index[m]]
                denominator = kept * denominator + weight
                for j in range(width):
                    numerator[j] = kept * numerator[j] + weight * message[j]
                kept = 1.0
            level[i] = peak + np.log(denominator)
            share = 1.0 / denominator
            for j in range(width):
                read[i, j] = share * numerator[j]
        state[0], state[-1] = peak, denominator


@compiled
def _softmax_backward(arrays: Any) -> None:
    """Fill the gradients of value, sent and received."""
    value, sent, received, index, inbox, chain, read, level, grad, grad_value, grad_sent, grad_received = arrays
    width = value.shape[1]
    later, along = np.empty(width), 0.0
    for c in range(len(chain) - 1):
        for i in range(chain[c + 1] - 1, chain[c] - 1, -1):
            kept = np.exp(level[i] - level[i + 1]) if i < chain[c + 1] - 1 else 0.0
            along = kept * along if kept > 0 else 0.0
            for j in range(width):
                later[j] = (kept * later[j] if kept > 0 else 0.0) + grad[i, j]
                along += grad[i, j] * read[i, j]
            for m in range(inbox[i], inbox[i + 1]):
                row = index[m]
                score = sent[row] + received[i]
                weight, grad_score = np.exp(_leaky(score) - level[i]), -along
                for j in range(width):
                    grad_score += later[j] * value[row, j]
                    grad_value[row, j] += weight * later[j]
                grad_score *= weight if score > 0 else 0.2 * weight
                grad_sent[row] += grad_score
                grad_received[i] += grad_score


@compiled
def _leaky(score: Any) -> Any:
    return max(float(score), 0.2 * score)
