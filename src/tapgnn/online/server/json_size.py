"""How many values a JSON body holds, counted before it is parsed.

A value of two bytes becomes an object of thirty to ninety, and one unknown field an error of its own. So a body is
refused by the number of its values, which is bounded for any valid one, before any of them is made.
"""

from __future__ import annotations

import numpy as np

from tapgnn.online.server.http_errors import HTTPProblemError

# Smaller bodies cannot hold enough values to matter.
SMALL, PIECE = 262_144, 1_000_000
QUOTE = ord('"')
_STARTS = np.zeros(256, dtype=bool)
_STARTS[list(b",[{")] = True


def value_count(body: bytes) -> int:
    """The commas and opening brackets outside of texts: at least the number of values, and of elements.

    >>> value_count(b'{"a": [1, 2, {}], "b,[": "\\\\",["}')
    6
    """
    if b"\\" in body:
        # What follows a backslash ends no text. Backslashes pair from the left.
        body = body.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    content, count, parity = np.frombuffer(body, np.uint8), 0, 0
    for start in range(0, len(content), PIECE):
        piece = content[start : start + PIECE]
        inside = (np.cumsum(piece == QUOTE, dtype=np.uint8) + np.uint8(parity)) & 1
        count += int(np.count_nonzero(_STARTS[piece] & (inside == 0)))
        parity = int(inside[-1])
    return count


def check_values(body: bytes, most: int, what: str) -> None:
    """Refuse a body of more than `most` values; `what` says what that many would be."""
    if len(body) > SMALL and sum(map(body.count, (b",", b"[", b"{"))) > most and value_count(body) > most:
        raise HTTPProblemError(413, f"the body holds more values than {what}; send several requests")
