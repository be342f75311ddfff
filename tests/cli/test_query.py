"""embed, score, rank and classify on a saved model."""

import csv
import io
import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from tapgnn import TAPGNN
from tapgnn.data import read_events, read_table
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
    assert header == ["node", "timestamp", *(f"z{place}" for place in range(16))]
    assert [(line[0], float(line[1])) for line in lines] == [(name, LATER) for name in names[:2]]
    np.testing.assert_allclose(np.array(lines)[:, 2:].astype(float), library.embed(names[:2], LATER), rtol=1e-6)
    found = tapgnn("embed", model, *names[:2], "--time", LATER, "--json").last
    assert found["nodes"] == list(names[:2])
    np.testing.assert_allclose(found["embeddings"], library.embed(names[:2], LATER), rtol=1e-6)


def test_score_answers_in_the_order_of_the_questions(model, library, names, tmp_path):
    a, b, c, d = names
    truth = library.score([a, c, b], [b, d, a], [LATER + 2, LATER, LATER + 1])
    text = f"src,dst,time\n{a},{b},{LATER + 2}\n{c},{d},{LATER}\n{b},{a},{LATER + 1}\n"
    header, *lines = rows(tapgnn("score", model, "--queries", put(tmp_path, "pairs.csv", text)))
    assert header == ["payer", "payee", "timestamp", "score"]
    assert [line[:2] for line in lines] == [[a, b], [c, d], [b, a]]
    np.testing.assert_allclose([float(line[3]) for line in lines], truth, rtol=1e-6)
    objects = "".join(
        json.dumps({"time": time, "dst": dst, "src": src}) + "\n"
        for src, dst, time in ((a, b, LATER + 2), (c, d, LATER), (b, a, LATER + 1))
    )
    found = tapgnn("score", model, "--queries", put(tmp_path, "pairs.jsonl", objects), "--json").last["scores"]
    np.testing.assert_allclose([row["score"] for row in found], truth, rtol=1e-6)
    one = tapgnn("score", model, "--src", a, "--dst", b, "--time", LATER + 2, "--json").last["scores"]
    np.testing.assert_allclose(one[0]["score"], truth[0], rtol=1e-4)


def test_rank_prints_the_likeliest_destinations_best_first(model, library, names):
    truth = library.rank(names[0], LATER, 3)
    header, *lines = rows(tapgnn("rank", model, names[0], "--time", LATER, "-k", 3))
    assert header == ["payer", "timestamp", "rank", "payee", "score"]
    assert [line[2:4] for line in lines] == [[str(place + 1), name] for place, (name, _) in enumerate(truth)]
    found = tapgnn("rank", model, names[0], "--time", LATER, "-k", 3, "--json").last["ranks"]
    assert {row["payer"] for row in found} == {names[0]}
    assert [row["score"] for row in found] == pytest.approx([value for _, value in truth])


def test_many_sources_are_ranked_in_the_order_asked(model, library, names, tmp_path):
    truth = library.rank([names[2], names[0]], [LATER, LATER + 5], 2)
    text = f"payment_id,payer,timestamp\nq1,{names[2]},{LATER}\nq2,{names[0]},{LATER + 5}\n"
    path = put(tmp_path, "who.csv", text)
    found = tapgnn("rank", model, "--queries", path, "-k", 2, "--json").last["ranks"]
    assert [row["payment_id"] for row in found] == ["q1", "q1", "q2", "q2"]
    assert [row["payee"] for row in found] == [name for best in truth for name, _ in best]
    listed = tapgnn("rank", model, names[2], names[0], "--time", LATER, "-k", 1, "--json").last["ranks"]
    assert [row["payer"] for row in listed] == [names[2], names[0]]
    assert "pass either SRC, or --queries" in tapgnn("rank", model, names[0], "--queries", path).refusal
    assert "pass either SRC, or --queries" in tapgnn("rank", model).refusal


def test_the_names_of_the_table_are_a_header_and_no_pair(model, library, names, tmp_path):
    a, b, *_ = names
    text = f"payment_id,note,payee,payer,timestamp\nx7,hello,{b},{a},2027-01-01T00:00:00Z\n"
    path = put(tmp_path, "pairs.csv", text)
    header, *lines = rows(tapgnn("score", model, "--queries", path, "--keep", "note"))
    assert header == ["payment_id", "payer", "payee", "timestamp", "note", "score"]
    assert [line[:5] for line in lines] == [["x7", a, b, "2027-01-01T00:00:00Z", "hello"]]
    assert float(lines[0][5]) == pytest.approx(library.score(a, b, 1798761600.0)[0])
    bare = put(tmp_path, "bare.csv", f"payer,payee\n{a},{b}\n")
    assert len(rows(tapgnn("score", model, "--queries", bare))) == 2
    assert "has no column 'memo' to keep" in tapgnn("score", model, "--queries", path, "--keep", "memo").refusal


