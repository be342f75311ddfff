"""The client: repeats what may be repeated, waits as long as it is told, and says what the server said."""

import http.server
import json
import threading

import pytest

from tapgnn.errors import ConfigError, ServerError
from tapgnn.online.client import NOTHING_TAKEN, OUTCOME_UNKNOWN, Client

RECEIPT = {"accepted": 1, "duplicate": False, "late": 0, "held": 0, "position": 1}


class Scripted(http.server.BaseHTTPRequestHandler):
    """Answers with what is on the list, in turn; None ends the connection without a word."""

    def do_POST(self):
        self.server.asked.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
        answer = self.server.script.pop(0)
        if answer is None:
            self.connection.close()
            return
        status, headers, body = answer
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def scripted():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    server.script, server.asked = [], []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_numbered_batch_is_sent_again_until_it_is_answered(scripted):
    scripted.script = [None, (503, {}, {"detail": "replaying"}), (429, {"Retry-After": "0"}, {}), (200, {}, RECEIPT)]
    with Client(scripted.url, producer="till 3", first=7) as client:
        assert client.observe([("a", "b", 1.0)]).accepted == 1
    assert len(scripted.asked) == 4
    assert len(set(scripted.asked)) == 1
    assert scripted.asked[0][0] == "/v1/events?producer=till+3&sequence=7"


def test_a_batch_without_a_number_is_sent_again_only_if_it_was_surely_not_taken(scripted):
    with Client(scripted.url) as client:
        scripted.script = [(429, {"Retry-After": "0"}, {}), (200, {}, RECEIPT)]
        client.observe([("a", "b", 1.0)])
        assert len(scripted.asked) == 2
        scripted.script = [(503, {"Retry-After": "0"}, {"detail": "", "type": NOTHING_TAKEN}), (200, {}, RECEIPT)]
        client.observe([("a", "b", 1.0)])
        assert len(scripted.asked) == 4
        scripted.script = [None]
        with pytest.raises(ServerError, match="cannot be reached"):
            client.observe([("a", "b", 1.0)])
        assert len(scripted.asked) == 5
        # Whoever answers 503 without a word about the batch, a proxy for example, may have passed it on.
        for number, body in enumerate(({"detail": "", "type": OUTCOME_UNKNOWN}, {"detail": ""}, "unavailable", {}), 6):
            scripted.script = [(503, {"Retry-After": "0"}, body)]
            with pytest.raises(ServerError, match="503"):
                client.observe([("a", "b", 1.0)])
            assert len(scripted.asked) == number


def test_patience_ends(scripted):
    with Client(scripted.url, producer="p", patience=5) as client:
        scripted.script = [(429, {"Retry-After": "3600"}, {"detail": "full"})]
        with pytest.raises(ServerError, match="429 Too Many Requests: full") as caught:
            client.observe([("a", "b", 1.0)])
    assert caught.value.status == 429
    with pytest.raises(ServerError, match="is it running"), Client("http://127.0.0.1:1", patience=0) as client:
        client.score([("a", "b")])


def test_a_refusal_is_said_once_and_in_the_words_of_the_server(scripted):
    scripted.script = [(422, {}, {"detail": "events[0].time: a time is a finite number"})]
    with Client(scripted.url, producer="p") as client, pytest.raises(ServerError, match=r"422 .*events\[0\]\.time"):
        client.observe([{"src": "a", "dst": "b", "time": 1e300}])
    assert len(scripted.asked) == 1


def test_a_number_needs_a_producer(scripted):
    with Client(scripted.url) as client, pytest.raises(ConfigError, match="producer"):
        client.observe([("a", "b", 1.0)], sequence=3)


def test_everything_a_server_says_has_its_type(server, rows):
    with server.client(producer="p") as client:
        client.wait_until_ready()
        observed = client.observe(rows[:40])
        assert (observed.accepted, observed.duplicate) == (40, False)
        src, dst = rows[39][:2]
        found = client.explain(src, dst, limit=3)
        assert found.score == found.probability == pytest.approx(client.score([(src, dst)])[0], abs=1e-5)
        assert len(found.causes) == 3
        assert found.causes[0].time <= rows[39][2]
        times = [rows[39][2] + 10, rows[39][2] + 20]
        one_by_one = [client.score([(src, dst)], time)[0] for time in times]
        assert client.score([(src, dst)] * 2, times) == pytest.approx(one_by_one, abs=1e-5)
        with pytest.raises(ServerError, match="no node is called"):
            client.rank(src, candidates=["nobody"])
