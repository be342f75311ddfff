"""What a client may take before its request is complete: a limit to everything, and an answer in time."""

import json
import socket
import threading
from urllib.parse import urlsplit

import pytest

from tapgnn.online.client import NOTHING_TAKEN
from tapgnn.online.server.limits import Limits
from tapgnn.online.server.service import ServerSettings
from tests.online.server.running import JSON, running

LIMITS = Limits(
    connections=12,
    head=8_000,
    head_seconds=0.5,
    body_seconds=0.8,
    bodies=3_000_000,
    answer_seconds=0.5,
    idle_seconds=60,
)
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = f"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n".encode()
PAUSE = threading.Event()


@pytest.fixture(scope="module")
def limited(model, tmp_path_factory):
    settings = ServerSettings(window=100, limits=LIMITS)
    with running(model, tmp_path_factory.mktemp("limits") / "state.db", settings) as server:
        yield server


def connected(server, **options):
    place = urlsplit(server.url)
    return socket.create_connection((place.hostname, place.port), timeout=30, **options)


def received(connection):
    """All that a server sends until it ends the connection."""
    found = b""
    try:
        while piece := connection.recv(65_536):
            found += piece
    except ConnectionError:
        pass
    return found


def problem(connection):
    """The status and the body of the only answer on a connection that the server ends."""
    head, _, body = received(connection).partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    assert b"connection: close" in head
    return int(head[9:12]), json.loads(body)


def send_on(connection, piece, most=50_000_000):
    """Send a piece again and again until the server has enough of it; it must, long before so many bytes."""
    sent = 0
    while sent < most:
        try:
            connection.sendall(piece)
        except ConnectionError:
            return
        sent += len(piece)
    raise AssertionError(f"{sent:,} bytes were taken")


def drip(connection, ended=PAUSE):
    """Send a byte now and then."""
    while not ended.wait(0.1):
        connection.sendall(b" ")


def is_served(server):
    with connected(server) as connection:
        connection.sendall(GET + b"\r\n")
        return connection.recv(100).startswith(b"HTTP/1.1 200")


LINES = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 100) for number in range(100))
HEADS = {
    "many headers": GET + LINES,
    "many headers, complete": GET + LINES + b"\r\n",
    "one header": GET + b"X: " + b"a" * 9_000,
    "a name of a header": GET + b"a" * 9_000,
    "a target": b"GET /" + b"a" * 9_000,
    "a target, complete": b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("case", HEADS)
def test_a_long_head_is_refused_however_it_is_cut(limited, case):
    for size in (len(HEADS[case]), 1_000):
        with connected(limited) as connection:
            for start in range(0, len(HEADS[case]), size):
                connection.sendall(HEADS[case][start : start + size])
            status, found = problem(connection)
            assert status == 431
            assert "8,000 bytes" in found["detail"]
    assert is_served(limited)


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (GET, b"X: " + b"a" * 60_000 + b"\r\n"),
        (GET + b"X: ", b"a" * 60_000),
        (b"GET /", b"a" * 60_000),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: " + b"a" * 1_000 + b"\r\n"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a" * 60_000),
        (b"", b"\r\n" * 30_000),
    ],
)
def test_no_connection_takes_bytes_without_end(limited, start, piece):
    with connected(limited) as connection:
        connection.sendall(start)
        send_on(connection, piece)
    assert is_served(limited)


@pytest.mark.parametrize("start", [b"", b"G", GET, GET + b"X: a", b"\r\n", GET + b"\r\n" + b"GET /"])
def test_a_head_that_does_not_end_in_time_is_told_so(limited, start):
    with connected(limited) as connection:
        connection.sendall(start)
        if start.startswith(GET + b"\r\n"):
            assert connection.recv(10_000).startswith(b"HTTP/1.1 200")
        assert problem(connection)[0] == 408


def test_a_byte_now_and_then_does_not_make_a_head_live_longer(limited):
    with connected(limited) as connection:
        connection.sendall(GET + b"X: ")
        with pytest.raises(ConnectionError):
            drip(connection)


