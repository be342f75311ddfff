"""reproduce: tables in every form, one file a run, and going on."""

import csv
import json
import shutil

import pytest

from tests.cli.command import tapgnn

WORDS = ("reproduce", "links", "--quick", "--datasets", "fb-forum", "--methods", "recency,popularity", "--json")


@pytest.fixture(scope="module")
def reproduced(data_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAPGNN_DATA", str(data_folder))
        outcome = tapgnn(*WORDS, "--processes", 2, "--out", folder)
    assert outcome.code == 0, outcome.err
    return folder / "quick" / "links", outcome


def test_every_form_of_a_table_has_the_numbers_of_the_runs(reproduced):
    folder, outcome = reproduced
    runs = {
        name: json.loads((folder / f"runs/fb-forum/{name}/0.json").read_text()) for name in ("recency", "popularity")
    }
    rows = outcome.last["tables"]["links-auc"]["rows"]
    with open(folder / "links-auc.csv", newline="") as stream:
        lines = {(row["method"], row["column"]): row["mean"] for row in csv.DictReader(stream)}
    for name, run in runs.items():
        found = run["found"]["auc"]
        assert 0.5 < found < 1
        assert rows[name]["fb-forum"]["mean"] == found == float(lines[name, "fb-forum"])
        for form in ("md", "tex"):
            assert f"{found:.4f}" in (folder / f"links-auc.{form}").read_text()
        assert run["quick"] is True
        assert run["versions"]["torch"]
    assert json.loads((folder / "links.json").read_text())["tables"] == outcome.last["tables"]


def test_a_second_call_does_nothing_again(reproduced, data_folder, monkeypatch):
    folder, outcome = reproduced
    monkeypatch.setenv("TAPGNN_DATA", str(data_folder))
    before = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/*/*.json")}
    again = tapgnn(*WORDS, "--out", folder.parent.parent)
    assert again.last == outcome.last
    assert {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/*/*.json")} == before
    assert "[1/2] fb-forum, recency" not in again.err


def test_runs_of_older_code_are_counted_and_repeated_on_request(reproduced, data_folder, tmp_path, monkeypatch):
    folder, outcome = reproduced
    monkeypatch.setenv("TAPGNN_DATA", str(data_folder))
    shutil.copytree(folder, tmp_path / "quick" / "links")
    path = tmp_path / "quick" / "links" / "runs/fb-forum/recency/0.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "revisions": {**values["revisions"], "trivial": -1}}))
    told = "1 of 2 runs are of older code, whose results may differ; --again repeats them"
    kept = tapgnn(*WORDS, "--out", tmp_path)
    assert told in kept.err
    assert kept.last == outcome.last
    repeated = tapgnn(*WORDS, "--again", "--out", tmp_path)
    assert told not in repeated.err
    assert json.loads(path.read_text())["revisions"] == values["revisions"]
    assert told not in tapgnn(*WORDS, "--out", tmp_path).err


def test_a_data_set_that_is_asked_for_must_be_there_and_others_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPGNN_CACHE", str(tmp_path))
    monkeypatch.setenv("TAPGNN_DATA", str(tmp_path))
    for words in (("--datasets", "fb-forum"), ()):
        refusal = tapgnn("reproduce", "links", *words).refusal
        assert "fb-forum is not on this machine; run 'tapgnn datasets download fb-forum'" in refusal


def test_a_run_that_fails_is_told_and_the_exit_code_is_1(tmp_path, monkeypatch):
    (tmp_path / "fb-forum.edges").write_text("not what was downloaded")
    monkeypatch.setenv("TAPGNN_DATA", str(tmp_path))
    outcome = tapgnn(*WORDS, "--out", tmp_path)
    assert outcome.code == 1
    assert "[1/2] fb-forum, recency, seed 0: failed: DatasetError" in outcome.err
    assert "2 of 2 runs failed" in outcome.err
    assert outcome.last["failed"] == 2
