"""Files of negatives in the format of py-tgb: read as it reads them, and nothing else is ever built from them."""

import os
import pickle

import numpy as np
import pytest

from tapgnn.baselines import PairThenNode
from tapgnn.data.datasets.tgb_negatives import negatives_file, read_negatives, tgb_negatives
from tapgnn.data.splits import split_quantiles
from tapgnn.errors import ConfigError, DatasetError
from tapgnn.evaluation import evaluate
from tapgnn.evaluation.protocols import PROTOCOLS
from tapgnn.evaluation.questions import measure
from tapgnn.evaluation.ranking import Ranking, same_source_and_time
from tests.evaluation.boards import integer_log, small_model

SPLIT = split_quantiles(integer_log(0))
IDS = np.array(SPLIT.train.vocabulary.ids)
# Other destinations than those of the same source and time, as the benchmark draws them.
POOL = np.arange(30, 50)


def published(events, fewer=False):
    """What py-tgb keeps of a part: arrays by source, destination and time, numbers of numpy."""
    columns = IDS[events.src], IDS[events.dst], events.time.astype(np.int64)
    event, other = same_source_and_time(events)
    lists = {}
    for row, key in enumerate(zip(*columns, strict=True)):
        rest = np.setdiff1d(POOL, columns[1][other[event == row]])
        lists[key] = rest[: 3 + row % 4] if fewer else rest
    return lists


def write(lists, file):
    with open(file, "wb") as stream:
        pickle.dump(lists, stream, protocol=pickle.HIGHEST_PROTOCOL)


def test_events_are_ranked_among_the_negatives_of_the_file(tmp_path):
    rules, given = PROTOCOLS["tgb"], {}
    for part in ("valid", "test"):
        write(published(getattr(SPLIT, part)), tmp_path / part)
        given[part] = read_negatives(tmp_path / part, getattr(SPLIT, part))
    plain = measure(PairThenNode(), Ranking(SPLIT, rules, 0)).metrics
    assert measure(PairThenNode(), Ranking(SPLIT, rules, 0, given=given)).metrics == plain
    stale = measure(PairThenNode(), Ranking(SPLIT, rules, 0, 20)).metrics
    assert measure(PairThenNode(), Ranking(SPLIT, rules, 0, 20, given=given)).metrics == stale


def test_an_event_may_have_fewer_negatives_than_another_and_ones_that_no_event_has(tmp_path):
    lists = published(SPLIT.test, fewer=True)
    first = next(iter(lists))
    lists[first] = np.array([31, 999])
    write(lists, tmp_path / "test")
    rows = read_negatives(tmp_path / "test", SPLIT.test)
    ids = np.array(SPLIT.test.vocabulary.ids)
    for row, key in enumerate(zip(IDS[SPLIT.test.src], IDS[SPLIT.test.dst], SPLIT.test.time, strict=True)):
        np.testing.assert_array_equal(ids[rows[row][rows[row] >= 0]], lists[key])
    given = {"valid": rows[:1].repeat(len(SPLIT.valid), 0), "test": rows}
    metrics = measure(PairThenNode(), Ranking(SPLIT, PROTOCOLS["tgb"], 0, given=given)).metrics
    # At most six negatives.
    assert metrics["hits10"] == 1.0
    assert metrics["mrr"] > 1 / 7


def test_the_sampler_of_py_tgb_reads_the_same(tmp_path):
    sampling = pytest.importorskip("tgb.linkproppred.negative_sampler", reason="py-tgb is not installed")
    write(published(SPLIT.valid, fewer=True), tmp_path / "valid")
    theirs = sampling.NegativeEdgeSampler("tgbl-wiki")
    theirs.load_eval_set(str(tmp_path / "valid"), "val")
    valid = SPLIT.valid
    lists = theirs.query_batch(IDS[valid.src], IDS[valid.dst], valid.time.astype(np.int64), split_mode="val")
    for row, each in zip(read_negatives(tmp_path / "valid", valid), lists, strict=True):
        assert IDS[row[row >= 0]].tolist() == list(each)


def test_the_files_stand_beside_the_events(tmp_path, monkeypatch):
    edges = tmp_path / "tgbl-review_edgelist_v2.csv"
    assert negatives_file(edges, "valid").name == "tgbl-review_val_ns_v2.pkl"
    monkeypatch.setattr("tapgnn.data.datasets.tgb_negatives.tgb_file", lambda name, root: edges)
    assert tgb_negatives("tgbl-review") is None
    for part in ("valid", "test"):
        write(published(getattr(SPLIT, part)), negatives_file(edges, part))
    negatives = tgb_negatives("tgbl-review")
    assert negatives is not None
    assert len(negatives("test", SPLIT.test)) == len(SPLIT.test)


class Command:
    def __reduce__(self):
        return os.system, ("true",)


def test_a_file_that_is_damaged_hostile_or_of_other_events_is_one_line(tmp_path):
    lists = published(SPLIT.test)
    file = tmp_path / "test"
    for content, words in (
        ({key: Command() for key in lists}, "contains posix.system"),
        ([1, 2], "does not hold negatives"),
        (published(SPLIT.valid), "no negatives for the event"),
    ):
        write(content, file)
        with pytest.raises(DatasetError, match=rf"{words}.*download it again"):
            read_negatives(file, SPLIT.test)
    file.write_bytes(b"\x80\x05broken")
    with pytest.raises(DatasetError, match="cannot be read"):
        read_negatives(file, SPLIT.test)


def test_an_evaluation_takes_them_under_its_protocol_alone(tmp_path):
    log = integer_log(0)
    for part in ("valid", "test"):
        write(published(getattr(split_quantiles(log), part), fewer=True), tmp_path / part)
    asked = []

    def negatives(part, events):
        asked.append(part)
        return read_negatives(tmp_path / part, events)

    found = evaluate(log, small_model(), "tgb", seeds=1, negatives=negatives).results
    assert asked == ["valid", "test"]
    plain = evaluate(log, small_model(), "tgb", seeds=1).results
    assert found["mrr_mean"] > plain["mrr_mean"]
    with pytest.raises(ConfigError, match="only the protocol tgb takes negatives"):
        evaluate(log, small_model(), "dyglib", seeds=1, negatives=negatives)
