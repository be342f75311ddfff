"""The middleware: every route needs its scope, whatever the spelling; hosts, sizes, headers and logs."""

import http.client
import json
import socket
from contextlib import closing
from urllib.parse import urlsplit

import anyio
import httpx
import pytest
from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from tapgnn.errors import ConfigError
from tapgnn.model import load_model
from tapgnn.online import Engine
from tapgnn.online.server.app import make_app
from tapgnn.online.server.limits import Limits
from tapgnn.online.server.middleware import AccessMiddleware, ScopedRoute
from tapgnn.online.server.service import ServerSettings, Service
from tapgnn.online.server.serving import check_address
from tapgnn.online.server.tokens import Tokens
from tests.online.server.running import ARROW, JSON, NDJSON, as_arrow, as_lines, running, send

SCOPES = {
    "/v1/events": "write",
    "/v1/score-then-observe": "write",
    "/v1/retract": "write",
    "/v1/erase": "write",
    "/v1/backup": "write",
    "/v1/classify": "read",
    "/v1/score": "read",
    "/v1/embed": "read",
    "/v1/rank": "read",
    "/v1/explain": "read",
    "/v1/node": "read",
    "/v1/model": "read",
    "/v1/live": "read",
    "/v1/map": "read",
    "/metrics": "read",
    "/healthz": "open",
    "/readyz": "open",
    "/openapi.json": "open",
    "/": "open",
    "/docs": "open",
}
SPELLINGS = (
    "{path}%0A",
    "{path}%0a",
    "{path}%0D%0A",
    "{path}%00",
    "{path}%20",
    "{path}/",
    "{path}%2F",
    "{path}/%0A",
    "{path}%0A/",
    "{path}/.",
    "{path}/%2e",
    "{path};x",
    "{path}%3Fx",
    "{path}?x",
    "{path}?",
    "/{path}",
    "/%2e{path}",
    "/v1/..{path}",
    "/healthz/..{path}",
    "{encoded}",
    "{upper}",
    "http://localhost{path}",
)
# What says nothing about a route but that this spelling is none of its.
NOTHING = (307, 400, 404)


@pytest.fixture(scope="module")
def secured(model, rows, tmp_path_factory):
    """A server with tokens and some events, and what to send with each scope."""
    tokens = Tokens()
    texts = {"wrong": "tg_wrong", "read": tokens.add("read"), "write": tokens.add("write")}
    headers = {who: {"Authorization": f"Bearer {text}"} for who, text in texts.items()}
    settings = ServerSettings(tokens=tokens, window=500)
    journal = tmp_path_factory.mktemp("scopes") / "state.db"
    with running(model, journal, settings, late="merge", start="empty") as server:
        with server.client(token=texts["write"]) as client:
            client.observe(rows[:20])
        yield server, {None: {}, **headers}


def ask(server, method, target, headers, body):
    """The status of an answer to a request whose target goes over the wire as it stands."""
    place = urlsplit(server.url)
    with closing(http.client.HTTPConnection(place.hostname, place.port, timeout=60)) as connection:
        content = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, target, body, {**headers, **content})
        answer = connection.getresponse()
        if answer.status in (401, 403):
            assert answer.headers["content-type"] == "application/problem+json"
            assert set(json.load(answer)) == {"title", "status", "detail"}
            assert (answer.status == 401) == ("www-authenticate" in answer.headers)
        return answer.status


def spellings(path):
    encoded = "/" + "".join(f"%{ord(letter):02x}" for letter in path[1:])
    return [form.format(path=path, encoded=encoded, upper=path.upper()) for form in SPELLINGS]


def requests(server, rows):
    """Method, path and a body that is served, of every route of the application."""
    src, dst, time, features = rows[0]
    event = {"src": src, "dst": dst, "time": time, "features": features}
    bodies = {
        "/v1/events": {"events": [event]},
        "/v1/score-then-observe": {"events": [event]},
        "/v1/classify": {"events": [{**event, "time": time + 1e6}]},
        "/v1/score": {"pairs": [{"src": src, "dst": dst}]},
        "/v1/embed": {"nodes": [src]},
        "/v1/rank": {"src": src},
        "/v1/explain": {"src": src, "dst": dst},
        "/v1/node": {"node": src},
        "/v1/retract": {"position": 1, "index": 0},
        "/v1/erase": {"node": rows[1][0]},
    }
    for route in server.app.routes:
        (method,) = route.methods
        yield method, route.path, json.dumps(bodies[route.path]) if method == "POST" else None


def test_every_route_declares_its_scope(secured):
    server, _ = secured
    found = {route.path: route.access for route in server.app.routes}
    assert all(isinstance(route, ScopedRoute) for route in server.app.routes)
    assert {path: found.pop(path) for path in SCOPES} == SCOPES
    assert found
    assert all(path.startswith("/page/") and access == "open" for path, access in found.items())