def test_every_node_is_embedded_when_asked(model, library):
    found = tapgnn("embed", model, "--all", "--json").last
    assert found["nodes"] == list(library.vocabulary.ids)
    np.testing.assert_allclose(found["embeddings"], library.embed(found["nodes"]), rtol=1e-6)
    assert "pass either NODES, or --queries with a file, or --all" in tapgnn("embed", model, "a", "--all").refusal


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "jsonl.gz", "parquet", "arrow"])
def test_the_ending_of_a_file_gives_its_format(ending, model, names, tmp_path):
    path = tmp_path / f"scores.{ending}"
    pairs = put(tmp_path, "pairs.csv", f"payer,payee\n{names[0]},{names[1]}\n{names[1]},{names[0]}\n")
    truth = tapgnn("score", model, "--queries", pairs, "--json").last["scores"]
    assert tapgnn("score", model, "--queries", pairs, "--out", path).code == 0
    read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "arrow": pl.read_ipc}.get(ending, pl.read_ndjson)
    table = pl.read_csv(path, separator="\t") if ending == "tsv" else read(path)
    assert table.to_dicts() == truth


def test_an_unknown_ending_is_refused_before_the_work(tmp_path):
    refusal = tapgnn("rank", "nowhere", "a", "--out", tmp_path / "top.xlsx").refusal
    assert "the file name must end in one of .csv" in refusal


def test_without_a_time_the_question_is_about_just_after_the_last_event(model, library, names):
    found = tapgnn("rank", model, names[0], "--json").last["ranks"]
    assert found[0]["timestamp"] == library.now == library.state_.clock + library.model_.config.unit


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
        ("src,time\na,1\n", "has no column 'payee'; expected the columns payer,payee,timestamp"),
        ("src,dst,time\na,b,soon\n", "line 2: time 'soon' is not a number or an ISO date"),
        ("src,dst,time\na,,5\n", "line 2: dst None is not an integer or a string"),
        ("src,dst,time\na,b\n", "line 2: it has 2 fields"),
        ("src,dst,time\n", "has no rows"),
        ("1,2,3,4\n", "has 4 columns and no header; expected payer,payee,timestamp"),
        ("", "is empty"),
    ],
)
def test_a_bad_file_of_questions_is_one_line(text, says, model, tmp_path):
    assert says in tapgnn("score", model, "--queries", put(tmp_path, "pairs.csv", text)).refusal


def test_a_question_that_has_no_answer_is_one_line(model, names, library):
    past = library.state_.clock - 1_000
    assert "has no log" in tapgnn("embed", model, names[0], "--time", past).refusal
    assert "time 'soon' is not" in tapgnn("rank", model, names[0], "--time", "soon").refusal
    assert "does not exist" in tapgnn("embed", model, "--queries", "none.csv").refusal
    assert "does not exist" in tapgnn("rank", model, names[0], "--observe", "none.csv").refusal


def test_a_stranger_has_an_answer_and_is_mentioned(model):
    outcome = tapgnn("score", model, "--src", "nobody", "--dst", "noone", "--json")
    assert 0 < outcome.last["scores"][0]["score"] < 1
    assert "never seen 'nobody', 'noone'" in outcome.err


def test_csv_goes_to_a_file_when_asked(model, names, tmp_path):
    path = tmp_path / "new" / "top.csv"
    outcome = tapgnn("rank", model, names[0], "-k", 2, "--out", path)
    assert outcome.out == ""
    assert len(path.read_text().splitlines()) == 3


def test_observed_events_count_and_the_saved_model_is_not_changed(model, log, names, tmp_path):
    events = read_events(log)
    header = "payer,payee,timestamp,amount,currency,channel,country"
    start = events.time[-1] + 60.0
    text = "\n".join([header, *(f"{names[0]},newcomer,{start + place},9.5,EUR,,new" for place in range(5))])
    later = put(tmp_path, "later.csv", text)
    question = ("score", model, "--src", names[0], "--dst", "newcomer", "--time", start + 10, "--json")
    before = tapgnn(*question)
    after = tapgnn(*question, "--observe", later)
    assert after.last["scores"][0]["score"] > before.last["scores"][0]["score"]
    assert "never seen" not in after.err
    assert tapgnn(*question).last == before.last
    assert "is not later than" in tapgnn(*question, "--observe", log).refusal


