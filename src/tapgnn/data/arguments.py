"""Arguments: what a caller passes to a model -> events, rows, seconds and plain values, or a one-line error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tapgnn.errors import ConfigError, EventError, QueryError
from tapgnn.events import Events, Floats, to_seconds
from tapgnn.vocabulary import Vocabulary


def check_events(given: Any, vocabulary: Vocabulary | None = None) -> None:
    """Refuse anything but a log, and a log that does not share `vocabulary`, if one is given."""
    if not isinstance(given, Events):
        raise EventError(f"expected Events, not {type(given).__name__}; {_cure(given)}")
    if vocabulary is not None and given.vocabulary is not vocabulary:
        raise EventError(
            "the events do not share the vocabulary of the model; read or build them with vocabulary=model.vocabulary"
        )


def _cure(given: Any) -> str:
    """The call that would turn it into events."""
    if isinstance(given, str) or hasattr(given, "__fspath__"):
        return f"read the file with tapgnn.data.load_dataset({str(given)!r})"
    if hasattr(given, "columns"):
        return "call Events.from_frame(frame, src=..., dst=..., time=...)"
    if all(hasattr(given, name) for name in ("src", "dst", "t")):
        return "call Events.from_temporal_data(data)"
    return "build them with Events.from_arrays, Events.from_frame or tapgnn.data.load_dataset"


def listed_ids(ids: Any) -> Any:
    """Ids as a list or a one-dimensional array, each of them checked; a bare string or integer is one id."""
    if isinstance(ids, str | Integral):
        return [ids]
    shape = np.shape(ids) if isinstance(ids, np.ndarray) else (0,)
    if len(shape) != 1 or not hasattr(ids, "__iter__"):
        raise QueryError(f"expected one id or a list of ids, not {type(ids).__name__} of shape {shape}")
    names = ids if isinstance(ids, np.ndarray) else list(ids)
    try:
        Vocabulary().rows(names)
    except EventError as error:
        raise QueryError(f"ids: {error}") from None
    return names


def seconds_of(times: ArrayLike, size: int) -> Floats:
    """[Q] times as numbers: one for all `size` queries, or one for each; numbers or datetimes, as in a log."""
    try:
        if np.ndim(times) > 1:
            raise QueryError(f"times have shape {np.shape(times)}; expected one time, or one per query")
        seconds = to_seconds(times)
    except QueryError:
        raise
    except ValueError as error:
        raise QueryError(f"times: {error}") from None
    if len(seconds) not in (1, size):
        raise QueryError(f"expected one time, or {size:,} times, one per query, not {len(seconds):,}")
    return np.broadcast_to(seconds, (size,)).copy()


def is_whole(value: Any) -> bool:
    """Whether a value is an integer; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_seed(seed: Any) -> None:
    """Refuse an invalid seed."""
    if not is_whole(seed) or not 0 <= seed < 2**63:
        raise ConfigError(f"seed must be a whole number from 0 to 2^63 - 1, not {seed!r}")


_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    "int": (is_whole, "a whole number"),
    "float": (lambda value: isinstance(value, Real) and not isinstance(value, bool), "a number"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "str": (lambda value: isinstance(value, str), "a string"),
    "str | None": (lambda value: isinstance(value, str | None), "a string or nothing"),
    "tuple[float, ...]": (lambda value: _is_list(value, Real), "a list of numbers"),
    "tuple[str, ...]": (lambda value: _is_list(value, str), "a list of strings"),
    "tuple[str, str] | None": (lambda value: value is None or _is_list(value, str), "a list of strings or nothing"),
    "Mapping[str, Kind]": (lambda value: isinstance(value, Mapping), "the kind of each column by its name"),
}


def _is_list(value: Any, kind: type[Any]) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, kind) for item in value)


def plain_values(values: Mapping[str, Any], declared: type[Any]) -> dict[str, Any]:
    """Values for a dataclass, each of the type that it declares; the dataclass checks their ranges."""
    kinds = {field.name: field.type for field in fields(declared)}
    found = {name: plain(value) for name, value in values.items()}
    for name, value in found.items():
        fits, words = _KINDS.get(kinds.get(name), (lambda _: True, ""))
        if not fits(value):
            raise ConfigError(f"{name} must be {words}, not {value!r}")
    return found


def plain(value: Any) -> Any:
    """Numpy numbers and arrays as Python values that JSON can hold, also inside containers."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(item) for item in value)
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value
