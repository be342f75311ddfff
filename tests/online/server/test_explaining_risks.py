"""Why an event is risky, over HTTP: as if it happened next, and as of the moment at which it arrived."""

import math

import numpy as np
import pytest

from tapgnn.errors import ServerError
from tapgnn.online import Engine
from tapgnn.online.explain.known_facts import DESTINATION, PAIR, SOURCE
from tests.online.payments import SCHEMA_OF_PAYMENTS, payments
from tests.online.server.running import running

AFTER = 1_000_002_000.0
PARTS = {SOURCE, DESTINATION, PAIR, *SCHEMA_OF_PAYMENTS.columns}


def assert_adds_up_to(found, risk):
    assert found.risk == pytest.approx(risk, rel=1e-4, abs=1e-7)
    assert found.base + sum(part.share for part in found.parts) == pytest.approx(found.logit, abs=1e-9)
    assert 1 / (1 + math.exp(-found.logit)) == pytest.approx(found.risk, rel=1e-5)
    assert {part.name for part in found.parts} == PARTS


def test_the_risk_of_an_event_as_if_it_happened_next_is_explained_and_nothing_is_absorbed(table_model, tmp_path):
    rows = payments(60, seed=5, start=AFTER)
    with running(table_model, tmp_path / "state.db") as server, server.client() as client:
        client.observe(rows[:50])
        before = server.engine.state_digest()
        event = {**rows[55], "amount": 12.5, "channel": None}
        found = client.explain_event(event, limit=5)
        assert_adds_up_to(found, client.classify([event])[0])
        assert (found.src, found.dst, found.time) == (event["card_id"], event["merchant_id"], event["timestamp"])
        values = {part.name: part.value for part in found.parts}
        assert (values["amount"], values["channel"]) == (12.5, None)
        assert 0 < len(found.causes) <= 5
        past = {(row["card_id"], row["merchant_id"], row["timestamp"]) for row in rows[:50]}
        assert {(cause.src, cause.dst, cause.time) for cause in found.causes} <= past
        met = any((row["card_id"], row["merchant_id"]) == (event["card_id"], event["merchant_id"]) for row in rows[:50])
        facts = {fact.name: fact.value for part in found.parts for fact in part.facts}
        assert facts.get("met before", float(met)) == float(met)
        assert server.engine.state_digest() == before
        with pytest.raises(ServerError, match="price"):
            client.explain_event({**event, "price": 1})


@pytest.mark.parametrize("hold_back", [True, False])
@pytest.mark.parametrize("size", [1, 25, 100])
def test_recent_risky_events_are_explained_as_of_their_arrival(table_model, tmp_path, size, hold_back):
    rows = payments(100, seed=6, start=AFTER)
    times = [AFTER + 7.0 * number for number in range(100)]
    rows = [{**row, "timestamp": time} for row, time in zip(rows, times, strict=True)]
    asked = {}
    with Engine.open(table_model, tmp_path / "alone.db", hold_back=hold_back) as engine:
        for number, row in enumerate(rows):
            asked[number] = engine.classify([row])[0]
            engine.observe([row])
    with running(table_model, tmp_path / "state.db", hold_back=hold_back) as server, server.client() as client:
        for start in range(0, 100, size):
            client.score_then_observe(rows[start : start + size])
        with server.http() as http:
            riskiest = http.get("/v1/live").json()["riskiest"]
        assert all(event["explained"] for event in riskiest)
        assert len({round(event["risk"], 6) for event in riskiest}) > 10
        for event in riskiest[:8]:
            number = times.index(event["time"])
            found = client.explain_arrival(event["position"], event["index"], limit=200)
            assert_adds_up_to(found, event["risk"])
            assert found.risk == pytest.approx(asked[number], rel=1e-4, abs=1e-6)
            # All past events of both nodes, none of those since.
            ends = rows[number]["card_id"], rows[number]["merchant_id"]
            mine = [row for row in rows[:number] if row["card_id"] == ends[0] or row["merchant_id"] == ends[1]]
            assert sorted(cause.time for cause in found.causes) == [row["timestamp"] for row in mine]


