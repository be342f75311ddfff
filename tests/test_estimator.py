"""TAPGNN: the object that users hold."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, ParameterGrid, TimeSeriesSplit
from sklearn.pipeline import Pipeline

from tapgnn import TAPGNN, Events
from tapgnn.baselines import TRIVIAL
from tapgnn.data import frame_events, frame_schema
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.errors import ConfigError, EventError, LateEventError, ModelFileError, QueryError, StateError
from tapgnn.model import PRESETS


@pytest.fixture(scope="module")
def log():
    return simulate(events=2_500, accounts=120, merchants=30, days=20, seed=3)


@pytest.fixture(scope="module")
def fitted(log):
    return TAPGNN(width=16, epochs=1, chunk=256).fit(log.slice(0, border(log, 2_000)))


def border(log, near):
    return near + int(np.flatnonzero(np.diff(log.time[near - 1 :]))[0])


def test_scores_lie_between_0_and_1_and_ranks_follow_them(log, fitted):
    names, later = log.vocabulary.ids, float(log.time[-1]) + 1
    chances = fitted.score([names[0]] * 3, [names[1], names[5], "nobody"], [later] * 3)
    assert ((chances >= 0) & (chances <= 1)).all()
    best = fitted.rank(names[0], later, k=5)
    assert len(best) == 5
    assert [value for _, value in best] == sorted((value for _, value in best), reverse=True)
    again = fitted.score([names[0]] * 5, [name for name, _ in best], later)
    np.testing.assert_allclose(again, [value for _, value in best], rtol=1e-4)
    two = fitted.rank(names[0], later, k=9, among=[name for name, _ in best[:2]])
    assert {name for name, _ in two} == {name for name, _ in best[:2]}
    assert two[0][1] >= two[1][1]
    with pytest.raises(QueryError, match="'nobody'"):
        fitted.rank(names[0], later, among=["nobody"])


def test_embeddings_are_answered_at_any_time(log, fitted):
    names, clock = log.vocabulary.ids, fitted.state_.clock
    now = fitted.embed(names[:4], [clock + 1] * 4)
    past = fitted.embed(names[:4], [log.time[300]] * 4)
    assert now.shape == past.shape == (4, 16)
    assert not np.allclose(now, past)
    mixed = fitted.embed(names[:4], [log.time[300], log.time[300], clock + 1, clock + 1])
    np.testing.assert_allclose(mixed[:2], past[:2], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mixed[2:], now[2:], rtol=1e-4, atol=1e-5)


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


def test_a_model_is_evaluated_on_later_events_beside_the_trivial_methods(log, fitted):
    later = log.slice(border(log, 2_000), len(log))
    clock = fitted.state_.clock
    found = fitted.evaluate(later)
    assert list(found) == ["tapgnn", *TRIVIAL]
    assert all({"auc", "ap", "mrr", "hits10", "historical_auc"} <= set(row) for row in found.values())
    assert found["tapgnn"]["auc"] > 0.6
    assert fitted.evaluate(later) == found
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
    with pytest.raises(QueryError, match="has no log"):
        again.embed(names[:1], [log.time[10]])
    with pytest.raises(QueryError, match="log, from which negatives are drawn, was not saved"):
        again.evaluate(replace(log, vocabulary=again.vocabulary))
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


def auc_of(model, later, _=None):
    return model.evaluate(later)["tapgnn"]["auc"]


def test_scikit_learn_searches_a_grid_along_time():
    log = simulate(events=1_500, accounts=100, merchants=25, days=20, seed=3)
    log = Events(log.src, log.dst, np.arange(len(log), dtype=float), None, None, log.vocabulary)
    search = GridSearchCV(
        TAPGNN(epochs=1, chunk=256),
        {"width": [8, 16]},
        scoring=auc_of,
        cv=TimeSeriesSplit(n_splits=2),
        error_score="raise",
    ).fit(log)
    assert search.best_params_["width"] in (8, 16)
    assert 0.5 < search.best_score_ < 1
    assert search.best_estimator_.state_.clock == log.time[-1]


def test_a_chosen_grid_of_numpy_numbers_can_be_saved(log, tmp_path):
    model = TAPGNN(width=np.int64(8), epochs=1).fit(log.slice(0, border(log, 500)))
    model.save(tmp_path)
    assert TAPGNN.load(tmp_path).width == 8


def test_a_preset_decides_how_it_is_trained_where_nothing_else_is_said():
    shown = {name: TAPGNN(name).resolved() for name in PRESETS}
    epochs = {name: shown[name]["training"]["epochs"] for name in PRESETS}
    assert epochs["adaptive"] < epochs["paper"] == epochs["published"]
    assert shown["paper"]["model"]["width"] == 128
    chosen = TAPGNN("paper", epochs=8, options={"time_width": 4})
    assert (chosen.settings().epochs, chosen.settings().vector_rate) == (8, shown["paper"]["training"]["vector_rate"])
    found = chosen.resolved()
    assert found["model"]["time_width"] == 4
    assert None not in [*found["model"].values(), *found["training"].values()]
    # Every one of them can be given back.
    again = TAPGNN(found["preset"], options=found["model"], **found["training"])
    assert again.resolved() == found
    with pytest.raises(ConfigError, match="preset 'best' is not one of"):
        TAPGNN("best").resolved()


@pytest.mark.parametrize("kernel", ["gcn", "mean", "pool", "attention"])
def test_the_paper_preset_trains(kernel):
    rng = np.random.default_rng(0)
    log = Events.from_arrays(*rng.integers(0, 20, (2, 400)), np.arange(400.0))
    model = TAPGNN("paper", kernel=kernel, width=8, options={"time_width": 4}, epochs=1).fit(log)
    assert np.isfinite(model.history_.best)


def test_a_log_too_short_to_split_is_refused():
    with pytest.raises(ValueError, match="3 distinct times"):
        TAPGNN().fit(Events.from_arrays([1, 2], [2, 3], [1, 1]))


def test_questions_that_do_not_fit_together_are_refused(log, fitted):
    names, later = log.vocabulary.ids, float(log.time[-1]) + 1
    with pytest.raises(QueryError, match="as many destinations as sources, not 2 and 3"):
        fitted.score(names[:3], names[3:5], later)
    for times in ([later] * 2, [later] * 4, []):
        with pytest.raises(QueryError, match=f"expected one time, or 3 times, one per query, not {len(times)}"):
            fitted.score(names[:3], names[3:6], times)
        with pytest.raises(QueryError, match="expected one time, or 3 times"):
            fitted.embed(names[:3], times)
    for times in (np.nan, [later, np.inf, later], [later, later, np.nan]):
        with pytest.raises(QueryError, match="is not finite"):
            fitted.score(names[:3], names[3:6], times)
        with pytest.raises(QueryError, match="is not finite"):
            fitted.embed(names[:3], times)
    with pytest.raises(QueryError, match="is not finite"):
        fitted.rank(names[0], np.nan)
    with pytest.raises(QueryError, match="expected numbers or datetimes"):
        fitted.score(names[:1], names[1:2], "2024-05-01")
    with pytest.raises(QueryError, match="shape"):
        fitted.embed(names[:4], np.full((2, 2), later))
    with pytest.raises(QueryError, match=r"neither a string nor an integer"):
        fitted.embed([1.5], later)
    with pytest.raises(QueryError, match="of shape"):
        fitted.embed(np.zeros((2, 2), dtype=int), later)
    for k in (0, -3, 2.5, True):
        with pytest.raises(QueryError, match="k must be a whole number of at least 1"):
            fitted.rank(names[0], later, k=k)
    with pytest.raises(QueryError, match="expected one time, or 2 times"):
        fitted.rank(names[:2], [later] * 3)
    with pytest.raises(QueryError, match="side is 'src' or 'dst', not 'left'"):
        fitted.embed(names[0], side="left")


def test_a_bare_id_is_one_id(log, fitted):
    names, later = log.vocabulary.ids, float(log.time[-1]) + 1
    np.testing.assert_array_equal(fitted.embed(names[0], later), fitted.embed([names[0]], [later]))
    np.testing.assert_array_equal(fitted.score(names[0], names[1], later), fitted.score([names[0]], [names[1]], later))
    assert fitted.embed(7, later).shape == (1, 16)
    assert len(fitted.rank(names[0], later, among=names[1])) == 1


MOMENT = datetime(2024, 6, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "moment",
    [
        MOMENT,
        MOMENT.replace(tzinfo=None),
        MOMENT.astimezone(timezone(timedelta(hours=5))),
        pd.Timestamp(MOMENT),
        *(np.datetime64("2024-06-01T12:30", unit) for unit in ("m", "s", "ms", "us", "ns")),
    ],
    ids=lambda moment: f"{type(moment).__name__}-{getattr(moment, 'dtype', getattr(moment, 'tzinfo', ''))}",
)
def test_a_moment_may_be_a_datetime(log, fitted, moment):
    names, seconds = log.vocabulary.ids, MOMENT.timestamp()
    np.testing.assert_array_equal(
        fitted.score(names[:2], names[2:4], moment), fitted.score(names[:2], names[2:4], seconds)
    )
    np.testing.assert_array_equal(fitted.embed(names[:2], [moment] * 2), fitted.embed(names[:2], seconds))
    assert fitted.rank(names[0], moment, 3) == fitted.rank(names[0], seconds, 3)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model, log: model.observe(log),
        lambda model, log: model.embed(["a"], 1.0),
        lambda model, log: model.score(["a"], ["b"], 1.0),
        lambda model, log: model.rank("a", 1.0),
        lambda model, log: model.evaluate(log),
        lambda model, log: model.fit_classifier(log),
        lambda model, log: model.classify(log),
        lambda model, log: model.remember(log),
        lambda model, log: model.save("nowhere"),
        lambda model, log: model.transform(log),
        lambda model, log: model.predict_proba(log),
        lambda model, log: model.vocabulary,
        lambda model, log: model.schema,
        lambda model, log: model.now,
    ],
)
def test_before_fit_every_question_says_what_to_call(log, ask):
    with pytest.raises(StateError, match=r"not fitted; call fit, or TAPGNN\.load"):
        ask(TAPGNN(), log)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("log.csv", "not str; read the file with"),
        (Path("log.csv"), "not PosixPath; read the file with"),
        (7, "not int"),
        ([1, 2, 3], "row 0: expected a dict of the columns of one event, not int"),
    ],
)
def test_what_is_no_table_of_events_is_refused(fitted, given, says):
    for take in (TAPGNN().fit, fitted.observe, fitted.evaluate, fitted.classify, fitted.transform):
        with pytest.raises(EventError, match=says):
            take(given)


def test_events_that_cannot_be_evaluated_on_are_refused(log, fitted):
    with pytest.raises(EventError, match="no events to evaluate on"):
        fitted.evaluate(log.slice(0, 0))
    foreign = Events.from_arrays(["x"], ["y"], [2e9])
    for take in (fitted.evaluate, fitted.observe):
        with pytest.raises(EventError, match=r"vocabulary=model\.vocabulary"):
            take(foreign)
    with pytest.raises(EventError, match="do not share the vocabulary of the model"):
        TAPGNN().fit(log, foreign)


@pytest.mark.parametrize(
    "params",
    [
        {"seed": -1},
        {"seed": 2**64},
        {"options": {"half_lives": "ab"}},
        {"options": {"sketch_half_lives": 5}},
        {"seed": 1.5},
        {"epochs": 1.5},
        {"chunk": "512"},
        {"width": 16.0},
        {"layers": True},
        {"negatives": 0},
        {"learning_rate": "fast"},
        {"dropout": "0.1"},
        {"clip": float("nan")},
        {"kernel": 3},
        {"options": {"bins": 2.5}},
        {"options": {"roles": 1}},
        {"options": ["rates"]},
    ],
    ids=str,
)
def test_a_parameter_of_a_wrong_kind_is_named(log, params):
    (name,) = params["options"] if isinstance(params.get("options"), dict) else params
    with pytest.raises(ConfigError, match=name):
        TAPGNN(**params).fit(log)


def test_a_model_is_not_saved_onto_a_file(fitted, tmp_path):
    (tmp_path / "model").write_text("")
    with pytest.raises(ModelFileError, match="is a file; pass the name of a folder"):
        fitted.save(tmp_path / "model")


def test_a_loaded_model_that_remembers_its_log_answers_about_the_past(log, tmp_path):
    first = border(log, 2_000)
    fitted = TAPGNN(width=16, epochs=1, chunk=256).fit(log.slice(0, first))
    fitted.save(tmp_path)
    again = TAPGNN.load(tmp_path)
    past, later = ([log.vocabulary.ids[row] for row in rows] for rows in (log.src[:first], log.dst[:first]))
    before, after = (
        {name: cells[part] for name, cells in log.columns.items()} for part in (slice(0, first), slice(first, None))
    )
    known = Events.from_arrays(past, later, log.time[:first], vocabulary=again.vocabulary, columns=before)
    for part in (known[:100], known[100:]):
        with pytest.raises(EventError, match=f"has observed {first:,} events up to"):
            again.remember(part)
    with pytest.raises(EventError, match="do not share the vocabulary of the model"):
        again.remember(log.slice(0, first))
    again.remember(known)
    asked = (log.vocabulary.ids[:5], log.time[300])
    np.testing.assert_allclose(again.embed(*asked), fitted.embed(*asked), rtol=1e-4, atol=1e-5)
    ends = ([log.vocabulary.ids[row] for row in rows[first:]] for rows in (log.src, log.dst))
    rest = Events.from_arrays(*ends, log.time[first:], vocabulary=again.vocabulary, columns=after)
    expected = fitted.evaluate(log.slice(first, len(log)))
    for method, marks in again.evaluate(rest).items():
        assert marks == pytest.approx(expected[method], abs=1e-3, nan_ok=True)


def test_a_fit_that_fails_leaves_the_estimator_as_it_was(log):
    fitted = TAPGNN(width=16, epochs=1, chunk=256).fit(log.slice(0, 800))
    asked = (log.vocabulary.ids[:4], log.vocabulary.ids[4:8], log.time[-1] + 1.0)
    before = fitted.score(*asked)
    with pytest.raises(ConfigError, match="training diverged"):
        fitted.set_params(learning_rate=np.inf).fit(log)
    np.testing.assert_array_equal(fitted.score(*asked), before)


def test_options_with_numbers_of_numpy_are_saved_and_loaded(log, tmp_path):
    options = {"bins": np.int64(4), "half_lives": [np.float64(0.5), 0.1], "sketch_half_lives": (np.float32(0.25),)}
    TAPGNN(width=16, epochs=1, chunk=256, options=options).fit(log.slice(0, 400)).save(tmp_path)
    assert TAPGNN.load(tmp_path).config().half_lives == (0.5, 0.1)


def payments(log, rows=slice(None)):
    """A log as the table of its payments, in an order that is not that of time."""
    ids = np.array(log.vocabulary.ids, dtype=object)
    cells = {"payer": ids[log.src], "payee": ids[log.dst], "timestamp": log.time, "is_fraud": log.labels}
    return pd.DataFrame({**cells, **log.columns}).iloc[rows].sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def tables(log):
    border_row = border(log, 2_000)
    return payments(log, slice(0, border_row)), payments(log, slice(border_row, None))


@pytest.fixture(scope="module")
def on_table(tables):
    model = TAPGNN(width=16, epochs=1, chunk=256).fit(tables[0])
    model.fit_classifier(tables[0])
    return model


def test_a_table_gives_what_its_events_give(tables, on_table):
    events, _ = frame_events(tables[0])
    again = TAPGNN(width=16, epochs=1, chunk=256).fit(events, schema=on_table.schema)
    names = events.vocabulary.ids[:6]
    np.testing.assert_allclose(on_table.embed(names), again.embed(names), rtol=1e-4, atol=1e-5)
    assert on_table.schema.columns == {
        "amount": "number",
        "currency": "category",
        "channel": "category",
        "country": "category",
    }


def test_answers_about_a_frame_are_a_frame_with_its_index(tables, on_table):
    later = tables[1]
    risk, both = on_table.classify(later), on_table.transform(later)
    assert (risk.name, list(both.columns)) == ("risk", list(on_table.get_feature_names_out()))
    assert list(both.columns)[:2] == ["payer_z0", "payer_z1"]
    pd.testing.assert_index_equal(risk.index, later.index)
    pd.testing.assert_index_equal(both.index, later.index)
    sorted_risk = on_table.classify(later.sort_values("timestamp", kind="stable"))
    pd.testing.assert_series_equal(risk.sort_index(), sorted_risk.sort_index(), rtol=1e-5)
    found = on_table.predict_proba(later)
    np.testing.assert_array_equal(found[:, 1], risk.to_numpy())
    np.testing.assert_allclose(found.sum(axis=1), 1)
    other = pl.from_pandas(later)
    assert isinstance(on_table.classify(other), pl.Series)
    np.testing.assert_array_equal(on_table.transform(other).to_numpy(), both.to_numpy())
    records = on_table.classify(other.to_dicts())
    np.testing.assert_allclose(records, risk.to_numpy(), rtol=1e-5)
    scores = on_table.score(later["payer"], later["payee"])
    pd.testing.assert_index_equal(scores.index, later.index)
    assert on_table.embed(other["payer"][:3]).columns[:2] == ["z0", "z1"]


def test_representations_of_past_and_future_events_are_those_just_before_them(log, tables, on_table):
    past, later = tables
    z = on_table.transform(past.iloc[:5]).to_numpy()
    for row, (_, event) in enumerate(past.iloc[:5].iterrows()):
        np.testing.assert_allclose(z[row, :16], on_table.embed(event.payer, event.timestamp)[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(z[row, 16:], on_table.embed(event.payee, event.timestamp)[0], rtol=1e-4, atol=1e-5)
    mixed = pd.concat([later, past.iloc[:5]])
    both = on_table.transform(mixed).to_numpy()
    np.testing.assert_allclose(both[-5:], z, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(both[:-5], on_table.transform(later).to_numpy())


def test_several_sources_are_ranked_in_the_order_asked_and_without_a_time_now(log, fitted):
    names, now = log.vocabulary.ids[:3], fitted.now
    assert now > fitted.state_.clock
    assert fitted.rank(names, k=2) == [fitted.rank(name, now, k=2) for name in names]
    np.testing.assert_array_equal(fitted.embed(names), fitted.embed(names, now))
    np.testing.assert_array_equal(fitted.score(names, names[::-1]), fitted.score(names, names[::-1], [now] * 3))


def test_a_moment_is_counted_in_the_unit_of_the_log():
    rng = np.random.default_rng(0)
    start = 1_704_067_200_000
    table = {"user_id": rng.integers(9, size=300), "page_id": rng.integers(9, size=300)}
    model = TAPGNN(width=8, epochs=1).fit({**table, "time": start + 1_000 * np.arange(300)})
    assert model.schema.time_unit == "ms"
    later = datetime(2024, 1, 2, tzinfo=UTC)
    np.testing.assert_array_equal(model.embed(3, later), model.embed(3, later.timestamp() * 1_000))


def test_ids_of_two_kinds_are_looked_up_on_their_own_side():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"user_id": rng.integers(9, size=400), "page_id": rng.integers(5, 14, size=400)})
    table["time"] = np.arange(400.0)
    schema, suggestions = frame_schema(table, bipartite=True)
    assert not suggestions
    model = TAPGNN(width=8, epochs=1).fit(table, schema=schema)
    assert len(model.vocabulary) == 18
    best = model.rank(7, k=20)
    assert {name for name, _ in best} == set(range(5, 14))
    np.testing.assert_allclose(model.score(7, best[0][0]), [best[0][1]], rtol=1e-5)
    assert [name for name, _ in model.rank(7, among=[6])] == [6]
    with pytest.raises(QueryError, match="7 is a user_id and also a page_id; pass side='src' or side='dst'"):
        model.embed(7)
    assert not np.allclose(model.embed(7, side="src"), model.embed(7, side="dst"))
    np.testing.assert_array_equal(model.embed(2), model.embed(2, side="src"))


def average_precision_of(model, later, labels):
    return average_precision_score(labels, model.predict_proba(later)[:, 1])


def test_scikit_learn_runs_it_in_a_pipeline_and_in_a_search_over_a_table(log):
    table = payments(log).sort_values("timestamp", kind="stable").reset_index(drop=True)
    # Steps that cut a table anywhere need times that differ.
    table["timestamp"] += np.arange(len(table)) * 1e-3
    labels = table.pop("is_fraud")
    past, later = table[:2_000], table[2_000:]
    chain = Pipeline([("gnn", TAPGNN(width=8, epochs=1)), ("trees", HistGradientBoostingClassifier(max_iter=5))])
    found = chain.fit(past, labels[:2_000]).predict_proba(later)
    assert found.shape == (500, 2)
    assert list(chain[:-1].get_feature_names_out())[:1] == ["payer_z0"]
    search = GridSearchCV(
        TAPGNN(epochs=1),
        {"width": [8, 16]},
        scoring=average_precision_of,
        cv=TimeSeriesSplit(n_splits=2, test_size=800),
        error_score="raise",
    ).fit(table, (table["channel"] == "online").astype(int))
    assert search.best_params_["width"] in (8, 16)
    assert search.best_estimator_.classifier_ is not None
    assert search.best_score_ > 0.5
