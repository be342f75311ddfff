"""The metrics count what happened."""

from tests.online.server.running import JSON


def test_metrics_count_what_happened(server, rows):
    with server.client(producer="p") as client, server.http() as http:
        client.observe(rows[:30])
        client.observe(rows[:30], sequence=0)
        http.post("/v1/events", content=b"{", headers={"Content-Type": JSON})
        client.score([("a1", "m1")])
        found = {}
        for line in http.get("/metrics").text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
    assert found["tapgnn_events_total"] == 30
    assert found["tapgnn_duplicates_total"] == 1
    assert found["tapgnn_batches_total"] == 1
    assert found["tapgnn_ready"] == 1
    assert found["tapgnn_journal_position"] == 1
    assert found["tapgnn_checkpoint_age_records"] == 1
    assert found["tapgnn_queue_batches"] == found["tapgnn_lag_seconds"] == found["tapgnn_late_events_total"] == 0
    assert found['tapgnn_refused_requests_total{status="400"}'] == 1
    assert found['tapgnn_request_seconds_count{path="/v1/score"}'] == 1
    assert found["tapgnn_apply_seconds_count"] == 2
