"""Questions to an engine: what they see, and that the answers are those of the fitted model."""

import numpy as np
import pytest

from tapgnn import TAPGNN, Events
from tapgnn.errors import QueryError, StateError
from tapgnn.online import Engine, Request

from ..live import saved_model


def test_a_question_sees_held_events_only_when_they_lie_before_it(quick_path):
    with Engine.open(saved_model(), quick_path / "s.db") as engine:
        engine.observe([(0, 1, 1e9), (1, 2, 1e9 + 1)])
        assert engine.status()["held"] == 1
        early = engine.score([1], [2], 1e9 + 1)
        held = engine.score([1], [2], 1e9 + 1.5)
        assert early != held
        engine.observe((0, 7, 1e9 + 2))
        np.testing.assert_allclose(engine.score([1], [2], 1e9 + 1.5), held, rtol=1e-12)
        with pytest.raises(QueryError, match="already absorbed"):
            engine.score([1], [2], 1e9 + 1)


def test_rank_is_the_order_of_the_scores(quick_path):
    rng = np.random.default_rng(0)
    with Engine.open(saved_model(), quick_path / "s.db") as engine:
        engine.observe({"src": rng.integers(0, 9, 60), "dst": rng.integers(0, 9, 60), "time": 1e9 + np.arange(60.0)})
        names = list(range(9))
        chance = engine.score([4] * 9, names)
        found = engine.rank(4, k=5)
        assert [name for name, _ in found] == [names[row] for row in np.argsort(-chance, kind="stable")[:5]]
        np.testing.assert_allclose([value for _, value in found], np.sort(chance)[::-1][:5], rtol=1e-10)
        assert {name for name, _ in engine.rank(4, k=99, candidates=[1, 2])} == {1, 2}
        with pytest.raises(QueryError, match="no node is called"):
            engine.rank(4, candidates=["nobody"])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A fitted estimator with a classifier, and later events of the same kind."""
    rng = np.random.default_rng(0)
    size = 900
    src, dst = rng.integers(0, 20, size), rng.integers(100, 120, size)
    log = Events.from_arrays(src, dst, np.arange(float(size)), labels=(src % 4 == 0).astype(int))
    model = TAPGNN(width=8, epochs=1, options={"sketch_width": 8}).fit(log)
    model.fit_classifier(log)
    folder = tmp_path_factory.mktemp("fitted")
    model.save(folder)
    later = [(int(src[n]), int(dst[n]), float(size + n)) for n in range(60)]
    return model, folder, later


def test_an_engine_starts_where_the_saved_estimator_stood(fitted, quick_path):
    model, folder, later = fitted
    with Engine.open(folder, quick_path / "s.db") as engine, Engine.open(model, quick_path / "t.db") as memory:
        assert engine.status()["events"] == 900
        for source, destination, time in later[:5]:
            expected = model.score([source], [destination], [time])
            np.testing.assert_allclose(engine.score([source], [destination], time), expected, rtol=1e-4)
        engine.observe(later)
        memory.observe(later)
        assert engine.state_digest() == memory.state_digest()
        # A bipartite log: only destinations are recommended, those that are new included.
        assert {name for name, _ in engine.rank(3, k=100)} == set(range(100, 120))
        engine.observe((3, "new", 2000.0))
        engine.flush()
        assert {name for name, _ in engine.rank(3, k=100)} == {*range(100, 120), "new"}
        with pytest.raises(StateError, match="history in the state that was saved"):
            engine.erase(3)


def test_risks_are_those_of_the_estimators_classifier(fitted, quick_path):
    model, folder, later = fitted
    log = Events.from_arrays(*zip(*later, strict=True), vocabulary=model.model_.vocabulary)
    expected = model.classify(log)
    with Engine.open(folder, quick_path / "s.db") as engine:
        np.testing.assert_allclose(engine.classify(later[:1]), expected[:1], rtol=1e-4, atol=1e-6)
        risks, _ = engine.classify_then_observe(later[:30])
        np.testing.assert_allclose(risks, expected[:30], rtol=1e-4, atol=1e-6)
        both = Request(later[30:], score=True, classify=True)
        engine.observe_many([both])
        np.testing.assert_allclose(both.answer.result().risks, expected[30:], rtol=1e-4, atol=1e-6)
        assert both.answer.result().scores.shape == (30,)
    with Engine.open(saved_model(), quick_path / "t.db") as engine, pytest.raises(QueryError, match="no classifier"):
        engine.classify_then_observe((0, 1, 1e9))