def test_an_explanation_at_arrival_is_that_of_the_same_event_just_before_it(table_model, tmp_path):
    rows = payments(80, seed=7, start=AFTER)
    rows = [{**row, "timestamp": AFTER + 3.0 * number} for number, row in enumerate(rows)]
    found = {}
    for size in (80, 1):
        with running(table_model, tmp_path / f"{size}.db") as server, server.client() as client:
            for start in range(0, 80, size):
                part = rows[start : start + size]
                if start == 79:
                    found["next"] = client.explain_event(part[0], limit=200)
                client.score_then_observe(part)
            with server.http() as http:
                live = http.get("/v1/live").json()
            last = next(event for event in live["newest"] + live["riskiest"] if event["time"] == rows[79]["timestamp"])
            if last["explained"]:
                found[size] = client.explain_arrival(last["position"], last["index"], limit=200)
    assert 1 in found
    for size in found.keys() - {"next"}:
        one, other = found["next"], found[size]
        assert one.logit == pytest.approx(other.logit, abs=1e-4)
        assert {part.name: part.share for part in one.parts} == pytest.approx(
            {part.name: part.share for part in other.parts}, abs=1e-3
        )
        effects = [{cause.time: cause.effect for cause in each.causes} for each in (one, other)]
        assert effects[0] == pytest.approx(effects[1], abs=1e-3)


def test_what_cannot_be_explained_is_refused_with_the_choice(table_model, tmp_path):
    rows = payments(30, seed=8, start=AFTER)
    with running(table_model, tmp_path / "state.db") as server, server.client() as client, server.http() as http:
        client.observe(rows)
        bodies = [{}, {"src": 1}, {"event": rows[0], "position": 1, "index": 0}, {"position": 1}, {"event": None}]
        bodies += [{"event": rows[0], "time": AFTER}, {"src": 1, "dst": 2, "event": rows[0]}]
        for body in bodies:
            answer = http.post("/v1/explain", json=body)
            assert answer.status_code == 422, body
            assert "event" in answer.json()["detail"]
        with pytest.raises(ServerError, match="riskiest recent events"):
            client.explain_arrival(7, 0)
        late = http.post("/v1/explain", json={"event": {**rows[0], "timestamp": AFTER - 10}})
        assert late.status_code == 422
        position = http.get("/v1/live").json()["riskiest"][0]["position"]
        client.retract(position, 0)
        with pytest.raises(ServerError, match="riskiest recent events"):
            client.explain_arrival(position, 0)


def test_removing_the_past_events_named_first_moves_the_risk_more_than_as_many_at_random(table_model, tmp_path):
    rows = payments(120, seed=9, start=AFTER)
    rows = [{**row, "timestamp": AFTER + 5.0 * number} for number, row in enumerate(rows)]
    past, rng, named, random = rows[:100], np.random.default_rng(0), [], []

    def logit(left_out, event, name):
        with Engine.open(table_model, tmp_path / f"{name}.db") as engine:
            engine.observe([row for row in past if row["timestamp"] not in left_out])
            risk = engine.classify([event])[0]
        return math.log(risk / (1 - risk))

    with running(table_model, tmp_path / "state.db") as server, server.client() as client:
        client.observe(past)
        found = [client.explain_event(event, limit=200) for event in rows[100:]]
    for number, (event, why) in enumerate(zip(rows[100:], found, strict=True)):
        times = [cause.time for cause in why.causes]
        if len(times) < 8:
            continue
        whole = logit((), event, f"whole-{number}")
        chosen = rng.choice(times, 2, replace=False).tolist()
        named.append(abs(whole - logit(times[:2], event, f"named-{number}")))
        random.append(abs(whole - logit(chosen, event, f"random-{number}")))
    assert len(named) >= 10
    assert np.mean(named) > 1.2 * np.mean(random)
