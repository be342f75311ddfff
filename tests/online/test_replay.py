"""Replay: through an engine and through a server a log ends in the same journal, scored from before it was known."""

import numpy as np
import pytest

from tapgnn.data import write_events
from tapgnn.errors import ConfigError, EventError
from tapgnn.online import Engine
from tapgnn.online.replay import EngineTarget, ServerTarget, Tally, replay
from tests.cli.command import tapgnn
from tests.online.server.running import random_log, running


@pytest.fixture(scope="module")
def log():
    """The whole log, of which the model knows the first 400 events."""
    return random_log()


def test_every_event_is_scored_once_from_what_came_before_its_instant(model, log, tmp_path):
    tally = Tally()
    with Engine.open(model, tmp_path / "state.db") as engine:
        steps = list(replay(log, EngineTarget(engine), tally, size=16))
        digest = engine.state_digest()
        assert engine.status()["held"] == 0
    with Engine.open(model, tmp_path / "state.db") as engine:
        assert engine.state_digest() == digest
    with Engine.open(model, tmp_path / "other.db") as engine:
        rest = log.between(np.nextafter(engine.status()["newest"], np.inf), np.inf)
        expected, _ = engine.score_then_observe(rest)
    assert steps[-1].done == steps[-1].total == len(rest)
    np.testing.assert_allclose(tally.positive, expected, rtol=1e-4, atol=1e-5)
    assert tally.when == rest.time.tolist()
    curve = tally.curve()
    assert sum(part["events"] for part in curve) == len(rest)
    assert all(0 <= part["auc"] <= 1 for part in curve)
    assert set(tally.percentiles()) == {"observe", "score"}


def test_through_a_server_the_state_is_that_of_the_same_batches(model, log, tmp_path):
    tally = Tally()
    with running(model, tmp_path / "state.db") as server, server.client(producer="replay") as client:
        list(replay(log, ServerTarget(client), tally, size=50))
        digest = server.engine.state_digest()
    with Engine.open(model, tmp_path / "other.db") as engine:
        rest = log.between(np.nextafter(engine.status()["newest"], np.inf), np.inf)
        for batch in rest.chunks(50):
            engine.observe(batch)
        # A producer is part of the record, not of the state.
        assert engine.state_digest() == digest
    assert len(tally.positive) == len(rest)
    assert tally.recent_auc() == pytest.approx(tally.whole_auc(), abs=0.5)


def test_a_pace_is_kept(model, log, tmp_path):
    few = log.between(np.sort(log.time)[-6], np.inf)
    speed = float(few.time[-1] - few.time[0]) / 0.2
    with Engine.open(model, tmp_path / "state.db") as engine:
        steps = list(replay(few, EngineTarget(engine), Tally(), speed=speed))
    assert steps[-1].seconds >= 0.2


def test_what_the_model_knows_is_left_out_and_nothing_is_an_error(model, log, tmp_path):
    with Engine.open(model, tmp_path / "state.db") as engine:
        with pytest.raises(EventError, match="already holds"):
            list(replay(log.between(0.0, float(log.time[300])), EngineTarget(engine), Tally()))
        with pytest.raises(ConfigError):
            list(replay(log, EngineTarget(engine), Tally(), size=0))


def test_the_command_reports_auc_along_time_and_latencies(model, log, tmp_path):
    write_events(log, tmp_path / "log.csv")
    outcome = tapgnn("replay", tmp_path / "log.csv", "--model", model, "--journal", tmp_path / "state.db", "--json")
    assert outcome.code == 0, outcome.err
    found = outcome.last
    assert found["auc"] == pytest.approx(0.5, abs=0.5)
    assert len(found["auc_along_time"]) > 5
    assert set(found["latency"]["observe"]) == {"p50_ms", "p95_ms", "p99_ms"}
    assert "events/s" in outcome.err
    again = tapgnn("replay", tmp_path / "log.csv", "--model", model, "--journal", tmp_path / "state.db")
    assert "already holds" in again.refusal
    assert "either --model" in tapgnn("replay", tmp_path / "log.csv").refusal
    assert "--speed" in tapgnn("replay", tmp_path / "log.csv", "--model", model, "--speed", "fast").refusal