def test_the_document_names_the_scope_of_every_route(secured):
    server, _ = secured
    with server.http() as http:
        document = http.get("/openapi.json").json()
    told = {
        path: [name for need in operation["security"] for name in need["token"]]
        for path, item in document["paths"].items()
        for operation in item.values()
    }
    inside = SCOPES.keys() - {"/", "/docs", "/openapi.json"}
    assert told == {path: [SCOPES[path]] if SCOPES[path] != "open" else [] for path in inside}


def test_no_spelling_of_a_path_gives_more_than_the_path_itself(secured, rows):
    server, tokens = secured
    before = server.engine.state_digest(), server.engine.status()["position"]
    for who in (None, "wrong", "read", "write"):
        for method, path, body in requests(server, rows):
            plain = ask(server, method, path, tokens[who], body)
            needs = SCOPES.get(path, "open")
            allowed = needs == "open" or who == "write" or who == needs
            assert plain == (200 if allowed else 403 if who == "read" else 401), (path, who)
            for target in spellings(path):
                found = ask(server, method, target, tokens[who], body)
                # Who is let in may hear that there is no parameter x, or that the event is taken back already.
                expected = (plain, *NOTHING, 422) if allowed else (plain, *NOTHING)
                assert found in expected, (method, target, who, found)
        if who != "write":
            assert (server.engine.state_digest(), server.engine.status()["position"]) == before, who


def test_a_path_with_one_slash_more_is_no_redirection_to_the_host_that_was_named(secured):
    server, _ = secured
    with server.http(headers={"Host": "elsewhere.example"}) as http:
        for path in ("/v1/erase/", "/metrics/", "/docs/"):
            response = http.get(path)
            assert response.status_code in (401, 404)
            assert "location" not in response.headers


def test_a_method_that_a_route_does_not_have_tells_nothing_without_its_scope(secured, rows):
    server, tokens = secured
    for who, expected in ((None, 401), ("read", 403), ("write", 405)):
        for method in ("GET", "PUT", "DELETE"):
            assert ask(server, method, "/v1/events%0A", tokens[who], None) == expected


def test_who_sends_much_without_a_scope_gets_to_hear_the_refusal(secured):
    server, tokens = secured
    long = json.dumps({"events": "x" * 12_000_000})
    assert ask(server, "POST", "/v1/events", tokens[None], long) == 401
    assert ask(server, "POST", "/v1/events", tokens["read"], long) == 403


async def served():
    return {"secret": 1}


@pytest.mark.parametrize("secured", [True, False])
def test_a_route_that_declares_no_scope_is_served_to_nobody(model, tmp_path, secured):
    tokens = Tokens()
    text = tokens.add("write")
    settings = ServerSettings(tokens=tokens if secured else None)
    service = Service(lambda: Engine.open(model, tmp_path / "state.db"), settings)
    middleware = make_app(service, load_model(model).config)
    middleware.app.add_api_route("/v1/forgotten", served, methods=["GET"])

    async def statuses():
        transport = httpx.ASGITransport(middleware)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return [
                (await http.get(path, headers={"Authorization": f"Bearer {text}"})).status_code
                for path in ("/healthz", "/v1/forgotten")
            ]

    assert anyio.run(statuses) == [200, 403]


def test_an_application_with_a_route_that_declares_no_scope_is_not_served(tmp_path):
    def middleware(app):
        return AccessMiddleware(app, None, Limits(), lambda *_: None)

    empty = {"docs_url": None, "redoc_url": None, "openapi_url": None}
    middleware(FastAPI(**empty))
    for add in (
        lambda app: app.add_api_route("/v1/forgotten", served),
        lambda app: app.add_route("/plain", lambda request: None),
        lambda app: app.mount("/files", StaticFiles(directory=tmp_path)),
        lambda app: app.add_api_websocket_route("/socket", served),
    ):
        app = FastAPI(**empty)
        add(app)
        with pytest.raises(ConfigError, match="declares no scope"):
            middleware(app)
    with pytest.raises(ConfigError, match="declares no scope"):
        middleware(FastAPI())


def test_bodies_and_batches_have_a_limit(model, rows, tmp_path):
    settings = ServerSettings(window=100, events=10, limits=Limits(body=2_000))
    with running(model, tmp_path / "state.db", settings) as server, server.http() as http:
        assert send(http, as_lines(rows[:10]), NDJSON).status_code == 200
        long = b" " * 3_000
        for content in (long, iter([long[:1_500], long[1_500:]])):
            answer = http.post("/v1/events", content=content, headers={"Content-Type": JSON})
            assert answer.status_code == 413
            assert "2,000 bytes" in answer.json()["detail"]
        short = [("a", "b", row[2], [0.0, 0.0]) for row in rows[10:21]]
        for content, kind in ((as_lines(short), NDJSON), (as_arrow(short), ARROW)):
            answer = send(http, content, kind)
            assert answer.status_code == 413
            assert "10 events" in answer.json()["detail"]


