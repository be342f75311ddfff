"""From the past of a node to its representation at the time of a query (eq. 8), and the facts it and the head read.

    z(v,t) = MLP[h(v,t'), cos(W (t - t') + b)]                        preset paper
    z(v,t) = MLP[h(v,t'), node vector, cos(W (t - t') + b), facts]    with facts

t' is the node's latest instant before t. A node with no history has h = 0 and no time encoding, and its facts say so.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from tapgnn.model.config import Config
from tapgnn.model.encoding import TimeEncoding
from tapgnn.model.facts import COUNT, LAST, RECENT, SEEN
from tapgnn.model.state import Past


class Facts(nn.Module):
    """The facts of a node at the time of a query, as numbers of moderate size.

    Per role: log(1 + pause), log(1 + events of the graph since), 'never', log(1 + count), log(1 + decayed counts);
    and the shorter of the two pauses.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.unit = config.unit
        self.width = 9 + 2 * len(config.half_lives)
        self.register_buffer("rate", decay_rates(config, per=1.0 / config.span), persistent=False)
        self.rate: Tensor

    def forward(self, past: Past) -> Tensor:
        """[Q, width]"""
        facts = past.facts
        last = facts[:, LAST : LAST + 2]
        never = last.isinf()
        pause = torch.where(never, 0.0, past.time.unsqueeze(1) - last)
        longest = torch.where(never, torch.inf, pause).amin(dim=1, keepdim=True)
        either = torch.where(longest.isinf(), 0.0, longest)
        ticks = torch.where(never, 0.0, past.seen.unsqueeze(1) - facts[:, SEEN : SEEN + 2])
        kept = torch.exp(-either * self.rate.double()).repeat_interleave(2, dim=1)
        columns = [
            torch.log1p(torch.cat([pause, either], dim=1) / self.unit),
            torch.log1p(ticks),
            never.double(),
            torch.log1p(facts[:, COUNT : COUNT + 2]),
            torch.log1p(facts[:, RECENT:] * kept),
        ]
        return torch.cat(columns, dim=1).to(past.embedding.dtype)


class Projection(nn.Module):
    """z(v,t) of each query."""

    def __init__(self, config: Config, facts: int, vectors: int) -> None:
        super().__init__()
        self.span = config.span
        shortest = config.unit / config.span
        self.encoding = TimeEncoding(config.time_width or 16, shortest)
        width_in = config.width + vectors + (config.time_width or 16) + facts
        self.hidden = nn.Linear(width_in, config.width)
        self.out = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, past: Past, vector: Tensor | None, facts: Tensor | None) -> Tensor:
        """z [Q, d] from the past, the node vectors [Q, .] and the facts [Q, .]."""
        last = past.facts[:, LAST : LAST + 2].amax(dim=1)
        never = last.isinf()
        pause = torch.where(never, 0.0, past.time - last) / self.span
        waves = torch.where(never.unsqueeze(1), 0.0, self.encoding(pause))
        columns = [past.embedding, waves, *(part for part in (vector, facts) if part is not None)]
        return self.out(self.dropout(gelu(self.hidden(torch.cat(columns, dim=1)))))  # type: ignore[no-any-return]


def decay_rates(config: Config, per: float) -> Tensor:
    """[H] rates of the model's half-lives, per `per` spans; a half-life of 0 never forgets."""
    rates = [0.0 if half == 0 else per * 0.6931471805599453 / half for half in config.half_lives]
    return torch.tensor(rates, dtype=torch.float64)