def test_later_events_are_read_as_the_model_was_fitted(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(9)},{rng.integers(9)},{row},{rng.normal():.3f}" for row in range(200)]
    log = put(tmp_path, "odd.csv", "\n".join(["who,whom,when,size", *lines]))
    columns = ("--src", "who", "--dst", "whom", "--time", "when", "--features", "size")
    assert tapgnn("fit", log, *columns, "--out", tmp_path / "model", *SMALL).code == 0
    later = put(tmp_path, "later.csv", "who,whom,when,size\n1,2,900,0.5\n")
    (found,) = tapgnn("rank", tmp_path / "model", 1, "--observe", later, "-k", 1, "--json").last["ranks"]
    assert found["who"] == 1
    assert found["when"] > 900


def test_ids_of_digits_are_found_as_numbers_or_as_strings(tmp_path):
    for quote in ("", '"'):
        lines = [
            f'{{"src": {quote}{row % 7}{quote}, "dst": {quote}{row % 5 + 7}{quote}, "time": {row}}}'
            for row in range(90)
        ]
        log = put(tmp_path, "log.jsonl", "\n".join(lines))
        assert tapgnn("fit", log, "--out", tmp_path / "model", "--force", *SMALL).code == 0
        outcome = tapgnn("rank", tmp_path / "model", "3", "-k", 1, "--json")
        assert outcome.last["ranks"][0]["src"] == ("3" if quote else 3)
        assert outcome.err == ""


@pytest.fixture(scope="module")
def later(tmp_path_factory):
    """Payments after those of the log, in no order of time, some cells missing; their labels are not known yet."""
    lines = [
        f"n{row},a{row:05d},m{row % 9:04d},{'' if row % 3 else 12.5},{'EUR' if row % 2 else 'XXX'},card,,"
        f"2024-02-0{9 - row % 9}T12:00:{row:02d}Z,"
        for row in range(20)
    ]
    header = "payment_id,payer,payee,amount,currency,channel,country,timestamp,is_fraud"
    return put(tmp_path_factory.mktemp("later"), "later.csv", "\n".join([header, *lines]) + "\n")


def test_classify_answers_for_every_row_in_the_order_of_the_file(model, library, later, tmp_path):
    events, order, table = read_table(later, schema=library.schema, vocabulary=library.vocabulary)
    truth = np.empty(20)
    truth[order] = library.classify(events)
    header, *lines = rows(tapgnn("classify", model, later))
    assert header == ["payment_id", "payer", "payee", "timestamp", "risk"]
    assert [line[0] for line in lines] == table["payment_id"].to_list() == [f"n{row}" for row in range(20)]
    assert [line[3] for line in lines] == table["timestamp"].to_list()
    np.testing.assert_allclose([float(line[4]) for line in lines], truth, rtol=1e-6)
    np.testing.assert_allclose(library.classify(pl.read_csv(later)).to_numpy(), truth, rtol=1e-6)
    found = tapgnn("classify", model, later, "--json").last["events"]
    np.testing.assert_allclose([row["risk"] for row in found], truth, rtol=1e-6)
    assert tapgnn("classify", model, later, "--out", tmp_path / "out.parquet", "--keep", "amount,payer").out == ""
    kept = pl.read_parquet(tmp_path / "out.parquet")
    assert kept.columns == ["payment_id", "payer", "payee", "timestamp", "amount", "risk"]
    assert kept["amount"].null_count() == 13
    assert "has no column 'memo' to keep" in tapgnn("classify", model, later, "--keep", "memo").refusal


def test_a_row_that_is_skipped_has_no_risk_but_a_row_of_its_own(model, later, tmp_path):
    lines = later.read_text().splitlines()
    bad = lines[3].replace("2024", "soon")
    broken = put(tmp_path, "later.csv", "\n".join([*lines[:3], bad, "n99,a00001", *lines[3:]]) + "\n")
    assert (
        "is not a number or an ISO date; fix the row or pass --skip-bad-rows"
        in tapgnn("classify", model, broken).refusal
    )
    outcome = tapgnn("classify", model, broken, "--skip-bad-rows")
    _, *found = rows(outcome)
    assert "2 rows skipped; first: later.csv line 4: time" in outcome.err
    assert [place for place, line in enumerate(found) if line[-1] == ""] == [2, 3]
    assert found[2][0] == "n2"
    assert found[3][0] == ""
    whole = rows(tapgnn("classify", model, later))[1:]
    for line, same in zip([*found[:2], *found[4:]], whole, strict=True):
        assert line[:4] == same[:4]
        assert float(line[4]) == pytest.approx(float(same[4]), rel=1e-5)


