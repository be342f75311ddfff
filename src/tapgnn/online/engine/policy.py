"""The policy of a journal: what decides, beside its records, which state they make.

    late        what happens to an event that is not newer than what was absorbed: 'reject' refuses it, 'merge'
                absorbs it at the present instant, 'buffer' waits for it (lateness) and refuses it afterwards
    lateness    events wait until the newest time is this much later, and are then absorbed in order
    hold_back   an instant is absorbed only when a later time has come, so that no instant is ever cut in two
    ttl         a node silent for longer is forgotten; inf for never

An event is absorbed once its time is below `newest - lateness` (at or below it without hold_back).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from tapgnn.errors import ConfigError

Late = Literal["reject", "merge", "buffer"]


@dataclass(frozen=True)
class Policy:
    """See the module.

    >>> Policy().changed(late="buffer", lateness=60.0, ttl=None)
    Policy(late='buffer', lateness=60.0, hold_back=True, ttl=inf)
    """

    late: Late = "reject"
    lateness: float = 0.0
    hold_back: bool = True
    ttl: float = math.inf

    def __post_init__(self) -> None:
        if self.late not in get_args(Late):
            raise ConfigError(f"the late policy is one of {', '.join(get_args(Late))}, not {self.late!r}")
        if not 0 <= self.lateness < math.inf:
            raise ConfigError(f"lateness is a number of time units, at least 0, not {self.lateness}")
        if self.late == "reject" and self.lateness:
            raise ConfigError(
                f"lateness {self.lateness} needs the late policy 'buffer' or 'merge'; 'reject' does not wait"
            )
        if self.late == "buffer" and not self.lateness:
            raise ConfigError(
                "the late policy 'buffer' needs a lateness above 0: how long to wait for events out of order"
            )
        if not self.ttl > 0:
            raise ConfigError(f"ttl is a number of time units above 0, or inf, not {self.ttl}")

    def changed(self, **values: Any) -> Policy:
        """The same policy with the values that are not None."""
        return replace(self, **{name: value for name, value in values.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; no ttl is None."""
        return {**asdict(self), "ttl": None if self.ttl == math.inf else self.ttl}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Policy:
        """What `to_dict` gave."""
        return cls(**{**values, "ttl": math.inf if values["ttl"] is None else values["ttl"]})
