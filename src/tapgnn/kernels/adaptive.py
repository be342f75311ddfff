"""Adaptive: permanent against transient causes (the paper's closing question). Each channel forgets at its own rate.

    S_j(v,t) = sum over u of exp(-rate_j (t - t_u)) value_u,j         n_j(v,t) = sum over u of exp(-rate_j (t - t_u))
    h(v,t)   = S / n + B log(1 + n by role)

AGG   a_i = sum of value_u        PROP  S_i = S_{i-1} exp(-rate dt) + a_i, and n likewise        read  as above

Channels share `rates` learned rates in equal groups (rates = width gives every channel its own). The first group is
pinned to 0: the whole neighbourhood, as in the paper. The others start from half-lives spread geometrically from
`shortest` to one span of the model's time. The state is S and the decayed number of messages per role.
"""

import torch
from torch import Tensor, nn

from tapgnn.errors import ConfigError
from tapgnn.kernels.kernel import Flow, Kernel, add_up
from tapgnn.kernels.scan import gather_sum, scan_sum


class Adaptive(Kernel):
    """Sums that forget, at learned rates."""

    def __init__(self, width: int, rates: int, shortest: float) -> None:
        super().__init__(width)
        if rates < 1 or width % rates:
            raise ConfigError(
                f"{width} channels cannot be shared evenly by {rates} rates; choose a divisor of the width"
            )
        self.rates = rates
        half_lives = torch.logspace(0.0, torch.log10(torch.tensor(shortest)).item(), max(rates - 1, 1))[: rates - 1]
        self.log_rate = nn.Parameter(torch.log(torch.log(torch.tensor(2.0)) / half_lives))
        self.of_counts = nn.Linear(2 * rates, width, bias=False)

    @property
    def state_width(self) -> int:
        """The sums, then the counts as source and as destination, one per rate."""
        return self.width + 2 * self.rates

    def rate(self) -> Tensor:
        """[rates] the rates per span, the first pinned to 0."""
        return torch.cat([self.log_rate.new_zeros(1), self.log_rate.exp()])

    def scan(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow, carried: Tensor) -> tuple[Tensor, Tensor]:
        """AGG, PROP, read."""
        decay = torch.exp(-flow.elapsed.unsqueeze(1) * self.rate().double())
        total, last = scan_sum(gather_sum(value, index, None, flow.inbox), decay, carried[:, : self.width], flow.chain)
        count, last_count = scan_sum(
            self._received(flow, value.dtype), decay.repeat(1, 2), carried[:, self.width :], flow.chain
        )
        return self._read(total, count), torch.cat([last, last_count], dim=1)

    def reference(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """The definition."""
        receiver, message = flow.neighbourhood()
        size = len(flow.time)
        age = flow.time[receiver] - flow.time[flow.receiver()[message]]
        weight = torch.exp(-age.unsqueeze(1) * self.rate().double()).to(value.dtype)
        by_channel = weight.repeat_interleave(self.width // self.rates, dim=1)
        as_source = (flow.role[message] == 0).unsqueeze(1)
        counts = torch.cat([weight * as_source, weight * ~as_source], dim=1)
        return self._read(add_up(by_channel * value[index[message]], receiver, size), add_up(counts, receiver, size))

    def _received(self, flow: Flow, dtype: torch.dtype) -> Tensor:
        """[T, 2 rates] messages of the instant, as source and as destination, the same for every rate."""
        ones = torch.eye(2, dtype=dtype, device=flow.role.device)
        by_role = gather_sum(ones, flow.role, None, flow.inbox)
        return by_role.repeat_interleave(self.rates, dim=1)

    def _read(self, total: Tensor, count: Tensor) -> Tensor:
        both = count[:, : self.rates] + count[:, self.rates :]
        mean = total.view(len(total), self.rates, self.width // self.rates) / both.unsqueeze(2)
        weighed: Tensor = self.of_counts(torch.log1p(count))
        return mean.flatten(1) + weighed
