"""Structured logs: one JSON object per line on standard error, never with the content of requests."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from tapgnn.errors import ConfigError

LEVELS = ("debug", "info", "warning", "error")


class JsonFormatter(logging.Formatter):
    """A record as a JSON object: time, level, logger, message, and the fields given as `extra={"fields": ...}`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= getattr(record, "fields", {})
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


def log_as_json(level: str = "info", stream: TextIO | None = None) -> None:
    """Make all loggers of the server, its sources, uvicorn and OpenTelemetry write JSON lines."""
    if level not in LEVELS:
        raise ConfigError(f"a log level is one of {', '.join(LEVELS)}, not {level!r}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("tapgnn", "uvicorn", "opentelemetry"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
