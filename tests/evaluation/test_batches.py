"""Batches: the tests, negatives and averages of DyGLib, by its definitions over sets of pairs."""

from __future__ import annotations

import numpy as np
import pytest

from tapgnn.baselines import PairThenNode, Recency
from tapgnn.errors import ConfigError
from tapgnn.evaluation.batches import SIZE, TESTS, Batches, BatchNegatives, areas_by_batch
from tapgnn.evaluation.harness import evaluate
from tapgnn.evaluation.protocols import PROTOCOLS
from tapgnn.evaluation.questions import measure
from tapgnn.events import Events
from tests.evaluation.boards import integer_log, small_model

RULES = PROTOCOLS["dyglib"]
Pairs = set[tuple[int, int]]


def pairs_between(log: Events, start: float, stop: float) -> Pairs:
    """The pairs with an event in start <= time <= stop."""
    inside = (log.time >= start) & (log.time <= stop)
    return set(zip(log.src[inside].tolist(), log.dst[inside].tolist(), strict=True))


@pytest.mark.parametrize("kind", ["historical", "inductive"])
@pytest.mark.parametrize("size", [5, 40, 150])
@pytest.mark.parametrize("seed", range(3))
def test_negatives_are_pairs_of_the_past_that_the_batch_does_not_have(kind, size, seed) -> None:
    log = integer_log(seed, 600)
    split = PROTOCOLS["tgb"].split(log)
    observed = split.train.time[-1]
    negatives = BatchNegatives(log, observed, seed)
    everyone = {(u, v) for u in set(log.src.tolist()) for v in set(log.dst.tolist())}
    filled = 0
    for start in range(0, len(split.valid), size):
        batch = split.valid.take(slice(start, start + size))
        src, dst = negatives.draw(kind, batch)
        assert len(src) == len(dst) == len(batch)
        drawn = list(zip(src.tolist(), dst.tolist(), strict=True))
        allowed = pairs_between(log, log.time[0], batch.time[0]) - pairs_between(log, batch.time[0], batch.time[-1])
        if kind == "inductive":
            allowed -= pairs_between(log, log.time[0], observed)
        count = min(len(batch), len(allowed))
        # Random pairs come first, then those of the past, each of them once.
        assert len(set(drawn[len(batch) - count :])) == count
        assert set(drawn[len(batch) - count :]) <= allowed
        fill = set(drawn[: len(batch) - count])
        assert len(fill) == len(batch) - count
        assert fill <= everyone - set(zip(batch.src.tolist(), batch.dst.tolist(), strict=True))
        filled += len(fill)
    if kind == "inductive":
        assert filled
    elif size == 5:
        assert not filled


def test_every_allowed_pair_is_drawn_about_equally_often() -> None:
    log = integer_log(0, 600)
    split = PROTOCOLS["tgb"].split(log)
    batch = split.valid.take(slice(60, 64))
    allowed = pairs_between(log, log.time[0], batch.time[0]) - pairs_between(log, batch.time[0], batch.time[-1])
    negatives, counts = BatchNegatives(log, split.train.time[-1], 0), dict.fromkeys(allowed, 0)
    for _ in range(3_000):
        for pair in zip(*(ends.tolist() for ends in negatives.draw("historical", batch)), strict=True):
            counts[pair] += 1
    expected = 3_000 * 4 / len(allowed)
    assert np.abs(np.array(list(counts.values())) - expected).max() < 6 * np.sqrt(expected)


def test_random_negatives_keep_the_source_and_take_any_destination() -> None:
    log = integer_log(0)
    split = RULES.split(log)
    src, dst = BatchNegatives(log, 0.0, 0).draw("random", split.test)
    np.testing.assert_array_equal(src, split.test.src)
    assert set(dst.tolist()) <= set(log.dst.tolist())
    assert len(set(dst.tolist())) > 10


