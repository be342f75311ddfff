"""The ingest queue: concurrent senders, one writer, and what a full queue answers."""

import threading

from tapgnn.online import Engine
from tapgnn.online.client import NOTHING_TAKEN
from tapgnn.online.server import ingest_queue
from tapgnn.online.server.service import ServerSettings
from tests.online.server.running import NDJSON, as_lines, running, send


def test_concurrent_senders_lose_nothing_and_each_batch_has_its_own_record(model, rows, tmp_path):
    with running(model, tmp_path / "state.db", late="merge") as server:
        parts = [rows[start : start + 5] for start in range(0, 100, 5)]
        answers = []

        def work(mine):
            with server.client() as client:
                answers.extend(client.observe(part) for part in mine)

        threads = [threading.Thread(target=work, args=(parts[place::4],)) for place in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answer.position for answer in answers) == list(range(1, 21))
        assert server.engine.status()["accepted"] == 100


def test_a_full_queue_says_when_to_come_back_and_nothing_acknowledged_is_lost(model, rows, tmp_path):
    with running(model, tmp_path / "state.db", ServerSettings(window=100, queue=2), late="merge") as server:
        answers = []

        def work(row):
            with server.http() as http:
                answers.append(send(http, as_lines([row]), NDJSON))

        threads = []
        with server.engine._writing:
            while not answers:
                threads.append(threading.Thread(target=work, args=(rows[len(threads)],)))
                threads[-1].start()
                threads[-1].join(0.2)
        for thread in threads:
            thread.join()
        refused = [answer for answer in answers if answer.status_code == 429]
        taken = [answer for answer in answers if answer.status_code == 200]
        assert len(taken) == len(threads) - len(refused) >= 2
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert server.engine.status()["accepted"] == len(taken)


def test_a_stop_refuses_what_it_has_no_time_for_and_keeps_what_it_acknowledged(model, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(ingest_queue, "DRAIN_SECONDS", 0.0)
    monkeypatch.setattr(ingest_queue, "GROUP_EVENTS", 1)
    answers = []
    with running(model, tmp_path / "state.db", late="merge") as server:
        queue = server.service.queue

        def work(row):
            with server.http() as http:
                answers.append(send(http, as_lines([row]), NDJSON))

        threads = [threading.Thread(target=work, args=(row,)) for row in rows[:8]]
        with server.engine._writing:
            for thread in threads:
                thread.start()
            # The writer holds the first one.
            while queue.queued_batches < 7:
                pass
            server.stop()
            while server.service.unavailable_reason != "the server is stopping":
                pass
        for thread in threads:
            thread.join()
    (taken,) = (answer for answer in answers if answer.status_code == 200)
    refused = [answer for answer in answers if answer.status_code == 503]
    assert [answer.json()["type"] for answer in refused] == [NOTHING_TAKEN] * 7
    assert all("the server is stopping" in answer.json()["detail"] for answer in refused)
    with Engine.open(model, tmp_path / "state.db") as engine:
        assert engine.status()["accepted"] == taken.json()["accepted"] == 1
        assert engine.status()["checkpoint_age"] == 0
