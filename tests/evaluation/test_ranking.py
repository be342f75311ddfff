"""Ranking: the candidates, negatives and ranks of the Temporal Graph Benchmark."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tapgnn.baselines import EdgeBank, Method, PairThenNode, Recency
from tapgnn.data import load_dataset
from tapgnn.errors import ConfigError, QueryError
from tapgnn.evaluation.harness import evaluate
from tapgnn.evaluation.protocols import PROTOCOLS
from tapgnn.evaluation.questions import measure
from tapgnn.evaluation.ranking import Ranking, destination_range, same_source_and_time
from tapgnn.events import Events
from tests.evaluation.boards import integer_log, small_model

RULES = PROTOCOLS["tgb"]


class Noise(Method):
    """Scores with many ties, which are a fixed function of source, destination and time."""

    name, sees_history = "noise", False

    def fit(self, train, valid):
        pass

    def forget(self):
        pass

    def observe(self, events):
        pass

    def score(self, src, dst, time):
        return ((src * 31 + dst * 17 + time * 7) % 11).astype(float)


def brute_force(log: Events, part: Events) -> list[tuple[int, int, float, list[int]]]:
    """Source, destination, time and negatives of every event, by the definition, as ids."""
    ids = np.array(log.vocabulary.ids)
    src, dst = ids[part.src], ids[part.dst]
    pool = np.arange(ids[log.dst].min(), ids[log.dst].max() + 1)
    found = []
    for u, v, t in zip(src, dst, part.time, strict=True):
        same = {int(d) for s, d, when in zip(src, dst, part.time, strict=True) if s == u and when == t}
        found.append((int(u), int(v), float(t), [int(d) for d in pool if int(d) not in same]))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_metrics_are_those_of_the_benchmarks_own_evaluator(seed) -> None:
    tgb = pytest.importorskip("tgb.linkproppred.evaluate", reason="py-tgb is not installed")
    log = integer_log(seed)
    split = RULES.split(log)
    found = measure(Noise(), Ranking(split, RULES, 0)).metrics
    for part, prefix in ((split.valid, "valid_"), (split.test, "")):
        theirs, hits = [], []
        for u, v, t, negatives in brute_force(log, part):
            rows = log.vocabulary.rows(negatives)
            own, rest = (
                Noise().score(log.vocabulary.rows([u]), np.atleast_1d(x), np.array([t]))
                for x in (log.vocabulary.rows([v]), rows)
            )
            row = {"y_pred_pos": own, "y_pred_neg": rest[None, :], "eval_metric": ["mrr", "hits@"]}
            answer = tgb.Evaluator("tgbl-wiki").eval(row)
            theirs.append(answer["mrr"])
            hits.append(answer["hits@10"])
        # Theirs is rounded to float32.
        assert found[f"{prefix}mrr"] == pytest.approx(np.mean(theirs), abs=1e-6)
        assert found[f"{prefix}hits10"] == pytest.approx(np.mean(hits), abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_negatives_are_those_of_the_definition(seed) -> None:
    log = integer_log(seed)
    ranking = Ranking(RULES.split(log), RULES, 0)
    asked = []

    class Recorder(Noise):
        def replay_candidates(self, events, src, candidates, time):
            asked.append((src, candidates.copy(), time))
            return super().replay_candidates(events, src, candidates, time)

    measure(Recorder(), ranking)
    ids = np.array(log.vocabulary.ids)
    assert set(ids[ranking.pool]) == set(range(ids[log.dst].min(), ids[log.dst].max() + 1)) & set(ids)
    for part in (ranking.split.valid, ranking.split.test):
        place = np.searchsorted(ranking.pool, part.dst)
        negative = ranking._negatives(np.arange(len(part)), place, same_source_and_time(part))
        for row, (*_, expected) in enumerate(brute_force(log, part)):
            assert sorted(ids[ranking.pool[negative[row]]].tolist()) == expected
    assert sum(len(src) for src, _, _ in asked) == len(ranking.split.valid) + len(ranking.split.test)


def test_ids_that_are_no_integers_are_ranked_among_the_destinations() -> None:
    log = Events.from_arrays(list("aabbccdd") * 3, list("xyzxyzxy") * 3, np.arange(24.0))
    pool = destination_range(RULES.split(log))
    assert [log.vocabulary.ids[row] for row in pool] == ["x", "y", "z"]


def test_validation_alone_leaves_the_test_events_alone() -> None:
    log = integer_log(0)
    split = RULES.split(log)
    method = PairThenNode()
    found = measure(method, Ranking(split, RULES, 0, test=False))
    assert set(found.metrics) == {"valid_mrr", "valid_hits10"}
    assert found.metrics.items() <= measure(PairThenNode(), Ranking(split, RULES, 0)).metrics.items()
    assert found.times[-1] == split.valid.time[-1]
    assert method._clock.time == split.valid.time[-1]


def test_the_evaluation_of_a_model_has_both_parts_its_lag_and_every_rule(tmp_path) -> None:
    log = integer_log(0)
    found = evaluate(log, small_model(), "tgb", seeds=2, lag=5).results
    assert (found["protocol"], found["lag"], found["seeds"]) == ("tgb", 5, [0, 1])
    for row in (found, *found["baselines"].values()):
        for metric in ("mrr", "valid_mrr"):
            assert 0 < row[f"{metric}_mean"] <= 1
            assert row[f"{metric}_std"] >= 0
    fresh = evaluate(log, small_model(), "tgb", seeds=1).results["baselines"]["recency"]
    assert fresh["mrr_mean"] != found["baselines"]["recency"]["mrr_mean"]


def test_a_model_is_ranked_as_by_its_single_scores() -> None:
    from tapgnn.evaluation.harness import TAPGNNMethod

    split = RULES.split(integer_log(0))

    class Single(TAPGNNMethod):
        score_candidates, replay_candidates = Method.score_candidates, Method.replay_candidates

    params = small_model().get_params()
    for lag in (0, 7):
        one, other = (measure(kind(**params), Ranking(split, RULES, 0, lag)).metrics for kind in (TAPGNNMethod, Single))
        assert one == pytest.approx(other, abs=2e-3)


def test_questions_travel_to_another_process_and_wrong_requests_are_refused() -> None:
    split = RULES.split(integer_log(0))
    ranking = pickle.loads(pickle.dumps(Ranking(split, RULES, 0, 3)))
    assert measure(Recency(), ranking).metrics == measure(Recency(), Ranking(split, RULES, 0, 3)).metrics
    with pytest.raises(ConfigError, match="lag must be a number of events, 0 or more"):
        Ranking(split, RULES, 0, -1)
    with pytest.raises(ConfigError, match="leave out --no-test"):
        evaluate(integer_log(0), small_model(), "strict", seeds=1, test=False)

    class Lost(Noise):
        def score(self, src, dst, time):
            return np.full(len(src), np.nan)

    with pytest.raises(QueryError, match="NaN scores"):
        measure(Lost(), ranking)


@pytest.mark.usefixtures("data_folder")
def test_edgebank_with_the_lag_of_the_board_reaches_its_published_figures() -> None:
    split = RULES.split(load_dataset("tgbl-wiki"))
    found = measure(EdgeBank(), Ranking(split, RULES, 0, 200)).metrics
    assert found["valid_mrr"] == pytest.approx(0.527, abs=1e-3)
    assert found["mrr"] == pytest.approx(0.495, abs=1e-3)
