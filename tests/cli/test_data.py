"""inspect, simulate and datasets."""

import json
import re
import sys
from pathlib import Path

import polars as pl
import pytest

from tapgnn.cli.data import PAYMENT_COLUMNS
from tapgnn.data import DATASETS, Schema, describe, read_events
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.file_integrity import file_sha256
from tests.cli.command import tapgnn
from tests.data.datasets.site import BODY, digest, served_site
from tests.data.logs import put, same

SIZE = {"events": 2_000, "accounts": 200, "merchants": 30, "days": 9.0}
OPTIONS = [word for name, value in SIZE.items() for word in (f"--{name}", value)]


def test_inspect_prints_the_data_table_and_the_same_as_json(log):
    outcome = tapgnn("inspect", log, "--json")
    facts = describe(read_events(log), was_sorted=True)
    found = outcome.last
    schema, columns = Schema.from_dict(found.pop("schema")), found.pop("columns")
    assert found == {"name": "payments.csv", "simulated": True, **facts, "suggestions": []}
    assert (schema.src, schema.dst, schema.time) == ("payer", "payee", "timestamp")
    assert (schema.label, schema.id) == ("is_fraud", "payment_id")
    assert [row["column"] for row in columns] == list(PAYMENT_COLUMNS)
    uses = ["id", "src", "dst", "number", "category", "category", "category", "time", "label"]
    assert [row["use"] for row in columns] == uses
    assert 0 < columns[3]["missing"] < 0.03
    assert columns[5]["examples"] == ["card", "online", "transfer"]
    assert outcome.out.count("\n") == 1
    assert "payments.csv (simulated)" in outcome.err
    table = tapgnn("inspect", log).out
    assert f"{facts['message_links']:,}" in table
    assert "temporal nodes" in table
    assert re.search("amount +number +[0-9.]+%", table)


def test_inspect_mentions_columns_that_are_not_used(tmp_path):
    log = put(tmp_path, "log.csv", "src,dst,time,memo\na,b,2,x\nb,c,1,y\n")
    outcome = tapgnn("inspect", log, "--json")
    assert re.search("memo +not used", outcome.err)
    assert "column 'memo' is text that hardly repeats" in outcome.err
    assert outcome.last["suggestions"][0].startswith("column 'memo' is text")
    assert outcome.last["sorted"] is False
    assert outcome.last["simulated"] is False


def test_rows_left_out_are_mentioned_once_and_never_beside_a_refusal(tmp_path):
    log = put(tmp_path, "log.csv", "src,dst,time\na,b,soon\n")
    assert "contains no events (1 row skipped; first: " in tapgnn("inspect", log, "--skip-bad-rows").refusal


def test_a_registered_name_is_found_in_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPGNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TAPGNN_DATA", str(tmp_path))
    assert "tapgnn datasets download fb-forum" in tapgnn("inspect", "fb-forum").refusal
    put(tmp_path, "fb-forum.edges", "1 2 3\n")
    assert "is damaged, or not a known copy" in tapgnn("inspect", "fb-forum").refusal
    path = put(tmp_path, "fb-forum.edges", "".join(f"{row % 9} {row % 7} {row}\n" for row in range(33_720)))
    put(tmp_path, "fb-forum.edges.sha256", file_sha256(path))
    assert tapgnn("inspect", "fb-forum", "--json").last["name"] == "fb-forum"
    monkeypatch.setenv("TAPGNN_DATA", str(tmp_path / "nowhere"))
    assert "nowhere, which is not a folder" in tapgnn("inspect", "fb-forum").refusal
    assert "nowhere, which is not a folder" in tapgnn("datasets", "list").err
    monkeypatch.setenv("TAPGNN_CACHE", str(tmp_path))
    assert "is not a folder; fb-forum is read from the cache" in tapgnn("inspect", "fb-forum").err


