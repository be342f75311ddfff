"""embed, score, rank and classify on a saved model."""

import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest

from tapgnn import TAPGNN
from tapgnn.data import read_events
from tests.cli.command import SMALL, tapgnn
from tests.data.logs import put

LATER = 1_800_000_000.0


def rows(outcome):
    assert outcome.code == 0, outcome.err
    return list(csv.reader(io.StringIO(outcome.out)))


@pytest.fixture(scope="module")
def library(model):
    return TAPGNN.load(model)


@pytest.fixture(scope="module")
def names(library):
    return library.model_.vocabulary.ids[:4]


def test_embed_prints_what_the_library_gives(model, library, names):
    header, *lines = rows(tapgnn("embed", model, *names[:2], "--time", LATER))
    assert header == ["node", "time", *(f"z{place}" for place in range(16))]
    assert [line[:2] for line in lines] == [[name, str(LATER)] for name in names[:2]]
    np.testing.assert_allclose(np.array(lines)[:, 2:].astype(float), library.embed(names[:2], LATER), rtol=1e-6)
    found = tapgnn("embed", model, *names[:2], "--time", LATER, "--json").last
    assert found["nodes"] == list(names[:2])
    np.testing.assert_allclose(found["embeddings"], library.embed(names[:2], LATER), rtol=1e-6)


def test_score_answers_in_the_order_of_the_questions(model, library, names, tmp_path):
    a, b, c, d = names
    truth = library.score([a, c, b], [b, d, a], [LATER + 2, LATER, LATER + 1])
    text = f"src,dst,time\n{a},{b},{LATER + 2}\n{c},{d},{LATER}\n{b},{a},{LATER + 1}\n"
    header, *lines = rows(tapgnn("score", model, "--queries", put(tmp_path, "pairs.csv", text)))
    assert header == ["src", "dst", "time", "probability"]
    assert [line[:2] for line in lines] == [[a, b], [c, d], [b, a]]
    np.testing.assert_allclose([float(line[3]) for line in lines], truth, rtol=1e-6)
    objects = "".join(
        json.dumps({"time": time, "dst": dst, "src": src}) + "\n"
        for src, dst, time in ((a, b, LATER + 2), (c, d, LATER), (b, a, LATER + 1))
    )
    found = tapgnn("score", model, "--queries", put(tmp_path, "pairs.jsonl", objects), "--json").last["scores"]
    np.testing.assert_allclose([row["probability"] for row in found], truth, rtol=1e-6)
    one = tapgnn("score", model, "--src", a, "--dst", b, "--time", LATER + 2, "--json").last["scores"]
    np.testing.assert_allclose(one[0]["probability"], truth[0], rtol=1e-4)


def test_rank_prints_the_likeliest_destinations_best_first(model, library, names):
    truth = library.rank(names[0], LATER, 3)
    header, *lines = rows(tapgnn("rank", model, names[0], "--time", LATER, "-k", 3))
    assert header == ["rank", "dst", "probability"]
    assert [(line[0], line[1]) for line in lines] == [(str(place + 1), name) for place, (name, _) in enumerate(truth)]
    found = tapgnn("rank", model, names[0], "--time", LATER, "-k", 3, "--json").last
    assert found["src"] == names[0]
    assert [row["probability"] for row in found["destinations"]] == pytest.approx([value for _, value in truth])


def test_without_a_time_the_question_is_about_just_after_the_last_event(model, library, names):
    found = tapgnn("rank", model, names[0], "--json").last
    assert found["time"] == library.state_.clock + library.model_.config.unit


def test_an_iso_date_is_a_time(model, names):
    found = tapgnn("embed", model, names[0], "--time", "2026-01-02T03:04:05Z", "--json").last
    assert found["times"] == [1767323045.0]


def test_many_nodes_come_from_a_file_with_or_without_times_and_header(model, library, names, tmp_path):
    texts = {
        "named.csv": f"time,node\n{LATER},{names[0]}\n{LATER + 9},{names[1]}\n",
        "plain.csv": f"{names[0]},{LATER}\n{names[1]},{LATER + 9}\n",
        "timeless.csv": f"node\n{names[0]}\n{names[1]}\n",
    }
    for name, text in texts.items():
        found = tapgnn("embed", model, "--queries", put(tmp_path, name, text), "--time", LATER, "--json").last
        times = [LATER, LATER if name == "timeless.csv" else LATER + 9]
        assert (found["nodes"], found["times"]) == (list(names[:2]), times)
        np.testing.assert_allclose(found["embeddings"], library.embed(names[:2], times), rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("src,time\na,1\n", "has no column 'dst'; expected the columns src,dst,time"),
        ("src,dst,time\na,b,soon\n", "line 2: time 'soon' is not a number or an ISO date"),
        ("src,dst,time\na,,5\n", "line 2: dst None is not an integer or a string"),
        ("src,dst,time\na,b\n", "line 2: it has 2 fields"),
        ("src,dst,time\n", "has no rows"),
        ("1,2,3,4\n", "has 4 columns and no header; expected src,dst,time"),
        ("", "is empty"),
    ],
)
def test_a_bad_file_of_questions_is_one_line(text, says, model, tmp_path):
    assert says in tapgnn("score", model, "--queries", put(tmp_path, "pairs.csv", text)).refusal


