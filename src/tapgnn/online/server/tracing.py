"""Traces of OpenTelemetry: a request, and what its batch waits for.

    POST /v1/events                     from the first byte to the response
      ingest                            from the arrival of the batch until it is applied
        queue                           until the writer has it and has checked it
        journal commit                  until it is durable, together with others
        apply                           until the model has absorbed it

A span has the path of the route, the status, the request id, and of a batch its size and its position; nothing else of
what was sent. A `traceparent` header makes a request part of the trace of its sender. Batches of sources are traces of
their own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import Scope

from tapgnn import __version__
from tapgnn.errors import ConfigError
from tapgnn.online.engine.ingest import Outcome, Request

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider as ExportingProvider
    from opentelemetry.trace import Span, TracerProvider

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH")
# Seconds until a collector that does not answer is given up.
PATIENCE = 5


class RequestSpan:
    """The span of one request."""

    def __init__(self, span: Span, method: str) -> None:
        self._span, self._method = span, method

    def end(self, path: str, status: int, identity: str) -> str:
        """Say what became of the request; gives the trace's number in hexadecimal."""
        from opentelemetry.trace import StatusCode, format_trace_id

        self._span.update_name(f"{self._method} {path}")
        self._span.set_attributes(
            {"http.route": path, "http.response.status_code": status, "tapgnn.request_id": identity}
        )
        if status >= 500:
            self._span.set_status(StatusCode.ERROR)
        return format_trace_id(self._span.get_span_context().trace_id)


class Tracing:
    """Makes the spans of a server."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("tapgnn", __version__)

    @contextmanager
    def request(self, scope: Scope) -> Iterator[RequestSpan]:
        """A span around a request, within the trace of its sender if it names one."""
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        method = scope["method"] if scope["method"] in METHODS else "HTTP"
        with self._tracer.start_as_current_span(
            method,
            context=extract(dict(Headers(scope=scope))),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method if method != "HTTP" else "_OTHER"},
            record_exception=False,
        ) as span:
            yield RequestSpan(span, method)

    def follow(self, request: Request, size: int) -> None:
        """Make the spans of a batch when it is answered, within the span that is current now."""
        from opentelemetry.context import get_current

        request.answer.add_done_callback(partial(self._add_batch, get_current(), request.arrived, size))

    def _add_batch(self, context: Context, arrived: float, size: int, answer: Future[Outcome]) -> None:
        from opentelemetry.trace import StatusCode, set_span_in_context

        epoch = time.time_ns() - time.perf_counter_ns()
        now = time.perf_counter()
        error = None if answer.cancelled() else answer.exception()
        outcome = None if answer.cancelled() or error is not None else answer.result()
        stages = None if outcome is None else outcome.stages

        def add(name: str, within: Context, start: float, end: float) -> Span:
            span = self._tracer.start_span(name, within, start_time=epoch + round(start * 1e9))
            span.end(epoch + round(end * 1e9))
            return span

        whole = self._tracer.start_span("ingest", context, start_time=epoch + round(arrived * 1e9))
        whole.set_attribute("tapgnn.events", size)
        if outcome is not None:
            whole.set_attribute("tapgnn.position", outcome.receipt.position)
            whole.set_attribute("tapgnn.duplicate", outcome.receipt.duplicate)
        if error is not None:
            whole.set_attribute("error.type", type(error).__name__)
            whole.set_status(StatusCode.ERROR)
        if stages is not None:
            inside = set_span_in_context(whole, context)
            add("queue", inside, arrived, stages.checked)
            add("journal commit", inside, stages.checked, stages.committed)
            add("apply", inside, stages.applying, stages.applied)
        whole.end(epoch + round((now if stages is None else stages.applied) * 1e9))


@contextmanager
def exported_traces(endpoint: str | None) -> Iterator[Tracing | None]:
    """Tracing that is sent to a collector over HTTP; None without an endpoint, here or in the standard variables."""
    if endpoint is None and not any(os.environ.get(name) for name in ENDPOINTS):
        yield None
        return
    provider = _provider(endpoint)
    try:
        yield Tracing(provider)
    finally:
        provider.shutdown()


def _provider(endpoint: str | None) -> ExportingProvider:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ConfigError("traces need OpenTelemetry; install it with pip install 'tapgnn[otel]'") from None

    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise ConfigError(f"--otlp-endpoint {endpoint} is not a URL; write for example http://127.0.0.1:4318")
    about = {"service.version": __version__, "service.name": os.environ.get("OTEL_SERVICE_NAME") or "tapgnn"}
    provider = TracerProvider(resource=Resource.create(about))
    place = None if endpoint is None else f"{endpoint.rstrip('/')}/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(place, timeout=PATIENCE)))
    return provider
