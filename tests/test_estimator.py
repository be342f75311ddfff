"""TAPGNN: the object that users hold."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, ParameterGrid

from tapgnn import TAPGNN, Events
from tapgnn.data.simulator import simulate
from tapgnn.errors import ConfigError, LateEventError, ModelFileError, QueryError


@pytest.fixture(scope="module")
def log():
    return simulate(events=2_500, accounts=120, merchants=30, days=20, seed=3)


@pytest.fixture(scope="module")
def fitted(log):
    return TAPGNN(width=16, epochs=1, chunk=256).fit(log.slice(0, border(log, 2_000)))


def border(log, near):
    return near + int(np.flatnonzero(np.diff(log.time[near - 1 :]))[0])


def test_scores_are_probabilities_and_ranks_follow_them(log, fitted):
    names, later = log.vocabulary.ids, float(log.time[-1]) + 1
    chances = fitted.score([names[0]] * 3, [names[1], names[5], "nobody"], [later] * 3)
    assert ((chances >= 0) & (chances <= 1)).all()
    best = fitted.rank(names[0], later, k=5)
    assert len(best) == 5
    assert [chance for _, chance in best] == sorted((chance for _, chance in best), reverse=True)
    again = fitted.score([names[0]] * 5, [name for name, _ in best], later)
    np.testing.assert_allclose(again, [chance for _, chance in best], rtol=1e-5)
    among = [name for name, _ in best[:2]]
    assert [name for name, _ in fitted.rank(names[0], later, k=9, among=among)] == among
    with pytest.raises(QueryError, match="'nobody'"):
        fitted.rank(names[0], later, among=["nobody"])


def test_embeddings_are_answered_at_any_time(log, fitted):
    names, clock = log.vocabulary.ids, fitted.state_.clock
    now = fitted.embed(names[:4], [clock + 1] * 4)
    past = fitted.embed(names[:4], [log.time[300]] * 4)
    assert now.shape == past.shape == (4, 16)
    assert not np.allclose(now, past)
    mixed = fitted.embed(names[:4], [log.time[300], log.time[300], clock + 1, clock + 1])
    np.testing.assert_allclose(mixed[:2], past[:2], atol=1e-5)
    np.testing.assert_allclose(mixed[2:], now[2:], atol=1e-5)


def test_observing_moves_the_present_on(log):
    first = border(log, 2_000)
    model = TAPGNN(width=16, epochs=1, chunk=256).fit(log.slice(0, first))
    whole = TAPGNN(width=16, epochs=1, chunk=256).fit(log.slice(0, first))
    second = border(log, 2_200)
    whole.observe(log.slice(first, len(log)))
    model.observe(log.slice(first, second)).observe(log.slice(second, len(log)))
    names, later = log.vocabulary.ids, float(log.time[-1]) + 5
    pair = (names[:8], names[8:16], later)
    np.testing.assert_allclose(model.score(*pair), whole.score(*pair), rtol=1e-4, atol=1e-6)
    with pytest.raises(LateEventError):
        model.observe(log.slice(0, 0).append(log.slice(first, second)))


def test_later_events_need_no_labels_and_the_past_can_be_asked_for_after_many_small_pieces(log):
    first, second = border(log, 2_000), border(log, 2_100)
    whole, pieces = (TAPGNN(width=16, epochs=1, chunk=256).fit(log.slice(0, first)) for _ in range(2))
    later = replace(log.slice(first, second), labels=None)
    whole.observe(later)
    for piece in later.chunks(1):
        pieces.observe(piece)
    asked = (log.vocabulary.ids[:6], [log.time[300], log.time[first], *log.time[first + 50 : first + 54]])
    np.testing.assert_allclose(pieces.embed(*asked), whole.embed(*asked), rtol=1e-4, atol=1e-5)


def test_a_model_is_marked_on_later_events_beside_the_trivial_methods(log, fitted):
    later = log.slice(border(log, 2_000), len(log))
    clock = fitted.state_.clock
    marks = fitted.evaluate(later)
    assert list(marks) == ["tapgnn", "recency", "recency-destination", "popularity", "edgebank", "edgebank-window"]
    assert all({"auc", "ap", "mrr", "hits10", "historical_auc"} <= set(row) for row in marks.values())
    assert marks["tapgnn"]["auc"] > 0.6
    assert fitted.evaluate(later) == marks
    assert fitted.state_.clock == clock
    with pytest.raises(LateEventError):
        fitted.evaluate(log)


def test_a_saved_model_answers_like_the_one_in_memory(log, fitted, tmp_path):
    fitted.save(tmp_path)
    again = TAPGNN.load(tmp_path)
    assert again.get_params() == fitted.get_params()
    names, later = log.vocabulary.ids, float(log.time[-1]) + 1
    np.testing.assert_array_equal(
        again.score(names[:5], names[5:10], later), fitted.score(names[:5], names[5:10], later)
    )
    assert again.rank(names[0], later, 3) == fitted.rank(names[0], later, 3)
    with pytest.raises(QueryError, match="log was not saved"):
        again.embed(names[:1], [log.time[10]])
    with pytest.raises(QueryError, match="was not saved"):
        again.evaluate(log)
    (tmp_path / "state.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"state\.safetensors is missing"):
        TAPGNN.load(tmp_path)


def test_parameters_can_be_read_set_and_searched_over():
    model = TAPGNN(width=32, options={"rates": 1})
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(width=8, epochs=1).config().width == 8
    assert model.config().rates == 1
    assert {m.config().kernel for m in (TAPGNN(**p) for p in ParameterGrid({"kernel": ["gcn", "mean"]}))} == {
        "gcn",
        "mean",
    }
    with pytest.raises(ConfigError, match="unknown option"):
        TAPGNN(options={"depth": 2}).config()
    with pytest.raises(ConfigError, match="no parameter 'depth'; its parameters are preset, kernel"):
        model.set_params(depth=2)
    assert repr(model) == "TAPGNN(width=8, options={'rates': 1}, epochs=1)"


class Rows(Events):
    """Events that scikit-learn can cut by row numbers."""

    @property
    def shape(self):
        return (len(self),)

    def __getitem__(self, rows):
        return self.take(rows[0])


def test_scikit_learn_searches_a_grid(log):
    rows = Rows(log.src, log.dst, log.time, log.features, log.labels, log.vocabulary)
    first = border(log, 2_000)
    search = GridSearchCV(
        TAPGNN(epochs=1, chunk=256),
        {"width": [8, 16]},
        scoring=lambda model, later, _=None: model.evaluate(later)["tapgnn"]["auc"],
        cv=[(np.arange(first), np.arange(first, len(log)))],
        error_score="raise",
        refit=False,
    ).fit(rows)
    assert search.best_params_["width"] in (8, 16)
    assert 0.5 < search.best_score_ < 1


@pytest.mark.parametrize("kernel", ["gcn", "mean", "pool", "attention"])
def test_the_paper_preset_trains(kernel):
    rng = np.random.default_rng(0)
    log = Events.from_arrays(*rng.integers(0, 20, (2, 400)), np.arange(400.0))
    model = TAPGNN("paper", kernel=kernel, width=8, options={"time_width": 4}, epochs=1).fit(log)
    assert np.isfinite(model.history_.best_auc)


def test_a_log_too_short_to_split_is_refused():
    with pytest.raises(ValueError, match="3 distinct times"):
        TAPGNN().fit(Events.from_arrays([1, 2], [2, 3], [1, 1]))
