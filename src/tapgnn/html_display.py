"""What a notebook shows of an object: a title and a table, in plain HTML that takes the colours of the notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A title over a table; every cell is escaped, because ids and texts come from files of others.

    >>> table("one event", ["src", "score"], [["<b>", 0.98765]])
    '<div><strong>one event</strong><table><tr><th>src<th>score</tr><tr><td>&lt;b&gt;<td>0.9877</tr></table></div>'
    """
    top = "".join(f"<th>{escape(name)}" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_text(cell))}' for cell in row)}</tr>" for row in rows)
    return f"<div><strong>{escape(title)}</strong><table><tr>{top}</tr>{body}</table></div>"


def _text(cell: Any) -> str:
    """A value with as many digits as can be read."""
    return f"{cell:.4g}" if isinstance(cell, float) and abs(cell) < 1e6 else str(cell)