def test_a_name_of_the_temporal_graph_benchmark_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.delenv("TAPGNN_DATA", raising=False)
    monkeypatch.setenv("TAPGNN_CACHE", str(tmp_path))
    pytest.importorskip("tgb", reason="py-tgb is not installed")
    assert "does not exist; download it with py-tgb" in tapgnn("inspect", "tgbl-wiki").refusal
    monkeypatch.setitem(sys.modules, "tgb.linkproppred.dataset", None)
    assert "needs the package py-tgb" in tapgnn("inspect", "tgbl-wiki").refusal


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "jsonl", "jsonl.gz", "parquet"])
def test_a_simulated_file_holds_the_simulated_events(ending, tmp_path):
    path = tmp_path / "new" / f"log.{ending}"
    outcome = tapgnn("simulate", path, *OPTIONS, "--seed", 3, "--fraud", 0.02, "--json")
    same(read_events(path), simulate(**SIZE, seed=3, fraud=0.02))
    assert outcome.last["simulated"] is True
    assert outcome.last["fraudulent_events"] == 40
    assert "2,000 simulated payments over 9 days, 40 of them fraudulent" in outcome.err
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, f"{path.name}.simulated.json"]


def test_only_the_very_file_is_called_simulated(tmp_path):
    path = tmp_path / "log.csv"
    tapgnn("simulate", path, *OPTIONS)
    assert tapgnn("inspect", path, "--json").last["simulated"] is True
    path.write_text("src,dst,time\na,b,1\n")
    assert tapgnn("inspect", path, "--json").last["simulated"] is False
    put(tmp_path, "log.csv.simulated.json", "[]")
    assert tapgnn("inspect", path, "--json").last["simulated"] is False


def test_datasets_are_listed_with_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPGNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TAPGNN_DATA", str(tmp_path))
    put(tmp_path, "fb-forum.edges", "1 2 3\n")
    outcome = tapgnn("datasets", "list", "--json")
    entries = {entry["name"]: entry["path"] for entry in outcome.last["datasets"]}
    assert list(entries) == list(DATASETS)
    assert entries.pop("fb-forum") == str(tmp_path / "fb-forum.edges")
    assert set(entries.values()) == {None}
    assert all(name in outcome.err for name in DATASETS)
    commands = {entry["name"]: entry["command"] for entry in outcome.last["datasets"]}
    assert commands["fb-forum"] == "tapgnn datasets download fb-forum"
    assert commands["reddit"] == "tapgnn datasets download reddit --unverified"
    assert "--unverified" in outcome.err


