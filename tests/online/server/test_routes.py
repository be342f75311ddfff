"""The routes: answers are those of the engine, and requests that make no sense are refused."""

import numpy as np
import pytest

from tapgnn.online import Engine
from tests.online.server.running import JSON, NDJSON, as_lines, send


def test_what_is_asked_over_http_is_what_the_engine_says(server, rows):
    engine = server.engine
    with server.client(producer="p") as client, server.http() as http:
        client.observe(rows[:50])
        pairs = [(row[0], row[1]) for row in rows[50:60]]
        src, dst = zip(*pairs, strict=True)
        assert client.score(pairs) == engine.score(list(src), list(dst)).tolist()
        later = rows[49][2] + 100
        assert client.score(pairs, later) == engine.score(list(src), list(dst), later).tolist()
        assert client.embed(src, later) == engine.embed(list(src), later).tolist()
        assert client.rank(src[0], 5) == engine.rank(src[0], None, 5)
        assert client.rank(src[0], 2, candidates=["m1", "m2"]) == engine.rank(src[0], None, 2, ["m1", "m2"])
        answer = http.post("/v1/embed", json={"nodes": [src[0], "nobody"]}).json()
        assert answer["known"] == [True, False]
        about = client.model()
        assert about["features"] == 2
        assert about["classifier"]
        assert about["status"]["accepted"] == 50


def test_events_are_scored_from_before_they_are_known(model, rows, server, tmp_path):
    with Engine.open(model, tmp_path / "other.db") as engine:
        src, dst, time, features = zip(*rows[:30], strict=True)
        columns = {"src": list(src), "dst": list(dst), "time": np.array(time), "features": np.array(features)}
        expected, _ = engine.score_then_observe(columns)
    with Engine.open(model, tmp_path / "third.db") as engine:
        risks, _ = engine.classify_then_observe(columns)
    with server.client(producer="p") as client:
        found = client.score_then_observe(rows[:30])
        assert found.scores == expected.tolist()
        assert found.risks == risks.tolist()
        again = client.score_then_observe(rows[:30], sequence=0)
        assert again.receipt.duplicate
        assert (again.scores, again.risks) == (found.scores, found.risks)


def test_a_batch_that_is_sent_again_is_taken_once(server, rows):
    with server.http() as http:
        query = {"producer": "till", "sequence": 7}
        first = send(http, as_lines(rows[:5]), NDJSON, **query).json()
        again = send(http, as_lines(rows[:5]), NDJSON, **query).json()
        assert (first["accepted"], first["duplicate"]) == (5, False)
        assert (again["accepted"], again["duplicate"], again["position"]) == (0, True, first["position"])
        assert send(http, as_lines(rows[5:9]), NDJSON, **query).status_code == 422
        assert http.get("/v1/model").json()["status"]["accepted"] == 5


@pytest.mark.parametrize("path", ["/v1/score", "/v1/embed", "/v1/rank", "/v1/explain", "/v1/node"])
def test_questions_that_make_no_sense_are_refused(server, path):
    bodies = [b"", b"{}", b"[]", b"null", b"[" * 100_000, b'{"src": {}, "dst": 1}', b'{"nodes": []}', b'{"node": ""}']
    bodies += [
        b'{"pairs": [{"src": 1, "dst": 2, "time": NaN}]}',
        b'{"src": 1, "k": 0}',
        b'{"nodes":[1], "time": 1e300}',
    ]
    with server.http() as http:
        for body in bodies:
            answer = http.post(path, content=body, headers={"Content-Type": JSON})
            assert answer.status_code in (400, 422), (body[:40], answer.text)
            assert answer.json()["detail"]
        assert http.post(path, content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
        assert http.post(path, json={}, params={"x": 1}).status_code == 422
        assert http.get(path).status_code == 405


def test_a_moment_that_has_passed_is_not_asked_about(server, rows):
    with server.http() as http:
        send(http, as_lines(rows[:20]), NDJSON)
        answer = http.post("/v1/score", json={"pairs": [{"src": "a1", "dst": "m1", "time": rows[0][2]}]})
        assert answer.status_code == 422
        assert "already absorbed" in answer.json()["detail"]