def test_the_ids_of_two_kinds_of_nodes_are_the_users_own(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(9)},{rng.integers(5, 14)},{row}" for row in range(400)]
    log = put(tmp_path, "log.csv", "\n".join(["user_id,page_id,time", *lines]) + "\n")
    model = tmp_path / "model"
    assert tapgnn("fit", log, "--bipartite", "--out", model, *SMALL).code == 0
    ranks = tapgnn("rank", model, 7, "-k", 20, "--json").last["ranks"]
    assert {row["user_id"] for row in ranks} == {7}
    assert {row["page_id"] for row in ranks} == set(range(5, 14))
    assert "7 is a user_id and also a page_id" in tapgnn("embed", model, 7).refusal
    source, page = (tapgnn("embed", model, 7, "--side", side, "--json").last["embeddings"] for side in ("src", "dst"))
    assert source != page
    assert tapgnn("embed", model, 2, "--json").err == ""
    every = tapgnn("embed", model, "--all", "--json").last
    assert every["embeddings"][list(zip(every["nodes"], every["sides"], strict=True)).index((7, "dst"))] == page[0]
    assert len(every["nodes"]) == 18
    strange = tapgnn("score", model, "--src", 13, "--dst", 2, "--json")
    assert "never seen 13, 2" in strange.err
    assert "--side must be src or dst" in tapgnn("embed", model, 7, "--side", "left").refusal


def test_classify_needs_labels_that_were_learnt_and_events_that_are_later(model, log, later, tmp_path):
    assert "is not later than" in tapgnn("classify", model, log).refusal
    assert "is not later than" in tapgnn("classify", model, later, "--observe", later).refusal
    assert "does not exist" in tapgnn("classify", model, "none.csv").refusal
    assert tapgnn("fit", log, "--out", tmp_path, *SMALL).code == 0
    assert "was not trained on labels; fit it again with --classify" in tapgnn("classify", tmp_path, later).refusal


def test_options_may_stand_in_a_file(model, names, tmp_path):
    config = put(tmp_path, "ask.toml", f"time = {LATER}\nk = 2\njson = true\n")
    found = tapgnn("rank", model, names[0], "--config", config).last
    assert [row["timestamp"] for row in found["ranks"]] == [LATER] * 2
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
def test_a_file_and_json_are_both_written_when_both_are_asked_for(command, model, names, later, tmp_path):
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


def test_formulas_are_escaped_where_a_spreadsheet_is_asked_for_and_nowhere_else(model, tmp_path):
    hostile = '=HYPERLINK("http://evil.example")'
    queries, plain, escaped = (tmp_path / name for name in ("queries.csv", "plain.csv", "escaped.csv"))
    pl.DataFrame({"src": [hostile, "@ann", "-5"], "dst": ["+b", "c", "d"], "note": ["@x", "=1", "y"]}).write_csv(
        queries
    )
    ask = ("score", model, "--queries", queries, "--keep", "note")
    assert tapgnn(*ask, "--out", plain).code == 0
    assert tapgnn(*ask, "--out", escaped, "--for-spreadsheet").code == 0
    given = pl.read_csv(queries, infer_schema=False)
    kept, marked = (pl.read_csv(path, infer_schema=False) for path in (plain, escaped))
    names = dict(zip(("src", "dst"), kept.columns[:2], strict=True))
    assert kept[names["src"]].to_list() == given["src"].to_list()
    assert kept["note"].to_list() == given["note"].to_list()
    assert marked[names["src"]].to_list() == [f"'{hostile}", "'@ann", "-5"]
    assert marked[names["dst"]].to_list() == ["'+b", "c", "d"]
    assert marked["note"].to_list() == ["'@x", "'=1", "y"]
    assert marked["score"].to_list() == kept["score"].to_list()
    assert marked[kept.columns[2]].to_list() == kept[kept.columns[2]].to_list()
    out = tapgnn(*ask, "--for-spreadsheet").out
    assert out.splitlines()[2].startswith("'@ann,c,")


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
    again.remember(read_events(log, schema=again.schema, vocabulary=again.vocabulary))
    np.testing.assert_allclose(found, again.embed(names, past), rtol=1e-6)
    short = put(tmp_path, "short.csv", "\n".join(log.read_text().splitlines()[:500]) + "\n")
    assert (
        "pass the whole log that it has observed"
        in tapgnn("embed", model, names[0], "--time", past, "--log", short).refusal
    )