def test_a_data_set_is_downloaded_verified_and_found(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPGNN_CACHE", str(tmp_path / "cache"))
    with served_site() as site:
        words = ("datasets", "download", "fb-forum", "--url", site.url())
        assert "the known hash: expected" in tapgnn(*words).refusal
        outcome = tapgnn(*words, "--sha256", digest(BODY), "--json")
        path = tmp_path / "cache" / "fb-forum.edges"
        assert outcome.last == {"name": "fb-forum", "path": str(path), "sha256": file_sha256(path)}
        assert path.read_bytes() == BODY
        elsewhere = tapgnn(*words, "--sha256", digest(BODY), "--folder", tmp_path / "here")
        assert f"set TAPGNN_DATA={tmp_path / 'here'}" in elsewhere.err
        site.codes = [404]
        gone = tapgnn(*words, "--sha256", digest(BODY), "--folder", tmp_path / "new")
        assert "answered 404" in gone.refusal


def test_the_note_beside_a_simulated_file_says_how_it_was_made(tmp_path):
    path = tmp_path / "log.csv"
    tapgnn("simulate", path, *OPTIONS, "--seed", 5)
    note = json.loads((tmp_path / "log.csv.simulated.json").read_text())
    assert {name: note[name] for name in SIZE} == SIZE
    assert (note["seed"], note["sha256"], note["columns"]) == (5, file_sha256(path), list(PAYMENT_COLUMNS))


def test_the_beginning_of_a_simulation_is_called_simulated_too_and_goes_on_in_the_whole(tmp_path):
    part, whole = tmp_path / "past.csv", tmp_path / "all.csv"
    outcome = tapgnn("simulate", part, *OPTIONS, "--first", 1_500, "--json")
    tapgnn("simulate", whole, *OPTIONS)
    lines = part.read_text().splitlines()
    assert whole.read_text().splitlines()[: len(lines)] == lines
    assert 1_500 <= len(lines) - 1 < 1_510
    assert outcome.last["written_events"] == len(lines) - 1
    assert "the first 1,50" in outcome.err
    assert tapgnn("inspect", part, "--json").last["simulated"] is True
    assert "--first" in tapgnn("simulate", part, *OPTIONS, "--first", 0).refusal


def test_the_rest_of_a_simulation_comes_after_its_beginning(tmp_path):
    paths = [tmp_path / name for name in ("past.csv", "next.csv", "all.csv")]
    for path, words in zip(paths, (("--first", 500), ("--skip", 500, "--first", 900), ("--first", 900)), strict=True):
        assert tapgnn("simulate", path, *OPTIONS, *words).code == 0
    past, following, both = (path.read_text().splitlines() for path in paths)
    assert both == [*past, *following[1:]]
    assert (
        "leaves nothing after --skip 500"
        in tapgnn("simulate", paths[0], *OPTIONS, *("--skip", 500, "--first", 9)).refusal
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_merchants_of_a_simulation_are_a_table_of_their_own(ending, tmp_path):
    out = tmp_path / "new" / f"merchants.{ending}"
    assert tapgnn("simulate", tmp_path / "log.csv", *OPTIONS, "--merchants-out", out).code == 0
    table = pl.read_csv(out) if ending == "csv" else pl.read_parquet(out)
    assert table.columns == ["merchant_id", "category", "country"]
    assert len(table) == SIZE["merchants"]
    words = ("--merchants-out", tmp_path / "merchants.xlsx")
    assert "the file name must end in one of" in tapgnn("simulate", tmp_path / "log.csv", *OPTIONS, *words).refusal


def test_what_the_columns_mean_can_be_declared(tmp_path):
    rows = [f"{row},{row % 7},{row % 7},{row % 3},{row % 5}.5,note {row}" for row in range(60)]
    log = put(tmp_path, "log.csv", "\n".join(["at,who,whom,kind,size,memo", *rows]) + "\n")
    words = ("--src", "who", "--dst", "whom", "--time", "at", "--time-unit", "h", "--bipartite")
    found = tapgnn("inspect", log, *words, "--categorical", "kind", "--drop", "memo,size", "--json").last
    assert found["nodes"] == 14
    assert found["schema"]["columns"] == {"kind": "category"}
    assert (found["schema"]["dropped"], found["schema"]["time_unit"]) == (["size", "memo"], "h")
    assert tapgnn("inspect", log, *words[:6], "--json").last["nodes"] == 7
    some = tapgnn("inspect", log, *words[:6], "--features", "size", "--json").last["schema"]
    assert (some["columns"], some["dropped"]) == ({"size": "number"}, ["kind", "memo"])
    assert (
        "column 'kind' was given two roles"
        in tapgnn("inspect", log, *words, "--label", "kind", "--drop", "kind").refusal
    )


def test_inspect_holds_a_piece_of_a_sorted_file_and_says_the_same_of_an_unsorted_one(log, tmp_path, monkeypatch):
    facts = tapgnn("inspect", log, "--json").last
    monkeypatch.setattr("tapgnn.cli.events_argument.PIECE", 100)
    with monkeypatch.context() as whole:
        whole.setattr("tapgnn.data.load_dataset", None)  # a sorted file is never read whole
        assert tapgnn("inspect", log, "--json").last == facts
    head, *rows = log.read_text().splitlines()
    shuffled = put(tmp_path, "payments.csv", "\n".join([head, rows[-1], *rows[:-1]]) + "\n")
    found = tapgnn("inspect", shuffled, "--json").last
    rest = {"simulated": False, "sorted": False, "columns": found["columns"]}
    assert found == {**facts, **rest}


def test_days_are_counted_in_the_unit_of_the_times(tmp_path):
    start, day = 1_700_000_000_000, 86_400_000
    rows = "\n".join(f"a{row % 5},b{row % 7},{start + row * day // 10}" for row in range(41))
    log = put(tmp_path, "log.csv", f"src,dst,time\n{rows}\n")
    assert tapgnn("inspect", log, "--json").last["timespan_days"] == 4.0
    assert "if time is in milliseconds" in " ".join(tapgnn("inspect", log).out.split())


def test_the_demo_reads_nothing_that_simulate_did_not_write():
    recipe = (Path(__file__).parents[2] / "Makefile").read_text()
    written = set(re.findall(r"tapgnn simulate (demo/\S+)", recipe))
    written |= set(re.findall(r"--merchants-out (demo/\S+)", recipe))
    read = set(re.findall(r"tapgnn (?:inspect|evaluate|fit|replay) (demo/\S+)", recipe))
    read |= set(re.findall(r"tapgnn classify \S+ (demo/\S+)", recipe))
    read |= set(re.findall(r"--node-table (demo/\S+)", recipe))
    assert read
    assert read <= written