def test_a_question_that_has_no_answer_is_one_line(model, names, library):
    past = library.state_.clock - 1_000
    assert "has moved on" in tapgnn("embed", model, names[0], "--time", past).refusal
    assert "time 'soon' is not" in tapgnn("rank", model, names[0], "--time", "soon").refusal
    assert "does not exist" in tapgnn("embed", model, "--queries", "none.csv").refusal
    assert "does not exist" in tapgnn("rank", model, names[0], "--observe", "none.csv").refusal


def test_a_stranger_has_an_answer_and_is_mentioned(model):
    outcome = tapgnn("score", model, "--src", "nobody", "--dst", "noone", "--json")
    assert 0 < outcome.last["scores"][0]["probability"] < 1
    assert "never seen 'nobody', 'noone'" in outcome.err


def test_csv_goes_to_a_file_when_asked(model, names, tmp_path):
    path = tmp_path / "new" / "top.csv"
    outcome = tapgnn("rank", model, names[0], "-k", 2, "--out", path)
    assert outcome.out == ""
    assert len(path.read_text().splitlines()) == 3


def test_observed_events_count_and_the_saved_model_is_not_changed(model, log, names, tmp_path):
    events = read_events(log)
    cells = ",".join(["0.5"] * events.feature_width)
    header = "src,dst,time," + ",".join(f"f{place}" for place in range(events.feature_width))
    start = events.time[-1] + 60.0
    text = "\n".join([header, *(f"{names[0]},newcomer,{start + place},{cells}" for place in range(5))])
    later = put(tmp_path, "later.csv", text)
    question = ("score", model, "--src", names[0], "--dst", "newcomer", "--time", start + 10, "--json")
    before = tapgnn(*question)
    after = tapgnn(*question, "--observe", later)
    assert after.last["scores"][0]["probability"] > before.last["scores"][0]["probability"]
    assert "never seen" not in after.err
    assert tapgnn(*question).last == before.last
    assert "younger" in tapgnn(*question, "--observe", log).refusal


def test_later_events_are_read_as_the_model_was_fitted(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(9)},{rng.integers(9)},{row},{rng.normal():.3f}" for row in range(200)]
    log = put(tmp_path, "odd.csv", "\n".join(["who,whom,when,size", *lines]))
    columns = ("--src", "who", "--dst", "whom", "--time", "when", "--features", "size")
    assert tapgnn("fit", log, *columns, "--out", tmp_path / "model", *SMALL).code == 0
    later = put(tmp_path, "later.csv", "who,whom,when,size\n1,2,900,0.5\n")
    found = tapgnn("rank", tmp_path / "model", 1, "--observe", later, "-k", 1, "--json").last
    assert found["src"] == 1
    assert found["time"] > 900


def test_ids_of_digits_are_found_as_numbers_or_as_strings(tmp_path):
    for quote in ("", '"'):
        lines = [
            f'{{"src": {quote}{row % 7}{quote}, "dst": {quote}{row % 5 + 7}{quote}, "time": {row}}}'
            for row in range(90)
        ]
        log = put(tmp_path, "log.jsonl", "\n".join(lines))
        assert tapgnn("fit", log, "--out", tmp_path / "model", "--force", *SMALL).code == 0
        outcome = tapgnn("rank", tmp_path / "model", "3", "-k", 1, "--json")
        assert outcome.last["src"] == ("3" if quote else 3)
        assert outcome.err == ""


@pytest.fixture(scope="module")
def later(log, tmp_path_factory):
    """Events after those of the log, whose labels are not known yet."""
    text = log.read_text().splitlines()
    start = float(text[-1].split(",")[2])
    rows = [line.split(",") for line in text[-20:]]
    lines = [
        ",".join([src, dst, str(start + 60 * place), "", *rest])
        for place, (src, dst, _, _, *rest) in enumerate(rows, 1)
    ]
    return put(tmp_path_factory.mktemp("later"), "later.csv", "\n".join([text[0], *lines]))


