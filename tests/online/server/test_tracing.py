"""Traces and request ids: what a request waited for, in spans of OpenTelemetry; ids go in and out, and into the log."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tapgnn.errors import ConfigError
from tapgnn.online.server.service import ServerSettings
from tapgnn.online.server.tracing import Tracing, exported_traces
from tests.cli.command import tapgnn
from tests.online.server.failing import Full, fragile
from tests.online.server.running import body_of, running

STAGES = ["queue", "journal commit", "apply"]
SENDER = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def spans():
    """What makes the spans of a server, and what gives those that have ended."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Tracing(provider), exporter.get_finished_spans
    provider.shutdown()


def children(found, parent):
    return [span for span in found if span.parent is not None and span.parent.span_id == parent.context.span_id]


def named(found, name):
    (span,) = (span for span in found if span.name == name)
    return span


def test_the_spans_of_a_batch_say_what_it_waited_for(model, rows, tmp_path, spans):
    tracing, finished = spans
    with running(model, tmp_path / "state.db", ServerSettings(window=100, tracing=tracing)) as server:
        sender = {"traceparent": f"00-{SENDER}-00f067aa0ba902b7-01", "X-Request-ID": "till-3/17"}
        with server.http() as http:
            query = {"producer": "secret-name", "sequence": 1}
            for _ in range(2):
                answer = http.post("/v1/events", json=body_of(rows[:5]), params=query, headers=sender)
                assert answer.status_code == 200
    found = finished()
    first, again = (span for span in found if span.name == "POST /v1/events")
    assert f"{first.context.trace_id:032x}" == SENDER
    assert dict(first.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/events",
        "http.response.status_code": 200,
        "tapgnn.request_id": "till-3/17",
    }
    (ingest,) = children(found, first)
    assert dict(ingest.attributes) == {"tapgnn.events": 5, "tapgnn.position": 1, "tapgnn.duplicate": False}
    stages = sorted(children(found, ingest), key=lambda span: span.start_time)
    assert [span.name for span in stages] == STAGES
    # One after the other, within the batch, which is within the request.
    times = [time for span in stages for time in (span.start_time, span.end_time)]
    assert sorted([ingest.start_time, *times, ingest.end_time]) == [ingest.start_time, *times, ingest.end_time]
    assert first.start_time <= ingest.start_time
    (repeated,) = children(found, again)
    assert repeated.attributes["tapgnn.duplicate"]
    assert children(found, repeated) == []
    assert not any("secret" in str(span.to_json()) for span in found)


def test_a_batch_that_was_refused_is_a_span_with_an_error(model, rows, tmp_path, spans, monkeypatch):
    tracing, finished = spans
    settings = ServerSettings(window=100, tracing=tracing)
    with fragile(model, tmp_path / "state.db", monkeypatch, Full, settings=settings) as server, server.http() as http:
        server.engine._journal.connection.full = True
        assert http.post("/v1/events", json=body_of(rows[:5])).status_code == 503
        server.engine._journal.connection.full = False
    request = named(finished(), "POST /v1/events")
    assert request.status.status_code is StatusCode.ERROR
    (ingest,) = children(finished(), request)
    assert ingest.status.status_code is StatusCode.ERROR
    assert ingest.attributes["error.type"] == "UnavailableError"


def test_what_is_not_a_route_or_a_method_leaves_nothing_of_itself_in_a_span(model, tmp_path, spans):
    tracing, finished = spans
    settings = ServerSettings(window=100, tracing=tracing)
    with running(model, tmp_path / "state.db", settings) as server, server.http() as http:
        http.request("GET", "/v1/secret-path", headers={"traceparent": "secret"})
        http.request("PROPFIND", "/v1/secret-path?secret=1")
    assert {"GET (unknown)", "HTTP (unknown)"} <= {span.name for span in finished()}
    assert not any("secret" in str(span.to_json()) for span in finished())


def test_request_ids_are_repeated_where_they_are_fit_for_a_log(server, caplog):
    caplog.set_level("INFO", logger="tapgnn.online.server")
    bad = ("", "a b", "x" * 65, "ä", '"', "a;b", "{}", "<script>")
    with server.http() as http:
        for given in ("till-3/17", "A.b_c:d+e=", "x" * 64):
            assert http.get("/healthz", headers={"X-Request-ID": given}).headers["x-request-id"] == given
        made = [http.get("/healthz", headers={"X-Request-ID": given.encode()}).headers["x-request-id"] for given in bad]
        refused = http.get("/v1/nothing", headers={"X-Request-ID": "gone"})
        assert (refused.status_code, refused.headers["x-request-id"]) == (404, "gone")
    assert len({*made, *bad}) == len(made) + len(bad)
    assert all(len(identity) == 32 for identity in made)
    logged = [record.fields["request_id"] for record in caplog.records if record.message == "request"]
    assert {"till-3/17", "gone", *made} <= set(logged)


@pytest.fixture
def collector():
    """A collector of OTLP over HTTP: its address, and the spans that it was sent."""
    received, served = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            import gzip

            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            served.append(self.path)
            received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received, served
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("variable", [True, False])
def test_traces_reach_a_collector(collector, model, rows, tmp_path, monkeypatch, variable):
    endpoint, received, served = collector
    if variable:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "risk")
    with exported_traces(None if variable else endpoint) as tracing:
        settings = ServerSettings(window=100, tracing=tracing)
        with running(model, tmp_path / "state.db", settings) as server, server.client() as client:
            client.observe(rows[:3])
    assert set(served) == {"/v1/traces"}
    resources = [each for request in received for each in request.resource_spans]
    names = {span.name for each in resources for scope in each.scope_spans for span in scope.spans}
    assert {"POST /v1/events", "ingest", *STAGES} <= names
    services = {pair.value.string_value for each in resources for pair in each.resource.attributes}
    assert ("risk" if variable else "tapgnn") in services


def test_without_an_endpoint_nothing_is_traced(monkeypatch, model, tmp_path):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    with exported_traces(None) as tracing:
        assert tracing is None
    with pytest.raises(ConfigError, match="is not a URL"), exported_traces("127.0.0.1:4318"):
        pass
    serve = ("serve", model, "--journal", tmp_path / "state.db")
    assert "is not a URL" in tapgnn(*serve, "--otlp-endpoint", "127.0.0.1:4318").refusal
