"""Cold start: unseen nodes, new nodes, a single event, one instant, self-loops: every method, TAP-GNN included, gives
scores or a reason why not."""

from __future__ import annotations

import numpy as np
import pytest

from tapgnn.baselines import TRIVIAL, WINDOWED
from tapgnn.errors import EventError, LateEventError, QueryError
from tapgnn.events import Events
from tests.baselines.samples import EVERY, busy_log, make, parts, queries

every_method = pytest.mark.parametrize("name", EVERY)
LEARNS_NOTHING = {*TRIVIAL} - {WINDOWED}


def assert_scores(name: str, train: Events, valid: Events) -> None:
    """After a fit, known nodes, unseen nodes and the row -1 all have a score that is a number."""
    method = make(name)
    method.fit(train, valid)
    nodes = np.array([-1, 0, len(train.vocabulary) - 1, len(train.vocabulary) + 70])
    src, dst = (grid.ravel() for grid in np.meshgrid(nodes, nodes))
    scores = method.score(src, dst, np.full(len(src), 1e3))
    assert scores.shape == src.shape
    assert not np.isnan(scores).any()
    if name not in LEARNS_NOTHING:
        assert np.isfinite(scores).all()


@every_method
def test_it_learns_from_a_single_event_without_validation(name: str) -> None:
    log = Events.from_arrays(["a"], ["b"], [1.0])
    assert_scores(name, log, log.take(slice(0, 0)))


@every_method
def test_it_learns_without_validation_events_and_from_very_few_of_them(name: str) -> None:
    train, valid, _ = parts(busy_log())
    assert_scores(name, train, valid.take(slice(0, 0)))
    assert_scores(name, train, valid.take(slice(0, 1)))


@every_method
def test_it_learns_from_a_single_instant(name: str) -> None:
    log = Events.from_arrays(["a", "b", "c", "d"], ["b", "c", "d", "a"], [5.0] * 4)
    later = Events.from_arrays(["a", "b"], ["b", "a"], [6.0, 6.0], vocabulary=log.vocabulary)
    assert_scores(name, log, later)


@every_method
def test_it_learns_from_self_loops_among_other_events(name: str) -> None:
    log = Events.from_arrays(["a", "b", "a", "b"], ["a", "b", "b", "b"], [1.0, 1.0, 2.0, 3.0])
    assert_scores(name, log, log.take(slice(0, 0)))


@every_method
def test_one_node_with_itself_is_scored_or_refused_with_the_reason(name: str) -> None:
    log = Events.from_arrays(["a", "a"], ["a", "a"], [1.0, 2.0])
    if name in LEARNS_NOTHING:
        assert_scores(name, log, log.take(slice(0, 0)))
        return
    with pytest.raises(EventError, match="needs a second node"):
        make(name).fit(log, log.take(slice(0, 0)))


@every_method
def test_an_empty_log_is_scored_or_refused_with_the_reason(name: str) -> None:
    log = Events.from_arrays(["a"], ["b"], [1.0])
    empty = log.take(slice(0, 0))
    if name in LEARNS_NOTHING:
        assert_scores(name, empty, log)
        return
    with pytest.raises(EventError, match="there are no training events"):
        make(name).fit(empty, log)


@every_method
def test_nodes_that_arrive_midstream_are_scored_before_and_after(name: str) -> None:
    train, valid, stream = parts(busy_log())
    method = make(name)
    method.fit(train, valid)
    method.observe(valid)
    names, unseen = stream.vocabulary, len(stream.vocabulary)
    asked = (np.array([unseen, 1, unseen]), np.array([0, unseen, unseen + 1]))
    before = method.score(*asked, np.full(3, 400.0))
    method.observe(stream)
    known = names.ids[0]
    news = Events.from_arrays(["new", known], [known, "new"], [500.0, 501.0], vocabulary=names)
    assert news.src[0] == unseen
    method.observe(news)
    after = method.score(*asked, np.full(3, 600.0))
    assert not np.isnan(np.concatenate([before, after])).any()


@every_method
def test_the_same_seed_gives_the_same_scores_and_a_second_fit_forgets_the_first(name: str) -> None:
    train, valid, stream = parts(busy_log())
    asked = queries(stream, len(train.vocabulary))
    fresh, used = make(name), make(name)
    used.fit(*parts(busy_log(60, 7, seed=5))[:2])
    for method in (fresh, used):
        method.fit(train, valid)
    np.testing.assert_array_equal(fresh.replay(stream, *asked), used.replay(stream, *asked))


@every_method
def test_a_query_about_the_past_and_a_late_event_are_refused(name: str) -> None:
    train, valid, stream = parts(busy_log())
    method = make(name)
    method.fit(train, valid)
    with pytest.raises(QueryError, match="use replay"):
        method.score(np.array([0]), np.array([1]), train.time[-1:])
    method.observe(stream)
    with pytest.raises(LateEventError, match="in order of time"):
        method.observe(valid)
