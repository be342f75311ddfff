"""Wording: how a message names an option, in the words of the interface in use.

A cure such as 'pass --categorical channel' helps on the command line only; in Python it is `categorical=['channel']`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OptionSpelling:
    """The spelling of options in one interface."""

    flags: bool

    def option(self, name: str, *values: str) -> str:
        """An option with its values; without values, the option alone.

        >>> COMMAND_LINE.option("categorical", "channel"), PYTHON.option("categorical", "channel")
        ('--categorical channel', "categorical=['channel']")
        """
        if self.flags:
            flag = f"--{name.replace('_', '-')}"
            return f"{flag} {','.join(_quoted(value) for value in values)}" if values else flag
        if not values:
            return f"{name}=True" if name in _SWITCHES else f"{name}=..."
        return f"{name}={list(values) if name in _LISTS else values[0]!r}"


_SWITCHES = ("bipartite", "skip_bad_rows")
_LISTS = ("numeric", "categorical", "boolean", "drop", "features")


def _quoted(value: str) -> str:
    """A value as a shell takes it in one piece."""
    plain = value and all(mark.isalnum() or mark in "_-./:" for mark in value)
    return value if plain else "'" + value.replace("'", "'\\''") + "'"


COMMAND_LINE, PYTHON = OptionSpelling(flags=True), OptionSpelling(flags=False)
