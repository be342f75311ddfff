"""What an engine takes in: what is valid, once, under the policy of its journal; and what it forgets."""

import numpy as np
import pytest

from tapgnn import Events
from tapgnn.errors import AnswerGoneError, ConfigError, EventError, LateEventError, StateError
from tapgnn.online import Engine, Request

from ..live import KNOWN, saved_model

BAD = {
    "time nan": ((0, 1, float("nan")), "row 0"),
    "time infinite": ([(0, 1, 1e9), (0, 1, float("inf"))], "row 1"),
    "time huge": ((0, 1, 1e300, [0.0, 0.0]), "below 2\\^53"),
    "time far": ((0, 1, -9e15, [0.0, 0.0]), "out of all proportion"),
    "time text": ((0, 1, "soon"), "time 'soon'"),
    "time digits": ((0, 1, "1000000009"), "time '1000000009'"),
    "time too large": ((0, 1, 10**400), "row"),
    "no time": ({"src": 0, "dst": 1}, "'time' is missing"),
    "unknown column": (
        {"src": 0, "dst": 1, "time": 1e9, "amount": 3},
        "'amount' is unknown; the fields of an event are src, dst, time, f0, f1",
    ),
    "ragged columns": ({"src": [0, 1], "dst": [1], "time": [1e9, 1e9]}, "dst has 1 values"),
    "no time in a row": ([{"src": 0, "dst": 1, "time": 1e9}, {"src": 0, "dst": 1}], "row 1: 'time' is missing"),
    "no source in a row": ([(0, 1, 1e9), (None, 1, 1e9)], "row 1: 'src' is missing"),
    "a field twice": ({"src": 0, "dst": 1, "time": 1e9 + 1, "features": [1.0, 2.0], "f1": 1.0}, "same field"),
    "wide features": ((0, 1, 1e9, [1.0, 2.0, 3.0]), "expects 2 features"),
    "feature infinite": ([(0, 1, 1e9, [0.0, 0.0]), (0, 1, 1e9, [0.0, float("inf")])], "row 1: f1 inf is too large"),
    "feature huge": ((0, 1, 1e9, [0.0, 1e101]), "row 0: f1 1e\\+101 is too large"),
    "feature too large": ((0, 1, 1e9, [0.0, 10**400]), "row 0: f1"),
    "feature text": ((0, 1, 1e9, [0.0, "1"]), "row 0: f1 '1' is not a number"),
    "feature truth value": ((0, 1, 1e9, [0.0, True]), "row 0: f1 True is not a number"),
    "id float": ((0.5, 1, 1e9, [0.0, 0.0]), "neither a string nor an integer"),
    "id bool": ((True, 1, 1e9, [0.0, 0.0]), "neither a string nor an integer"),
    "id long": (("x" * 10_000_000, 1, 1e9, [0.0, 0.0]), "longer than"),
    "id surrogate": (("\ud800", 1, 1e9, [0.0, 0.0]), "not valid Unicode"),
    "id digits": ((10**5000, 1, 1e9, [0.0, 0.0]), "512 bits"),
    "label half": ((0, 1, 1e9, [0.0, 0.0], 0.5), "label"),
    "nothing": ([], "no events"),
    "late": ([(0, 1, 1e9 + 9, [0.0, 0.0]), (0, 1, 1e9 - 5, [0.0, 0.0])], "event 1 .* is not newer"),
    "beyond the horizon": ((0, 1, 1e9 + 5000, [0.0, 0.0]), "horizon"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_batch_that_is_not_valid_is_refused_whole_and_nothing_changes(case, quick_path):
    bad, message = BAD[case]
    with Engine.open(saved_model("adaptive", 2), quick_path / "s.db", hold_back=False, horizon=1000.0) as engine:
        engine.observe([(0, 1, 1e9, [0.0, 1.0])])
        before, digest = engine.status(), engine.state_digest()
        with pytest.raises(EventError, match=message):
            engine.observe(bad, "p", 1, ("topic", 0, 1))
        assert engine.state_digest() == digest
        assert engine.status() == {**before, "refused": 1}
        assert engine.offsets() == {}
        good = [(0, 1, 1e9 + 1, [0.0, 1.0])]
        assert engine.observe(good, "p", 1).accepted == 1


def test_one_event_or_many_in_any_form_mean_the_same(quick_path):
    forms = [
        [(0, "x", 1e9, None, 1), (2, 1, 1e9 + 2, None, 0)],
        [{"src": 0, "dst": "x", "time": 1e9, "label": 1}, {"src": 2, "dst": 1, "time": 1e9 + 2, "label": 0}],
        {"src": [0, 2], "dst": ["x", 1], "time": [1e9, 1e9 + 2], "label": [1, 0]},
        Events.from_arrays([0, 2], ["x", 1], [1e9, 1e9 + 2], labels=[1, 0]),
    ]
    digests = set()
    for number, form in enumerate(forms):
        with Engine.open(saved_model(), quick_path / f"{number}.db") as engine:
            engine.observe({"src": 0, "dst": 1, "time": 1e9 - 1})
            assert engine.observe(form).accepted == 2
            digests.add(engine.state_digest())
            ((_, batch),) = engine.records(2)
            assert batch.labels.tolist() == [1, 0]
    assert len(digests) == 1


def test_a_batch_is_taken_once_and_its_sequence_stands_for_its_content(quick_path):
    with Engine.open(saved_model(), quick_path / "s.db") as engine:
        sent = {"src": [0], "dst": [1], "time": [1e9]}
        first = engine.observe(sent, "p", 5)
        again = engine.observe(sent, "p", 5)
        assert again.duplicate
        assert (again.position, again.accepted) == (first.position, 0)
        with pytest.raises(AnswerGoneError, match="taken in before, at position 1, and counts once"):
            engine.score_then_observe(sent, "p", 5)
        # An earlier number that was not seen yet is not a duplicate.
        assert not engine.observe((1, 2, 1e9 + 1), "p", 3).duplicate
        assert not engine.observe((1, 2, 1e9 + 1), "q", 5).duplicate
        with pytest.raises(EventError, match="came before with other events, at position 1"):
            engine.observe((0, 2, 1e9 + 2), "p", 5)
        assert engine.status()["duplicates"] == 2
    with Engine.open(saved_model(), quick_path / "s.db") as engine:
        assert engine.observe(sent, "p", 5).duplicate
        with pytest.raises(ConfigError, match="belong together"):
            engine.observe(sent, "p")


def test_several_batches_in_one_commit_are_as_good_as_one_after_the_other(quick_path):
    requests = [
        Request((0, 1, 1e9), "p", 1, score=True),
        Request((0, 1, 1e9 + 3), "p", 2, (("t", 0, 4),)),
        Request((0, 1, 1e9), "q", 1),  # late by now
        Request((0, 1, 1e9 + 3), "p", 2),  # a repetition
        Request((3, 1, 1e9 + 4), "q", 2, (("t", 0, 5),), score=True),
    ]
    with (
        Engine.open(saved_model(), quick_path / "many.db") as many,
        Engine.open(saved_model(), quick_path / "one.db") as one,
    ):
        many.observe_many(requests)
        for request in requests:
            arguments = (request.events, request.producer, request.sequence, *request.reached)
            if request.answer.exception() is not None:
                with pytest.raises(LateEventError):
                    one.observe(*arguments)
            elif request.score:
                scores, receipt = one.score_then_observe(*arguments)
                outcome = request.answer.result()
                assert np.array_equal(scores, outcome.scores)
                assert outcome.probabilities is outcome.scores
                assert receipt == request.answer.result().receipt
            else:
                assert one.observe(*arguments) == request.answer.result().receipt
        assert [request.answer.exception() is None for request in requests] == [True, True, False, True, True]
        assert many.state_digest() == one.state_digest()
        assert many.offsets() == one.offsets() == {("t", 0): 5}


def test_each_sender_is_told_when_its_own_batch_is_safe_and_applied_and_not_when_others_are(quick_path):
    with Engine.open(saved_model(), quick_path / "s.db") as engine:
        heard = []

        def told(answer):
            # All of them were committed together; this one is applied, those after it are not yet.
            status = engine.status()
            heard.append((answer.exception() is None, status["position"], status["applied"]))

        times = (1e9, 1e9 + 1, 1e9 - 5, 1e9 + 2)
        requests = [Request((0, 1, time), "source", number) for number, time in enumerate(times)]
        requests.append(Request((0, 1, times[0]), "source", 0))
        for request in requests:
            request.answer.add_done_callback(told)
        engine.observe_many(requests)
        assert heard == [(False, 0, 0), (True, 3, 1), (True, 3, 2), (True, 3, 3), (True, 3, 3)]
        assert [request.answer.exception() is None for request in requests] == [True, True, False, True, True]
        assert requests[-1].answer.result().receipt.duplicate


def test_a_request_is_taken_in_once_and_a_cancelled_one_not_at_all(quick_path):
    with Engine.open(saved_model(), quick_path / "s.db") as engine:
        done, cancelled = Request((0, 1, 1e9)), Request((0, 1, 1e9 + 1))
        cancelled.answer.cancel()
        engine.observe_many([done, cancelled])
        for again in ([done], [Request((0, 1, 1e9 + 2))] * 2):
            with pytest.raises(ConfigError, match="only once"):
                engine.observe_many(again)
        assert engine.status()["accepted"] == 1
        assert engine.observe((0, 1, 1e9 + 3)).accepted == 1


def test_an_engine_that_was_stopped_between_batches_of_one_commit_loses_none_of_them(quick_path):
    def told(answer):
        raise KeyboardInterrupt

    with Engine.open(saved_model(), quick_path / "s.db") as engine:
        requests = [Request((0, 1, 1e9 + number), "source", number) for number in range(3)]
        requests[0].answer.add_done_callback(told)
        with pytest.raises(KeyboardInterrupt):
            engine.observe_many(requests)
        with pytest.raises(StateError, match="call recover"):
            engine.observe((0, 1, 1e9 + 9))
    with (
        Engine.open(saved_model(), quick_path / "s.db") as again,
        Engine.open(saved_model(), quick_path / "t.db") as one,
    ):
        for request in requests:
            one.observe(request.events, request.producer, request.sequence)
        assert again.state_digest() == one.state_digest()


def test_late_events_are_merged_into_the_present_where_the_policy_says_so(quick_path):
    with Engine.open(saved_model("mean"), quick_path / "s.db", late="merge", hold_back=False) as engine:
        engine.observe((0, 1, 1e9 + 5))
        scores, receipt = engine.score_then_observe([(0, 2, 1e9), (0, 1, 1e9 + 6)])
        assert (receipt.accepted, receipt.late, receipt.clock) == (2, 1, 1e9 + 6)
        assert np.isfinite(scores).all()
        assert engine.status()["late"] == 1
    with pytest.raises(ConfigError, match="lateness above 0"):
        Engine.open(saved_model("mean"), quick_path / "t.db", late="buffer")


def test_the_policy_is_the_journals_and_changes_only_on_request(quick_path):
    place = quick_path / "s.db"
    with Engine.open(saved_model(), place, late="buffer", lateness=5.0) as engine:
        engine.observe([(0, 1, 1e9 + 9), (1, 2, 1e9 + 5)])
        assert engine.status()["held"] == 2
    with Engine.open(saved_model(), place) as engine:
        assert engine.status()["policy"]["lateness"] == 5.0
    with Engine.open(saved_model(), place, lateness=1.0) as engine:
        assert engine.status()["position"] == 2
        engine.observe((1, 2, 1e9 + 10))
        assert engine.status()["held"] == 2
        digest = engine.state_digest()
    with Engine.open(saved_model(), place) as engine:
        assert engine.state_digest() == digest
        assert engine.status()["policy"]["lateness"] == 1.0


def test_a_node_silent_for_longer_than_the_ttl_is_forgotten_and_its_row_is_used_again(quick_path):
    with Engine.open(saved_model(), quick_path / "s.db", ttl=10.0, hold_back=False, checkpoint_every=7) as engine:
        for step in range(300):
            engine.observe([(f"n{step}", 0, 1e9 + step), (0, f"n{step}", 1e9 + step + 0.5)])
        fresh = engine.embed(["nobody"])
        np.testing.assert_array_equal(engine.embed(["n5"]), fresh)
        assert not np.array_equal(engine.embed(["n299"]), fresh)
        with engine.live() as live:
            assert live.where.size < 40
        digest = engine.state_digest()
        # A forgotten node that comes back starts from nothing, like a new one.
        scores, _ = engine.score_then_observe([("n5", 0, 1e9 + 400.0), ("never", 0, 1e9 + 400.0)])
        assert scores[0] == pytest.approx(scores[1])
        expected = engine.state_digest()
    with Engine.open(saved_model(), quick_path / "s.db") as engine:
        assert engine.state_digest() == expected != digest


def test_a_node_of_the_model_that_falls_silent_is_forgotten_but_keeps_its_row(quick_path):
    with Engine.open(saved_model(), quick_path / "s.db", ttl=5.0) as engine:
        untouched = engine.embed([1], 1e9 + 99)
        engine.observe([(1, 2, 1e9), *((0, 7, 1e9 + step) for step in range(1, 20))])
        np.testing.assert_array_equal(engine.embed([1], 1e9 + 99), untouched)
        with engine.live() as live:
            assert live.model.vocabulary.rows(KNOWN).tolist() == [0, 1, 2]