def test_half_a_request_leaves_the_server_as_it_was(model, rows, tmp_path):
    settings = ServerSettings(window=100, limits=Limits(body_seconds=0.3))
    with running(model, tmp_path / "state.db", settings) as server:
        place = urlsplit(server.url)
        before = server.engine.state_digest()
        head = (
            f"POST /v1/events HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: {JSON}\r\nContent-Length: 500\r\n\r\n"
        )
        with socket.create_connection((place.hostname, place.port)) as half:
            half.sendall(head.encode() + b'{"events": [')
        with socket.create_connection((place.hostname, place.port)) as slow:
            slow.sendall(head.encode() + b'{"events": [')
            assert slow.recv(100).startswith(b"HTTP/1.1 408")
        with socket.create_connection((place.hostname, place.port)) as noise:
            noise.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
            assert noise.recv(100).startswith(b"HTTP/1.1 400")
        with server.http() as http:
            assert http.get("/readyz").status_code == 200
        assert server.engine.state_digest() == before


def test_tokens_open_what_their_scope_says(model, rows, tmp_path):
    tokens = Tokens()
    reading, writing = tokens.add("read"), tokens.add("write")
    tokens.save(tmp_path / "tokens.json")
    text = (tmp_path / "tokens.json").read_text()
    assert reading not in text
    assert writing not in text
    assert (tmp_path / "tokens.json").stat().st_mode & 0o077 == 0
    settings = ServerSettings(tokens=Tokens.load(tmp_path / "tokens.json"), window=100)
    with running(model, tmp_path / "state.db", settings) as server, server.http() as http:
        ask = {"pairs": [{"src": "a1", "dst": "m1"}]}

        def status(path, token, **options):
            headers = {"Content-Type": NDJSON} if "content" in options else {}
            headers |= {} if token is None else {"Authorization": token}
            return http.post(path, headers=headers, **options).status_code

        wrong = (
            None,
            "Bearer",
            "Bearer x",
            f"Basic {writing}",
            writing,
            f"Bearer {writing[:-1]}",
            f"Bearer {writing}x",
        )
        for token in wrong:
            assert status("/v1/score", token, json=ask) == 401
            assert status("/v1/events", token, content=as_lines(rows[:2])) == 401
        assert status("/v1/score", f"Bearer {reading}", json=ask) == 200
        assert status("/v1/score", f"bearer {writing}", json=ask) == 200
        assert status("/v1/events", f"Bearer {reading}", content=as_lines(rows[:2])) == 403
        assert status("/v1/events", f"Bearer {writing}", content=as_lines(rows[:2])) == 200
        assert http.get("/metrics").status_code == 401
        assert http.get("/metrics", headers={"Authorization": f"Bearer {reading}"}).status_code == 200
        for path in ("/", "/healthz", "/readyz", "/openapi.json"):
            assert http.get(path).status_code == 200


def test_without_tokens_only_this_machine_is_served(server):
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org", ""):
        with pytest.raises(ConfigError, match="tapgnn token new"):
            check_address(host, secured=False)
        check_address(host, secured=True)
    for host in ("127.0.0.1", "127.0.0.9", "::1", "localhost"):
        check_address(host, secured=False)
    with server.http() as http:
        # A page of another site that has its name point here.
        for host in ("evil.example:8000", "[", "[::1", "]", "[x]:1", ""):
            assert http.get("/v1/model", headers={"Host": host}).status_code in (400, 421), host
        assert http.get("/v1/model", headers={"Host": "[::1]:8000"}).status_code == 200
        answer = http.post("/v1/events", content=b"{}", headers={"Content-Type": "text/plain"})
        assert answer.status_code == 415


def test_answers_carry_the_headers_of_safety_and_logs_nothing_of_the_content(model, rows, tmp_path, caplog):
    caplog.set_level("INFO", logger="tapgnn.online.server")
    with running(model, tmp_path / "state.db") as server, server.http() as http:
        answer = http.get("/")
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
        secret = {"producer": "secret-name", "sequence": 1}
        send(http, as_lines([("secret-node", "m1", rows[0][2], [0.0, 0.0])]), NDJSON, **secret)
        http.get("/v1/secret-path")
    # The server has stopped when it has logged all that it answered.
    lines = [record.fields for record in caplog.records if record.message == "request"]
    assert {"/", "/v1/events", "(unknown)"} <= {line["path"] for line in lines}
    assert "secret" not in str([vars(record) for record in caplog.records])
