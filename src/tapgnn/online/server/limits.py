"""Limits on clients: on a connection before its request is complete, and on the bodies of requests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits that need no token to run into.

    connections        most open connections
    head               most bytes of the head of a request: its first line and its headers
    head_seconds       until the head is complete
    body               most bytes of a body
    body_seconds       until the body is complete
    bodies             most bytes of all bodies that are being received or served
    idle_seconds       for which a connection is kept without a request
    answer_seconds     for which a client may take nothing of its answer
    """

    connections: int = 1_000
    head: int = 65_536
    head_seconds: float = 10.0
    body: int = 16_000_000
    body_seconds: float = 60.0
    bodies: int = 256_000_000
    idle_seconds: int = 30
    answer_seconds: float = 30.0
