"""Attention (Appendix B, corrected): a softmax-weighted mean of the messages of the whole neighbourhood.

    alpha_uv = LeakyReLU(q_u . value_u + q_v . h_v)         both at the event's instant, frozen there
    h(v,t)   = sum over u of exp(alpha_uv) value_u / sum over u of exp(alpha_uv)

AGG   numerator and denominator of one instant, relative to the largest alpha of the instant
PROP  m_i = max(m_{i-1}, m), both sums rescaled to it and added to the carried ones        read  numerator / denominator

The paper's appendix drops the carried numerator and lets exp overflow. The state is (m, numerator, denominator), to
which a message contributes (0, w value_u, w), w = exp(alpha_uv - m). On arrays AGG, PROP and read are one loop.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from tapgnn.compiled.jit import compiled, fast, program
from tapgnn.compiled.parallel import parallel
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
        scans, alpha = flow.scans, self._alpha(value, index, own, flow)
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
    sent, heard = _dots(value, query[0]), _dots(table, query[1])[row]
    read, last = empty_rows(len(row), value.shape[1], value), carried.copy()
    _softmax_chains(chunk.chain, value.shape[1], (chunk.inbox, index, sent, heard, value, last, read))
    return read, last


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

    A message scores LeakyReLU(sent[index_m] + heard_i).
    """
    inbox, index, sent, heard, value, states, read = arrays
    width = value.shape[1]
    for c in range(first, last):
        state = states[c]
        peak, numerator, denominator = state[0], state[1:-1], state[-1]
        for i in range(chain[c], chain[c + 1]):
            before = peak
            for m in range(inbox[i], inbox[i + 1]):
                peak = max(peak, _leaky(sent[index[m]] + heard[i]))
            kept = np.exp(before - peak) if before < peak else 1.0
            for m in range(inbox[i], inbox[i + 1]):
                weight = np.exp(_leaky(sent[index[m]] + heard[i]) - peak)
                message = value[index[m]]
                denominator = kept * denominator + weight
                for j in range(width):
                    numerator[j] = kept * numerator[j] + weight * message[j]
                kept = 1.0
            share = 1.0 / denominator
            for j in range(width):
                read[i, j] = share * numerator[j]
        state[0], state[-1] = peak, denominator


@compiled
def _leaky(score: Any) -> Any:
    return max(float(score), 0.2 * score)
