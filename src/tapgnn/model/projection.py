"""From the past of a node to its representation at the time of a query (eq. 8), and the facts it and the head read.

    z(v,t) = W2 relu(W1 [h(v,t'), cos(w (t - t') + b)])                  preset paper
    z(v,t) = relu(LayerNorm(P h(v,t') + V h_0(v) + R facts(v,t)))        with facts

t' is the node's latest instant before t. A node with no history has h = 0 and no time encoding, and its facts say so.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tapgnn.model.config import Config
from tapgnn.model.encoding import TimeEncoding
from tapgnn.model.facts import COUNT, LAST, RECENT, SEEN
from tapgnn.model.state import Past

# Small beside one event, so that the logarithm still tells how long ago the last one was.
COUNT_FLOOR = 1e-4


class Facts(nn.Module):
    """The facts of a node at the time of a query, centred and scaled as on the training log.

    As source, as destination and in any role: log(1 + pause), log(1 + events of the graph since), and 'never'. Per
    role: the logarithms of the count and of the decayed counts.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.unit = config.unit
        rates = decay_rates(config)
        self.width = 9 + 2 + 2 * rates.shape[1]
        # Per unit of time and per event. No buffer: it stays in float64 whatever the type of the model.
        self.rate = rates / torch.tensor([[config.span], [config.events]], dtype=torch.float64)
        self.register_buffer("centre", torch.zeros(self.width))
        self.register_buffer("scale", torch.ones(self.width))
        self.centre: Tensor
        self.scale: Tensor

    def forward(self, past: Past) -> Tensor:
        """[Q, width]"""
        return (self.plain(past) - self.centre) / self.scale

    def plain(self, past: Past) -> Tensor:
        """[Q, width] before centring and scaling."""
        facts = past.facts
        never = facts[:, LAST].isinf()
        since = torch.stack([past.time.unsqueeze(1) - facts[:, LAST], past.seen.unsqueeze(1) - facts[:, SEEN]])
        since = torch.where(never, torch.inf, since)
        since = torch.cat([since, since.amin(dim=2, keepdim=True)], dim=2)
        unknown = since.isinf()
        pause, ticks = torch.where(unknown, 0.0, since)
        by_time, by_events = self.rate.to(facts.device)
        kept = torch.exp(-pause[:, 2:] * by_time - ticks[:, 2:] * by_events).repeat_interleave(2, dim=1)
        columns = [
            torch.log1p(pause / self.unit),
            torch.log1p(ticks),
            unknown[0].double(),
            torch.log(facts[:, COUNT] + COUNT_FLOOR),
            torch.log(facts[:, RECENT] * kept + COUNT_FLOOR),
        ]
        return torch.cat(columns, dim=1).to(self.centre.dtype)


class Projection(nn.Module):
    """z(v,t) as in the paper: a two-layer MLP on the embedding and the encoded pause."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.span = config.span
        self.encoding = TimeEncoding(config.time_width, config.unit / config.span)
        self.hidden = nn.Linear(config.width + config.time_width, config.width)
        self.out = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, past: Past) -> Tensor:
        """z [Q, d]"""
        last = past.facts[:, LAST].amax(dim=1)
        never = last.isinf()
        pause = torch.where(never, 0.0, past.time - last) / self.span
        waves = torch.where(never.unsqueeze(1), 0.0, self.encoding(pause))
        hidden = torch.relu(self.hidden(torch.cat([past.embedding, waves], dim=1)))
        return self.out(self.dropout(hidden))  # type: ignore[no-any-return]


class FactProjection(nn.Module):
    """z(v,t) from the embedding, what the node is, and its facts."""

    def __init__(self, config: Config, facts: int) -> None:
        super().__init__()
        self.transform = nn.Linear(2 * config.width + facts, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, past: Past, node: Tensor, facts: Tensor) -> Tensor:
        """z [Q, d] from the past, h_0 [Q, d] and the facts [Q, .]."""
        mixed = self.transform(torch.cat([past.embedding, node, facts], dim=1))
        return self.dropout(torch.relu(self.norm(mixed)))  # type: ignore[no-any-return]


def decay_rates(config: Config) -> Tensor:
    """[2, 2 H] rates of the decayed counts per span: the half-lives on the clock of time, then on that of events."""
    rates = torch.tensor([math.log(2) / half for half in config.half_lives], dtype=torch.float64)
    idle = torch.zeros_like(rates)
    return torch.stack([torch.cat([rates, idle]), torch.cat([idle, rates])])


def sketch_rates(config: Config) -> Tensor:
    """[2, 1 + H] rates of the sketches per span: none, then the half-lives on the clock of events."""
    rates = torch.tensor([0.0, *(math.log(2) / half for half in config.sketch_half_lives)], dtype=torch.float64)
    return torch.stack([torch.zeros_like(rates), rates])