def test_a_byte_now_and_then_does_not_make_a_body_live_longer(limited):
    with connected(limited) as connection:
        connection.sendall(POST + b"Content-Length: 10000\r\n\r\n")
        ended = threading.Event()
        dripping = threading.Thread(target=drip, args=(connection, ended))
        dripping.start()
        try:
            assert connection.recv(1_000).startswith(b"HTTP/1.1 408")
        finally:
            ended.set()
            dripping.join()


def test_a_body_that_drips_on_after_its_answer_ends_the_connection(limited):
    with connected(limited) as connection:
        connection.sendall(POST.replace(JSON.encode(), b"text/plain") + b"Content-Length: 10000000\r\n\r\n")
        with pytest.raises(ConnectionError):
            drip(connection)


def test_connections_beyond_the_limit_are_told_so_and_room_that_is_made_is_used(limited):
    with connected(limited) as keeping:
        keeping.sendall(GET + b"\r\n")
        assert keeping.recv(10_000).startswith(b"HTTP/1.1 200")
        others = [connected(limited) for _ in range(LIMITS.connections)]
        try:
            status, found = problem(others[-1])
            assert status == 503
            assert "12 connections" in found["detail"]
            # Who was there is served on.
            keeping.sendall(GET + b"\r\n")
            assert keeping.recv(10_000).startswith(b"HTTP/1.1 200")
        finally:
            for other in others:
                other.close()
    while not is_served(limited):
        PAUSE.wait(0.05)


def test_more_requests_than_answers_are_waited_for_end_the_connection(limited):
    with connected(limited) as connection:
        connection.sendall(200 * (GET + b"\r\n"))
        assert received(connection).count(b"HTTP/1.1 200") < 200
    with connected(limited) as connection:
        connection.sendall(10 * (GET + b"\r\n"))
        found = b""
        while found.count(b"alive") < 10:
            found += connection.recv(65_536)


def test_who_does_not_take_the_answer_loses_the_connection(limited):
    body = json.dumps({"nodes": ["a1"] * 10_000}).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        place = urlsplit(limited.url)
        connection.connect((place.hostname, place.port))
        # Once it has been answered, the connection is among the open ones.
        connection.sendall(GET + b"\r\n")
        assert connection.recv(10_000).startswith(b"HTTP/1.1 200")
        head = POST.replace(b"/v1/events", b"/v1/embed") + b"Content-Length: %d\r\n\r\n" % len(body)
        connection.sendall(4 * (head + body))
        open_ones = limited.connections
        while any(found.client == connection.getsockname() for found in open_ones):
            PAUSE.wait(0.05)
        assert received(connection).count(b'"known"') < 4


def test_all_bodies_together_have_a_limit_that_says_when_to_retry(limited):
    half = POST + b"Content-Length: 2000001\r\n\r\n" + b" " * 2_000_000
    with connected(limited) as first, connected(limited) as second:
        for connection in (first, second):
            connection.sendall(half)
        # Whichever comes second is refused, and the other may go on.
        found = [connection.recv(10_000) for connection in (first, second)]
        assert sorted(int(answer[9:12]) for answer in found) == [408, 503]
        (refused,) = (answer for answer in found if answer.startswith(b"HTTP/1.1 503"))
        assert NOTHING_TAKEN.encode() in refused
        assert b"retry-after: 2" in refused.lower()
    with limited.http() as http:
        answer = http.post("/v1/events", content=b" " * 2_000_000, headers={"Content-Type": JSON})
        assert answer.status_code == 400, "what was held is given back"


def test_refusals_are_counted(limited):
    with connected(limited) as connection:
        connection.sendall(GET + b"X: " + b"a" * 9_000)
        assert problem(connection)[0] == 431
    with limited.http() as http:
        assert 'tapgnn_refused_requests_total{status="431"}' in http.get("/metrics").text
