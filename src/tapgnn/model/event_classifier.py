"""The classifier of events: the probability of the rare label from what is known of an event just before it happens.

logit(u,v,t) = MLP(([z(u,t), z(v,t), features of the event] - centre) / scale)        three layers
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

HIDDEN, SECOND = 80, 10


class EventClassifier(nn.Module):
    """Logits [Q] of events from their description [Q, w], standardised as on the training events."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.centre: Tensor
        self.scale: Tensor
        self.layers = nn.Sequential(
            nn.Linear(width, HIDDEN),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(HIDDEN, SECOND),
            nn.ReLU(),
            nn.Linear(SECOND, 1),
        )
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_normal_(layer.weight)

    def forward(self, description: Tensor) -> Tensor:
        """Logits [Q]."""
        return self.layers((description - self.centre) / self.scale).squeeze(1)  # type: ignore[no-any-return]
