"""Adaptive: permanent against transient causes (the paper's closing question). Each channel forgets at its own rate.

    w_j(u)   = exp(-rate_j . (age of u's message))         S_j = sum over u of w_j(u) value_u,j      n_j = sum of w_j(u)
    h(v,t)   = S / n

AGG   a_i = sum of value_u        PROP  S_i = S_{i-1} exp(-rate . elapsed) + a_i, n likewise        read  as above

Age is taken on two clocks: time, and the number of events of the whole graph, which does not drift when the graph
gets busier. Channels form 2 + 2 `rates` groups: two pinned to 0 (the whole neighbourhood, as in the paper), `rates`
that forget with time and `rates` that forget with events, all learned, starting from half-lives of 1/3 to 1/300 of a
span. The state is S and n, to which a message contributes w value_u and w.
"""

import math
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from tapgnn.compiled.adaptive_fused import BlockWeights, Links, decay_chains
from tapgnn.compiled.jit import program
from tapgnn.compiled.scan_plain import channel_groups
from tapgnn.errors import ConfigError
from tapgnn.kernels.flow import Flow
from tapgnn.kernels.kernel import BlockInputs, Kernel, Messages, add_up, ratio

PINNED = 2


class Adaptive(Kernel):
    """Sums that forget, at learned rates."""

    array_form = 4

    def __init__(self, width: int, rates: int) -> None:
        super().__init__(width)
        self.groups = PINNED + 2 * rates
        if self.groups > width:
            raise ConfigError(f"{rates} rates a clock need {self.groups} channels, there are {width}; lower rates")
        half_lives = torch.logspace(math.log10(1 / 3), math.log10(1 / 300), max(rates, 1))[:rates]
        self.log_rate = nn.Parameter(torch.log(math.log(2) / half_lives).repeat(2, 1))
        spread = torch.nn.functional.one_hot(channel_groups(width, self.groups), self.groups).T.float()
        self.register_buffer("spread", spread, persistent=False)
        self.spread: Tensor

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """With the rates of the configuration."""
        return cls(config.width, config.rates)

    @property
    def state_width(self) -> int:
        """The sums, then the counts, one a group."""
        return self.width + self.groups

    def rate(self) -> Tensor:
        """[2, groups] rates per span of each clock (float64)."""
        forgetting = torch.block_diag(*self.log_rate.exp().double())  # type: ignore[no-untyped-call]
        return pad(forgetting, (PINNED, 0))

    def run_block(self, inputs: BlockInputs, flow: Flow, carried: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Kernel and end of the block in one pass, where the backend has such a form."""
        if carried is None or flow.scans.adaptive_block is None:
            return super().run_block(inputs, flow, carried)
        value, table, row = inputs.value, inputs.table, inputs.row
        gate = value.new_ones(2, self.width) if inputs.gate is None else inputs.gate
        end = (value.new_empty(0),) * 3 if inputs.end is None else inputs.end
        distinct = row is None
        row = torch.arange(flow.size) if row is None else row
        links = Links(flow.inbox, flow.role, inputs.index, flow.elapsed, row, carried)
        return flow.scans.adaptive_block(
            BlockWeights(value, gate, self.rate(), table, *end), flow.chain, links, distinct
        )

    def scan(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow, carried: Tensor) -> tuple[Tensor, Tensor]:
        """AGG, PROP, read, one after the other."""
        scans, decay = flow.scans, torch.exp(-flow.elapsed @ self.rate())
        gathered = scans.gather_sum(value, index, None, flow.inbox)
        total, last = scans.scan_sum(gathered, decay, carried[:, : self.width], flow.chain)
        received = flow.inbox.diff().to(value.dtype).unsqueeze(1).expand(-1, self.groups)
        count, last_count = scans.scan_sum(received, decay, carried[:, self.width :], flow.chain)
        return total / self._by_channel(count), torch.cat([last, last_count], dim=1)

    def reference(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """The definition."""
        receiver, message = flow.neighbourhood()
        size = flow.size
        age = flow.clocks[receiver] - flow.clocks[flow.receiver()[message]]
        weight = torch.exp(-age @ self.rate()).to(value.dtype)
        total = add_up(self._by_channel(weight) * value[index[message]], receiver, size)
        return total / self._by_channel(add_up(weight, receiver, size))

    def _by_channel(self, by_group: Tensor) -> Tensor:
        """[., width] the value of each channel's group; a product, because its backward is one too."""
        return by_group @ self.spread.to(by_group.dtype)

    def scan_weights(self) -> Tensor:
        """The rates."""
        return self.rate()

    def contributions(self, messages: Messages, now: Tensor, peak: Tensor) -> Tensor:
        """w value_u, w."""
        weight = torch.exp(-(now - messages.clocks) @ self.rate())
        return torch.cat([self._by_channel(weight) * messages.value, weight], dim=1)

    def decay_sums(self, sums: Tensor, elapsed: Tensor) -> Tensor:
        """Both by exp(-rate . elapsed)."""
        kept = torch.exp(-elapsed @ self.rate())
        return sums * torch.cat([self._by_channel(kept), kept])

    def read_sums(self, sums: Tensor, degree: Tensor) -> Tensor:
        """S / n."""
        return ratio(sums[:, : self.width], self._by_channel(sums[:, self.width :].clamp(min=0.0)))


@program
def scan_arrays(chunk, value, index, table, row, layer, carried):  # type: ignore[no-untyped-def]
    """`run_block` on arrays; a layer without gates has gates of one."""
    weights = BlockWeights(value, layer.gate, layer.scan_weight, table, layer.own, layer.scale, layer.shift)
    links = Links(chunk.inbox, chunk.role, index, chunk.elapsed, row, carried)
    filled = decay_chains(chunk.chain, weights, links)
    return filled.out, filled.last