def test_classify_prints_what_the_library_gives(model, library, later, tmp_path):
    events = read_events(later, label="", vocabulary=library.model_.vocabulary)
    truth = library.classify(events)
    header, *lines = rows(tapgnn("classify", model, later))
    assert header == ["src", "dst", "time", "probability"]
    names = events.vocabulary.ids
    assert [line[:2] for line in lines] == [
        [names[src], names[dst]] for src, dst in zip(events.src, events.dst, strict=True)
    ]
    np.testing.assert_allclose([float(line[3]) for line in lines], truth, rtol=1e-6)
    found = tapgnn("classify", model, later, "--json").last["events"]
    np.testing.assert_allclose([row["probability"] for row in found], truth, rtol=1e-6)
    assert tapgnn("classify", model, later, "--out", tmp_path / "out.csv").out == ""
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 21


def test_classify_needs_labels_that_were_learnt_and_events_that_are_later(model, log, later, tmp_path):
    assert "younger" in tapgnn("classify", model, log).refusal
    assert "younger" in tapgnn("classify", model, later, "--observe", later).refusal
    assert "does not exist" in tapgnn("classify", model, "none.csv").refusal
    assert tapgnn("fit", log, "--out", tmp_path, *SMALL).code == 0
    assert "was not trained on labels; fit it again with --classify" in tapgnn("classify", tmp_path, later).refusal


def test_options_may_stand_in_a_file(model, names, tmp_path):
    config = put(tmp_path, "ask.toml", f"time = {LATER}\nk = 2\njson = true\n")
    found = tapgnn("rank", model, names[0], "--config", config).last
    assert (found["time"], len(found["destinations"])) == (LATER, 2)
    assert (
        "has no option 'width'"
        in tapgnn("rank", model, names[0], "--config", put(tmp_path, "a.toml", "width = 3")).refusal
    )


def test_questions_are_answered_without_loading_scikit_learn(model, names):
    script = f"""
import sys
from tapgnn.cli import main
assert main(["rank", {str(model)!r}, {names[0]!r}]) == 0
assert main(["score", {str(model)!r}, "--src", {names[0]!r}, "--dst", {names[1]!r}]) == 0
import tapgnn.evaluation.harness
assert not [name for name in sys.modules if name.split(".")[0] == "sklearn"]
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


@pytest.mark.parametrize("command", ["embed", "score", "rank", "classify"])
def test_a_file_and_json_are_both_written_when_both_are_asked_for(command, model, names, log, tmp_path):
    later = put(tmp_path, "later.csv", later_rows(log, LATER))
    words = {
        "embed": (names[0],),
        "score": ("--src", names[0], "--dst", names[1]),
        "rank": (names[0],),
        "classify": (later,),
    }[command]
    plain = tapgnn(command, model, *words)
    both = tapgnn(command, model, *words, "--json", "--out", tmp_path / "new" / "answer.csv")
    assert (tmp_path / "new" / "answer.csv").read_text() == plain.out
    assert both.out.count("\n") == 1
    assert both.last == tapgnn(command, model, *words, "--json").last


def later_rows(log, time):
    head, *rows = log.read_text().splitlines()[:4]
    cells = [row.split(",") for row in rows]
    return (
        "\n".join([head, *(",".join([*row[:2], str(time + place), *row[3:]]) for place, row in enumerate(cells))])
        + "\n"
    )


def test_an_answer_that_has_no_place_is_refused_at_once(model, names, tmp_path):
    put(tmp_path, "file", "")
    assert "is a folder; pass the name of a file" in tapgnn("rank", model, names[0], "--out", tmp_path).refusal
    assert (
        "is a file; pass the name of a folder"
        in tapgnn("rank", model, names[0], "--out", tmp_path / "file" / "x").refusal
    )


def test_a_pair_and_a_file_of_pairs_are_not_asked_together(model, names, tmp_path):
    queries = ("--queries", put(tmp_path, "pairs.csv", "src,dst\na,b\n"))
    for pair in (("--src", names[0]), ("--dst", names[0]), ("--src", names[0], "--dst", names[1])):
        assert "pass either both --src and --dst, or --queries" in tapgnn("score", model, *pair, *queries).refusal


def test_the_past_is_answered_from_the_log(model, log, library, names, tmp_path):
    events = read_events(log)
    past = float(events.time[1_000])
    assert "--log" in tapgnn("embed", model, names[0], "--time", past).refusal
    found = tapgnn("embed", model, *names, "--time", past, "--log", log, "--json").last["embeddings"]
    again = TAPGNN.load(model)
    again.remember(read_events(log, vocabulary=again.vocabulary, label=""))
    np.testing.assert_allclose(found, again.embed(names, past), rtol=1e-6)
    short = put(tmp_path, "short.csv", "\n".join(log.read_text().splitlines()[:500]) + "\n")
    assert (
        "pass the whole log that it has observed"
        in tapgnn("embed", model, names[0], "--time", past, "--log", short).refusal
    )
