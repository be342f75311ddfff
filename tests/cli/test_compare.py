"""compare: the table, the files and the JSON."""

import csv
import json
import os
import signal

import pytest

from tapgnn.cli.compare import FIGURES, comparison_table
from tapgnn.data import read_events
from tapgnn.events import events_fingerprint
from tests.cli.command import tapgnn


@pytest.fixture(scope="module")
def compared(log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    words = ("--methods", "recency, edgebank", "--protocol", "paper", "--seeds", 2, "--json", "--out", folder)
    outcome = tapgnn("compare", log, *words)
    assert outcome.code == 0, outcome.err
    return folder, outcome


def test_the_json_has_every_figure_of_every_method(compared, log):
    _, outcome = compared
    found = outcome.last
    assert list(found["methods"]) == ["recency", "edgebank"]
    for row in found["methods"].values():
        assert {*FIGURES, "auc_std", "sees_history"} <= set(row)
        assert row["sees_history"] is True
        assert 0 <= row["auc_mean"] <= 1
    assert (found["protocol"], found["seeds"], found["simulated"]) == ("paper", [0, 1], True)
    assert found["interrupted"] is False
    assert found["data"]["sha256"] == events_fingerprint(read_events(log))
    assert found["versions"]["torch"]
    assert outcome.out.count("\n") == 1


def test_the_table_and_the_way_there_are_said_on_standard_error(compared):
    _, outcome = compared
    assert "[1/4] recency, seed 0: AUC" in outcome.err
    assert "[4/4] edgebank, seed 1: AUC" in outcome.err
    assert "imulated" in outcome.err
    words = outcome.err.split()
    for word in ("sees", "history", "AUC", "MRR", "acc."):
        assert word in words


def test_the_folder_holds_the_results_and_the_table(compared):
    folder, outcome = compared
    assert json.loads((folder / "comparison.json").read_text()) == outcome.last
    with open(folder / "comparison.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["method"] for row in rows] == ["recency", "edgebank"]
    assert float(rows[0]["auc_mean"]) == outcome.last["methods"]["recency"]["auc_mean"]
    assert rows[0]["error"] == ""


def test_the_same_table_is_there_as_markdown_as_latex_and_as_a_page(compared):
    folder, outcome = compared
    for form in ("md", "tex", "html"):
        text = (folder / f"comparison.{form}").read_text()
        for name, row in outcome.last["methods"].items():
            assert name in text
            assert f"{row['auc_mean']:.4f}" in text
            assert f"{row['auc_std']:.4f}" in text
        assert "imulated" in text
    page = (folder / "comparison.html").read_text()
    assert "<script" not in page
    assert outcome.last["data"]["sha256"] in page


def test_options_of_the_model_reach_tapgnn_and_the_file_has_every_setting(log, tmp_path):
    words = ("--methods", "tapgnn,recency", "--protocol", "paper", "--seeds", 1, "--json", "--out", tmp_path)
    own = ("--width", 8, "--epochs", 1, "--sketch-width", 8, "--seed", 2, "--select", "ap")
    found = tapgnn("compare", log, *words, *own).last
    model, training = found["settings"]["model"], found["settings"]["training"]
    assert (model["width"], model["sketch_width"], training["epochs"], training["select"]) == (8, 8, 1, "ap")
    assert None not in (*model.values(), *training.values())
    assert found["seeds"] == [2]
    assert found["methods"]["tapgnn"]["runs"][0]["details"]["selection_ap"] > 0.5


def test_the_exit_code_is_1_where_a_method_failed(log, tmp_path, monkeypatch):
    words = ("--methods", "recency,tapgnn", "--protocol", "paper", "--seeds", 1, "--epochs", 1, "--json")
    outcome = tapgnn("compare", log, *words, "--learning-rate", "1e30", "--width", 8, "--out", tmp_path)
    assert outcome.code == 1
    assert "training diverged" in outcome.last["methods"]["tapgnn"]["error"]
    assert "tapgnn failed in 1 of 1 runs" in outcome.err
    assert outcome.last["methods"]["recency"]["failed"] == 0
    assert "failed" in (tmp_path / "comparison.md").read_text()


def test_a_failed_method_is_called_so_in_the_table():
    row = {"auc_mean": 0.5, "sees_history": True, "failed": 0, "runs": [{}] * 3}
    broken = {"error": "no memory left", "failed": 3, "runs": [{}] * 3}
    table = comparison_table({"tgn": broken, "recency": row, "tgat": {**row, "error": "gone", "failed": 1}})
    assert list(table.columns[-1].cells) == ["failed", "yes", "yes (1 of 3 failed)"]


@pytest.mark.usefixtures("heard")
def test_ctrl_c_keeps_what_is_finished_writes_it_and_is_exit_code_130(log, tmp_path, monkeypatch):
    def stop(screen, progress):
        if progress.done == 2 and progress.found is None:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("tapgnn.cli.progress.RunScreen.tell", stop)
    words = ("--methods", "recency,edgebank", "--protocol", "paper", "--seeds", 2, "--json", "--out", tmp_path)
    outcome = tapgnn("compare", log, *words)
    assert outcome.code == 130
    assert outcome.last == json.loads((tmp_path / "comparison.json").read_text())
    assert outcome.last["interrupted"] is True
    assert list(outcome.last["methods"]) == ["recency", "edgebank"]
    assert [len(row["runs"]) for row in outcome.last["methods"].values()] == [1, 1]
    assert "the results cover the 2 of 4 runs that were finished" in outcome.err
    assert "Traceback" not in outcome.err
    assert (tmp_path / "comparison.csv").exists()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    resumed = tapgnn("compare", log, *words)
    assert resumed.code == 0, resumed.err
    assert [len(row["runs"]) for row in resumed.last["methods"].values()] == [2, 2]
    for name, row in outcome.last["methods"].items():
        assert resumed.last["methods"][name]["runs"][0] == row["runs"][0]
    assert "[2/4]" not in resumed.err
    assert "[3/4] recency, seed 1: AUC" in resumed.err


@pytest.mark.usefixtures("heard")
def test_ctrl_c_before_anything_is_finished_writes_nothing(log, tmp_path, monkeypatch):
    monkeypatch.setattr("tapgnn.cli.progress.RunScreen.tell", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    outcome = tapgnn("compare", log, "--methods", "recency", "--protocol", "paper", "--seeds", 1, "--out", tmp_path)
    assert (outcome.code, outcome.out) == (130, "")
    assert not list(tmp_path.iterdir())


def test_both_scores_of_graphsage_are_in_the_json_in_the_file_and_in_a_line_under_the_table(tmp_path):
    path = tmp_path / "few.csv"
    assert tapgnn("simulate", path, "--events", 300, "--accounts", 50, "--merchants", 20, "--days", 9).code == 0
    outcome = tapgnn(
        "compare",
        path,
        "--methods",
        "graphsage,recency",
        "--protocol",
        "paper",
        "--seeds",
        1,
        "--json",
        "--out",
        tmp_path,
    )
    rows = outcome.last["methods"]
    found = rows["graphsage"]["alternatives"]
    assert set(found) == {"logistic", "dot"}
    answered = rows["graphsage"]["runs"][0]["details"]["head"]
    assert rows["graphsage"]["auc_mean"] == found[answered]["auc_mean"]
    assert "alternatives" not in rows["recency"]
    line = f"graphsage, AUC by score: logistic {found['logistic']['auc_mean']:.4f}, dot {found['dot']['auc_mean']:.4f}"
    assert line in " ".join(outcome.err.split())
    with open(tmp_path / "comparison.csv", newline="") as stream:
        listed = {row["method"]: row for row in csv.DictReader(stream)}
    assert list(listed) == ["graphsage", "graphsage-logistic", "graphsage-dot", "recency"]
    assert float(listed["graphsage-dot"]["auc_mean"]) == found["dot"]["auc_mean"]
    assert listed["graphsage-dot"]["sees_history"] == listed["graphsage"]["sees_history"] == "False"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--methods", "tng"), "there is no method 'tng'; the methods are tapgnn"),
        (("--methods", ","), "no method was given"),
        (("--methods", "recency", "--protocol", "odd"), "protocol 'odd' is not one of"),
        (("--methods", "recency", "--seeds", 0), "seeds, processes and threads must be at least 1"),
    ],
)
def test_a_wrong_request_is_one_line(log, words, says):
    assert says in tapgnn("compare", log, *words).err.splitlines()[-1]


def test_a_place_that_cannot_be_written_to_is_refused_before_the_work(log, tmp_path):
    (tmp_path / "file").write_text("")
    outcome = tapgnn("compare", log, "--methods", "recency", "--out", tmp_path / "file")
    assert outcome.code == 2
    assert "is a file; pass the name of a folder" in outcome.err
    assert "recency" not in outcome.err
