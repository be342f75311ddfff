"""The configuration of a model: plain numbers and words, saved as JSON beside the weights.

Three presets. `paper` follows the equations of the paper where they work: one of its four kernels, absolute time in
every block, the projection, a dot product; it departs from them by a self connection, the logarithm of the pause, and
a transform for each role in the dot product (role-dot). `published` is what was run for the printed results.
`adaptive`, the default, is the best we have: forgetting kernel, walk sketches, node statistics, an MLP on the pair.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from tapgnn.errors import ConfigError, EventError
from tapgnn.events import Events, Floats

# Those of the package (`tapgnn.kernels`), so that a configuration is read without loading them.
OWN_KERNELS = ("gcn", "mean", "pool", "attention", "adaptive", "mean-with-self")
HEADS = ("dot", "role-dot", "additive", "mlp")
# Of every whole number: far beyond what is of use, and what memory has room for.
LARGEST = 1 << 16


@dataclass(frozen=True)
class Config:
    """All that decides the shape of a model; times are in the unit of the user's log.

    kernel, layers, width        the AP blocks: which kernel, K, d
    roles                        messages pass a gate of their own as source and as destination
    self_connection, norm        a block adds its own weighed input, and normalises (LayerNorm)
    time_width, time_at_input    channels of cos(W t + b) given to every block (eq. 7), 0 for none; to the first alone
    projection, log_pause        the projection of the paper (without statistics), or h itself is read; it encodes the
                                 logarithm of the pause in place of the pause
    rates                        learned rates of the adaptive kernel, on each of its two clocks
    sketch_width, sketch_steps   walk sketches: length of the random vectors (0 for none), longest walk
    sketch_half_lives            of the sketches beside the one that never forgets, in spans of the clock of events
    partners                     how many recent partners a node remembers exactly (0 for none)
    statistics, half_lives       recency and counts by role go into the projection and the head; the half-lives of the
                                 counts, in spans of the clock of events
    bins                         pieces of the piecewise linear encoding of a statistic for the head
    node_vectors                 nodes known at training time have a learned vector each; without vectors and features
                                 a node is nothing but its history
    node_features, edge_features how many numbers describe a node and an event, 0 for none
    edge_categories              how many codes each category of an event has
    head, head_width             dot, role-dot, additive or mlp; the hidden width of the mlp
    dropout, identity_dropout    the second replaces a node's vector by the unknown vector
    origin, span, unit, events   where time starts, how long the log is, the shortest pause that matters, and how many
                                 events the log has (a span of the clock of events)
    """

    kernel: str = "adaptive"
    layers: int = 2
    width: int = 64
    roles: bool = True
    self_connection: bool = True
    norm: bool = True
    time_width: int = 0
    time_at_input: bool = False
    projection: bool = True
    log_pause: bool = False
    rates: int = 3
    sketch_width: int = 64
    sketch_steps: int = 2
    sketch_half_lives: tuple[float, ...] = (0.1, 0.01)
    partners: int = 16
    statistics: bool = True
    half_lives: tuple[float, ...] = (0.5, 0.1, 0.02, 0.004, 0.0008)
    bins: int = 5
    node_vectors: bool = True
    node_features: int = 0
    edge_features: int = 0
    edge_categories: tuple[int, ...] = ()
    head: str = "mlp"
    head_width: int = 32
    dropout: float = 0.0
    identity_dropout: float = 0.1
    origin: float = 0.0
    span: float = 1.0
    unit: float = 1e-4
    events: float = 1e4

    def __post_init__(self) -> None:
        if self.kernel not in OWN_KERNELS:
            from tapgnn.kernels import find_kernel

            find_kernel(self.kernel)
        _check(self.head in HEADS, f"head {self.head!r} is not one of {', '.join(HEADS)}")
        for name in ("layers", "width", "head_width", "bins"):
            _check(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")
            _check(getattr(self, name) <= LARGEST, f"{name} must be at most {LARGEST}, not {getattr(self, name)}")
        counts = ("rates", "time_width", "sketch_width", "sketch_steps", "partners", "node_features", "edge_features")
        for name in counts:
            _check(getattr(self, name) >= 0, f"{name} must not be negative, not {getattr(self, name)}")
            _check(getattr(self, name) <= LARGEST, f"{name} must be at most {LARGEST}, not {getattr(self, name)}")
        for name in ("dropout", "identity_dropout"):
            _check(0 <= getattr(self, name) < 1, f"{name} must lie in [0, 1), not {getattr(self, name)}")
        for name in ("span", "unit", "events"):
            value = getattr(self, name)
            _check(np.isfinite(value) and value > 0, f"{name} must be a positive number, not {value}")
        _check(np.isfinite(self.origin), f"origin must be finite, not {self.origin}")
        for size in self.edge_categories:
            _check(isinstance(size, int) and 1 <= size <= LARGEST, f"edge_categories must be counts, not {size!r}")
        for name in ("half_lives", "sketch_half_lives"):
            _check(all(half > 0 for half in getattr(self, name)), f"{name} must be positive")
        _check(
            self.norm or not self.self_connection or self.kernel != "adaptive",
            "the kernel adaptive has a self connection with norm, or none",
        )
        _check(
            not self.statistics or (self.projection and not self.log_pause),
            "projection and log_pause are options of a model without statistics",
        )

    @classmethod
    def preset(cls, name: str = "adaptive", **changes: Any) -> Config:
        """A preset by name, with changes.

        >>> Config.preset("paper", kernel="mean", width=64).head
        'role-dot'
        """
        if name not in PRESETS:
            raise ConfigError(f"preset {name!r} is not one of {', '.join(PRESETS)}")
        return cls.from_dict({**PRESETS[name], **changes})

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """A configuration from plain values; an unknown key is an error."""
        known = {field.name for field in fields(cls)}
        unknown = [name for name in values if name not in known]
        if unknown:
            raise ConfigError(f"unknown option {unknown[0]!r}; the options are {', '.join(sorted(known))}")
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**plain)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @property
    def sketched(self) -> bool:
        """Whether there are walk sketches."""
        return self.sketch_width > 0 and self.sketch_steps > 0

    @property
    def feature_width(self) -> int:
        """How many numbers and codes an event brings."""
        return self.edge_features + len(self.edge_categories)

    def count_rates(self) -> Floats:
        """[H] rates of the decayed counts per span of the clock of events."""
        return math.log(2) / np.array(self.half_lives)

    def sketch_rates(self) -> Floats:
        """[2, 1 + H] rates of the sketches per span of time and of events: none, then the half-lives on events."""
        rates = np.append(0.0, math.log(2) / np.array(self.sketch_half_lives))
        return np.stack([np.zeros_like(rates), rates])

    def fitted_to(self, events: Events, categories: tuple[int, ...] = ()) -> Config:
        """The same model for these events, whose last features are codes of categories: time scale and width measured.

        Quantiles, not extremes: one row with a wrong time must not set the scale.
        """
        if not len(events):
            raise EventError("there are no training events; nothing can be learnt from an empty log")
        low, high = np.quantile(events.time, [0.005, 0.995])
        span = float(high - low) or 1.0
        gaps = np.diff(np.unique(events.time))
        unit = float(np.quantile(gaps, 0.01)) if len(gaps) else span
        return replace(
            self,
            origin=float(low),
            span=span,
            unit=min(unit, span),
            events=float(len(events)),
            edge_features=events.feature_width - len(categories),
            edge_categories=categories,
        )


# What the two have in common that are of the paper.
_PAPER: dict[str, Any] = {
    "width": 128,
    "roles": False,
    "time_width": 128,
    "sketch_width": 0,
    "partners": 0,
    "statistics": False,
    "dropout": 0.2,
    "identity_dropout": 0.0,
}
PRESETS: dict[str, dict[str, Any]] = {
    "adaptive": {},
    "paper": {**_PAPER, "kernel": "mean", "norm": False, "log_pause": True, "head": "role-dot"},
    "published": {
        **_PAPER,
        "kernel": "mean-with-self",
        "self_connection": False,
        "time_at_input": True,
        "head": "additive",
    },
}


def _check(holds: bool | np.bool_, message: str) -> None:
    if not holds:
        raise ConfigError(message)