def test_the_tests_of_a_part_are_its_events_and_those_with_a_node_absent_from_training() -> None:
    split = RULES.split(integer_log(0, 900))
    batches = Batches(split, RULES, 0)
    for part, inductive in (("valid", split.valid_inductive), ("test", split.test_inductive)):
        found = batches.tests(part)
        assert [name for name, *_ in found] == [f"{group}_{kind}" for group, kind in TESTS]
        for name, rows, src, dst in found:
            whole = name.startswith("transductive")
            np.testing.assert_array_equal(rows, np.arange(len(inductive)) if whole else np.flatnonzero(inductive))
            assert len(src) == len(dst) == len(rows)
            if not whole:
                events = getattr(split, part).take(rows)
                assert set(src.tolist()) <= set(events.src.tolist())
                assert set(dst.tolist()) <= set(events.dst.tolist())
    again = Batches(split, RULES, 1).tests("test")
    for one, other in zip(batches.tests("test"), again, strict=True):
        for first, second in zip(one[1:], other[1:], strict=True):
            np.testing.assert_array_equal(first, second)


def test_the_areas_are_plain_means_over_batches_of_200() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    rng = np.random.default_rng(0)
    positive, negative = rng.integers(0, 9, 450) + 2.0, rng.integers(0, 9, 450) * 1.0
    ap, auc = [], []
    for start in range(0, 450, SIZE):
        ours, theirs = positive[start : start + SIZE], negative[start : start + SIZE]
        labels, scores = np.repeat([1, 0], len(ours)), np.concatenate([ours, theirs])
        ap.append(metrics.average_precision_score(labels, scores))
        auc.append(metrics.roc_auc_score(labels, scores))
    found = areas_by_batch(positive, negative)
    assert found == {"ap": pytest.approx(np.mean(ap)), "auc": pytest.approx(np.mean(auc))}


def test_the_metrics_are_those_of_the_scores_at_the_moment_of_each_event() -> None:
    split = RULES.split(integer_log(0, 900))
    batches = Batches(split, RULES, 0)
    found = measure(PairThenNode(), batches).metrics
    assert set(found) == {f"{p}{g}_{k}_{m}" for p in ("", "valid_") for g, k in TESTS for m in ("ap", "auc")}
    method = PairThenNode()
    method.fit(split.history, split.valid)
    method.observe(split.valid)
    name, rows, src, dst = batches.tests("test")[1]
    test = split.test
    time = np.concatenate([test.time[rows]] * 2)
    both = np.concatenate([test.src[rows], src]), np.concatenate([test.dst[rows], dst]), time
    scores = method.replay(test, *both)
    expected = areas_by_batch(scores[: len(rows)], scores[len(rows) :])
    assert {key: found[f"{name}_{key}"] for key in expected} == expected


def test_hidden_events_are_in_the_history_of_a_test_and_validation_may_stand_alone() -> None:
    split = RULES.split(integer_log(0, 900))
    assert len(split.train) < len(split.history)
    told: list[str | int] = []

    class Recorder(Recency):
        def forget(self):
            told.append("forget")
            super().forget()

        def observe(self, events):
            told.append(len(events))
            super().observe(events)

    found = measure(Recorder(), Batches(split, RULES, 0, test=False)).metrics
    assert told == ["forget", len(split.train), "forget", len(split.history)]
    assert all(name.startswith("valid_") for name in found)


def test_the_evaluation_of_a_model_has_the_five_tests_for_every_rule() -> None:
    found = evaluate(integer_log(0, 900), small_model(), "dyglib", seeds=1, lag=20).results
    for row in (found, *found["baselines"].values()):
        for group, kind in TESTS:
            assert 0 < row[f"{group}_{kind}_ap_mean"] <= 1
            assert 0 < row[f"valid_{group}_{kind}_auc_mean"] <= 1
    with pytest.raises(ConfigError, match="lag must be"):
        evaluate(integer_log(0), small_model(), "dyglib", seeds=1, lag=-1)
