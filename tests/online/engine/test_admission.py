"""Admission: a wrong clock or unit is refused, a pause of the log is not, and what waits in memory has a bound."""

import numpy as np
import pytest

from tapgnn import Config, Vocabulary, save_model
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.data.schema import Schema
from tapgnn.errors import EventError, LateEventError, OverloadError
from tapgnn.model.files import SCHEMA
from tapgnn.online import Engine
from tapgnn.online.engine.admission import Admission

from ...cli.command import tapgnn
from ...streams import tiny_model
from ..live import saved_model
from ..server.running import running

NOW = 1_772_366_400.0
DAY = 86_400.0


def model_of(folder, unit="s", origin=NOW - 90 * DAY, span=90 * DAY):
    """The folder of a model of a log that ended at a time, in a unit."""
    size = {"s": 1.0, "ms": 1e3}[unit]
    model = tiny_model("mean", Vocabulary(), origin=origin * size, span=span * size)
    table = FittedSchema.fit(
        FittedSchema(Schema(), None).read({"src": [1], "dst": [2], "time": [1.0]}, Vocabulary())[0]
    )
    table = FittedSchema(Schema(time_unit=unit), table.encoder)
    save_model(model, folder, more={SCHEMA: table.to_json()})
    return folder


@pytest.mark.parametrize("fed", [False, True], ids=["an empty journal", "a journal in use"])
@pytest.mark.parametrize(
    ("unit", "wrong", "said"),
    [
        ("s", 9e15, "check the sender's clock"),
        ("s", NOW * 1e3, "it looks like milliseconds, and the log is in seconds"),
        ("s", NOW * 1e6, "it looks like microseconds, and the log is in seconds"),
        ("ms", NOW * 1e6, "it looks like microseconds, and the log is in milliseconds"),
    ],
)
def test_one_wrong_clock_is_refused_and_what_comes_later_is_not_late(tmp_path, unit, wrong, said, fed):
    size = {"s": 1.0, "ms": 1e3}[unit]
    with Engine.open(model_of(tmp_path / "model", unit), tmp_path / "s.db") as engine:
        if fed:
            engine.observe(("a", "b", NOW * size))
        with pytest.raises(EventError, match=rf"event 1 .*more than the horizon.*{said}"):
            engine.observe([("a", "b", (NOW + 1) * size), ("a", "b", wrong)])
        assert engine.observe(("a", "b", (NOW + 2) * size)).late == 0


def test_seconds_in_a_log_of_milliseconds_are_late_and_the_unit_is_named(tmp_path):
    with Engine.open(model_of(tmp_path / "model", "ms"), tmp_path / "s.db", hold_back=False) as engine:
        engine.observe(("a", "b", NOW * 1e3))
        with pytest.raises(LateEventError, match="it looks like seconds, and the log is in milliseconds; send events"):
            engine.observe(("a", "b", NOW + 1))
        with pytest.raises(LateEventError, match=r"up to [0-9.]+; send events"):
            engine.observe(("a", "b", NOW * 1e3 - 5))


@pytest.mark.parametrize("pause", [21 * DAY, 400 * DAY, 20 * 365 * DAY])
@pytest.mark.parametrize("span", [3_600.0, 90 * DAY])
def test_a_log_may_pause_for_weeks_and_a_journal_may_begin_years_after_the_training(tmp_path, pause, span):
    folder = model_of(tmp_path / "model", origin=NOW - span, span=span)
    with Engine.open(folder, tmp_path / "s.db") as engine:
        for time in (NOW + pause, NOW + 2 * pause):
            assert engine.observe(("a", "b", time)).accepted == 1


def test_times_that_are_no_dates_have_a_horizon_of_a_hundred_logs():
    admission = Admission.of(Config(origin=0.0, span=1000.0), Schema(), None, 1)
    assert (admission.horizon, admission.known_until) == (100_000.0, 1000.0)
    assert Admission.of(Config(origin=0.0, span=1000.0), Schema(), np.inf, 1).known_until == -np.inf


def test_a_horizon_without_end_takes_any_time(tmp_path):
    with Engine.open(model_of(tmp_path / "model"), tmp_path / "s.db", horizon=np.inf) as engine:
        assert engine.observe(("a", "b", NOW * 1e3)).accepted == 1


def test_what_waits_in_memory_is_bounded_and_goes_on_when_later_events_come(tmp_path):
    folder, start = saved_model(), 1e9
    policy = {"late": "buffer", "lateness": 10.0, "max_held": 20}
    with Engine.open(folder, tmp_path / "s.db", **policy) as engine:
        for step in range(10):
            engine.observe([(0, 1, start + 0.5 * step), (1, 2, start + 0.5 * step)])
        digest = engine.state_digest()
        with pytest.raises(OverloadError, match="21 events would wait in memory, which may hold 20") as refused:
            engine.observe((2, 0, start + 6.0), "till", 1)
        assert refused.value.seconds > 0
        assert (engine.state_digest(), engine.status()["held"]) == (digest, 20)
        assert engine.observe((2, 0, start + 12.0), "till", 1).held == 13, "a later one lets others be absorbed"
        many = {"src": [0] * 100, "dst": [1] * 100, "time": start + 100.0 + np.arange(100.0)}
        assert engine.observe(many).held == 11, "what is absorbed at once does not wait"
    with Engine.open(folder, tmp_path / "s.db", max_held=5) as engine:
        assert engine.status()["held"] == 11, "a bound that is lowered refuses, and drops nothing"
        with pytest.raises(OverloadError):
            engine.observe((0, 1, start + 199.5))


def test_a_server_answers_429_and_422(tmp_path):
    folder = model_of(tmp_path / "model")
    with running(folder, tmp_path / "s.db", max_held=3) as server, server.http() as http:
        four = {"events": [{"src": "a", "dst": "b", "time": NOW}] * 4}
        answer = http.post("/v1/events", json=four)
        assert (answer.status_code, answer.json()["type"]) == (429, "urn:tapgnn:problem:nothing-taken")
        assert int(answer.headers["retry-after"]) > 0
        wrong = http.post("/v1/events", json={"events": [{"src": "a", "dst": "b", "time": NOW * 1e3}]})
        assert wrong.status_code == 422
        assert "milliseconds" in wrong.json()["detail"]


@pytest.mark.parametrize("rows", [100, 20_000])
def test_inspect_says_when_a_few_times_are_in_another_unit(tmp_path, rows):
    times = [int(NOW) + n for n in range(rows)] + [int(NOW) * 1000] * 2
    text = "".join(f"a{n % 50},b{n % 7},{time}\n" for n, time in enumerate(times))
    (tmp_path / "log.csv").write_text("src,dst,time\n" + text)
    outcome = tapgnn("inspect", tmp_path / "log.csv")
    assert outcome.code == 0, outcome.err
    said = " ".join((outcome.out + outcome.err).split())
    assert "2 of the times look like ms where the others are in s" in said
