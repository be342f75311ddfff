"""fit and evaluate: what they write, that a training can be stopped and taken up again, what stands in the JSON."""

import json
import os
import re
import signal

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tapgnn import TAPGNN
from tapgnn.cli.results import verdict
from tapgnn.data import load_dataset, read_events
from tapgnn.data.splits import split_paper
from tapgnn.evaluation import evaluate as library_evaluate
from tapgnn.events import events_fingerprint
from tapgnn.threads import set_threads
from tests.cli.command import SMALL, started, tapgnn
from tests.data.logs import put
from tests.full_disk import small_disk

FILES = {"checkpoint.safetensors", "estimator.safetensors", "fit.json", "metrics.jsonl", "model.json", "report.html"}
FILES |= {"schema.json", "state.safetensors", "vocabulary.json", "weights.safetensors"}


@pytest.fixture
def one_thread():
    """--threads is for the whole process."""
    yield ("--threads", "1")
    set_threads(1)


def points(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "events_per_s"} for line in lines]


def test_fit_writes_a_model_metrics_results_and_a_report(fitted, log):
    folder, outcome = fitted
    assert {path.name for path in folder.iterdir()} == FILES
    assert outcome.out.count("\n") == 1
    assert outcome.last == json.loads((folder / "fit.json").read_text())
    assert outcome.last["name"] == "payments.csv"
    assert outcome.last["best_validation"] == max(point["validation"] for point in points(folder))
    labelled = outcome.last["classification"]
    assert labelled["positives"] == 150
    assert {"test_ap", "precision_0.01", "recall_0.001", "calibration_error"} <= set(labelled)
    assert {"new pair", "trees, columns", "trees, counts"} <= set(labelled["baselines"])
    assert outcome.last["data_sha256"] == events_fingerprint(load_dataset(log))
    page = (folder / "report.html").read_text()
    assert "imulated" in page
    assert "recency" in page
    assert "validation AUC" in outcome.err
    assert "alerts on the riskiest 0.1%" in outcome.err
    assert re.findall(r'<section id="([a-z-]+)"', page)[0] == "classification"
    assert "Precision, riskiest 1.0% of events" in page
    assert "trees, columns" in page


def test_console_report_and_files_tell_one_throughput(fitted):
    folder, outcome = fitted
    told = f"{outcome.last['events_per_s']:,.0f} events/s"
    validations = [line for line in outcome.err.splitlines() if "validation AUC" in line and "events/s" in line]
    assert told in validations[-1]
    assert f"Training throughput: {told}." in (folder / "report.html").read_text()
    last = (folder / "metrics.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["events_per_s"] == outcome.last["events_per_s"]


def test_the_report_of_a_fit_speaks_of_validation_and_not_of_a_test(model):
    page = (model / "report.html").read_text()
    assert "Validation AUC" in page
    assert "validation period" in page
    assert "Test AUC" not in page
    assert "test period" not in page


def test_a_model_is_not_written_over_unless_that_is_asked_for(log, tmp_path):
    options = ("fit", log, "--out", tmp_path, *SMALL)
    assert tapgnn(*options).code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert "already contains a model; pass --force" in tapgnn(*options).refusal
    assert "not both" in tapgnn(*options, "--force", "--resume").refusal
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "model.json").unlink()
    assert "already contains a model" in tapgnn(*options).refusal
    assert tapgnn(*options, "--force", "--seed", 1, "--json").last["settings"]["training"]["seed"] == 1
    assert TAPGNN.load(tmp_path).seed == 1


def test_a_training_that_begins_anew_leaves_nothing_of_the_old_one_to_resume(log, tmp_path, monkeypatch):
    options = ("fit", log, "--out", tmp_path, *SMALL)
    assert tapgnn(*options).code == 0

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tapgnn.cli.progress.TrainingScreen.step", stop)
    assert tapgnn(*options, "--force").code == 130
    assert "holds no checkpoint" in tapgnn(*options, "--resume").refusal
    assert TAPGNN.load(tmp_path).seed == 0


def test_options_of_the_model_reach_it(log, tmp_path):
    options = ("--rates", 1, "--no-roles", "--half-lives", "0.5,0.1", "--clip", 2, "--cold-weight", 0.1)
    found = tapgnn("fit", log, "--out", tmp_path, *SMALL, *options, "--validations", 1, "--json").last
    model, training = found["settings"]["model"], found["settings"]["training"]
    assert (model["rates"], model["roles"], model["half_lives"]) == (1, False, [0.5, 0.1])
    assert (training["clip"], training["cold_weight"]) == (2.0, 0.1)
    config = TAPGNN.load(tmp_path).model_.config
    assert (config.rates, config.roles, config.half_lives) == (1, False, (0.5, 0.1))
    assert len(points(tmp_path)) == 1


def test_tensorboard_shows_what_the_metrics_say(log, tmp_path):
    curves = tmp_path / "curves"
    assert tapgnn("fit", log, "--out", tmp_path / "model", *SMALL, "--tensorboard", curves).code == 0
    found = EventAccumulator(str(curves)).Reload().Scalars("validation_auc")
    assert [point.value for point in found] == pytest.approx([p["validation"] for p in points(tmp_path / "model")])


def test_the_saved_model_has_observed_the_whole_log(model, log):
    found, events = TAPGNN.load(model), read_events(log)
    assert found.state_.clock == events.time[-1]
    assert found.state_.events == len(events)
    assert found.classifier_ is not None


def test_fit_gives_the_model_that_the_library_gives(model, log, tmp_path):
    found = TAPGNN.load(model)
    events = read_events(log)
    again = TAPGNN(width=16, epochs=1).fit(events)
    later = events.time[-1] + 5.0
    names = events.vocabulary.ids[:8]
    np.testing.assert_allclose(found.embed(names, later), again.embed(names, later), rtol=1e-4, atol=1e-5)


def test_a_training_that_is_taken_up_again_ends_as_one_that_was_not_stopped(log, tmp_path, one_thread):
    options = (*one_thread, "--width", 16, "--seed", 4)
    assert tapgnn("fit", log, "--out", tmp_path / "whole", *options, "--epochs", 2).code == 0
    assert tapgnn("fit", log, "--out", tmp_path / "parts", *options, "--epochs", 1).code == 0
    resumed = tapgnn("fit", log, "--out", tmp_path / "parts", *options, "--epochs", 2, "--resume", "--json")
    assert points(tmp_path / "parts") == points(tmp_path / "whole")
    assert resumed.last["model_sha256"] == json.loads((tmp_path / "whole" / "fit.json").read_text())["model_sha256"]


def test_ctrl_c_keeps_the_best_so_far_and_resume_goes_on(log, tmp_path, one_thread, heard):
    folder = tmp_path / "stopped"
    options = (*one_thread, "--width", 16, "--patience", 500, "--out", folder)
    process = started("fit", log, *options, "--epochs", 500, "--json")
    said = []
    for line in process.stderr:
        said.append(line)
        if re.match(r"epoch 1\.[1-9]", line):
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate()
    assert process.returncode == 130, "".join(said) + err
    assert "kept the best weights so far" in err
    assert "--resume" in err
    assert "Traceback" not in err
    assert json.loads(out.splitlines()[-1])["interrupted"] is True
    assert tapgnn("rank", folder, "a00015", "-k", 1).code == 0

    assert tapgnn("fit", log, *options, "--epochs", 3, "--resume").code == 0
    whole = tmp_path / "whole"
    tapgnn("fit", log, *options[:-1], whole, "--epochs", 3)
    assert points(folder) == points(whole)


def test_ctrl_c_before_the_first_validation_keeps_nothing(log, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tapgnn.cli.progress.TrainingScreen.step", stop)
    outcome = tapgnn("fit", log, "--out", tmp_path / "model", *SMALL)
    assert outcome.code == 130
    assert "nothing was saved" in outcome.err
    assert not (tmp_path / "model" / "model.json").exists()


@pytest.mark.usefixtures("heard")
def test_ctrl_c_ends_an_evaluation_and_not_only_one_seed(log, monkeypatch):
    def stop(*_):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("tapgnn.cli.progress.TrainingScreen.step", stop)
    before = signal.getsignal(signal.SIGINT)
    outcome = tapgnn("evaluate", log, *SMALL, "--seeds", 3, "--json")
    assert (outcome.code, outcome.out) == (130, "")
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("heard")
def test_ctrl_c_in_a_later_seed_keeps_the_complete_ones_and_says_so(log, tmp_path, monkeypatch):
    def stop(screen, step, seed=0):
        if seed == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("tapgnn.cli.progress.TrainingScreen.step", stop)
    outcome = tapgnn("evaluate", log, *SMALL, "--seeds", 3, "--json", "--out", tmp_path)
    assert outcome.code == 130
    assert outcome.last["seeds"] == [0]
    assert outcome.last["interrupted"] is True
    assert outcome.last == json.loads((tmp_path / "evaluation.json").read_text())
    assert "the results cover the 1 of 3 seeds that were completed" in outcome.err
    assert "interrupted before the others" in (tmp_path / "report.html").read_text()


def test_metrics_of_a_cut_line_and_of_epochs_to_be_done_again_are_dropped(log, tmp_path, one_thread):
    options = (*one_thread, "--width", 16, "--out", tmp_path)
    tapgnn("fit", log, *options, "--epochs", 1)
    first = points(tmp_path)
    with open(tmp_path / "metrics.jsonl", "a") as stream:
        stream.write(
            '{"epoch": 1.5, "loss": 9.0, "metric": "auc", "validation": 0.1, "events_per_s": 1.0}\n{"epoch": 2.0, "lo'
        )
    tapgnn("fit", log, *options, "--epochs", 2, "--resume")
    assert points(tmp_path)[:2] == first
    assert [round(point["epoch"], 1) for point in points(tmp_path)] == [0.6, 1.0, 1.6, 2.0]


def test_resume_needs_a_checkpoint_of_the_same_training(log, model, tmp_path):
    assert "holds no checkpoint" in tapgnn("fit", log, "--out", tmp_path, *SMALL, "--resume").refusal
    other = ("--width", 16, "--seed", 9, "--resume")
    assert "other data or settings" in tapgnn("fit", log, "--out", model, *other).refusal


@pytest.mark.parametrize(
    ("labels", "words", "says"),
    [
        (None, ("--classify",), "the log has no labels"),
        ([0] * 40, ("--classify",), "all have the same class"),
        ([1] * 20 + [0] * 20, ("--label", "kind"), "the next 15 % of the events all have the same class"),
    ],
)
def test_labels_that_cannot_be_learnt_are_refused_before_the_training(labels, words, says, tmp_path):
    header = "src,dst,time" + ("" if labels is None else ",kind")
    rows = [f"a{row % 5},b{row % 7},{row}" + ("" if labels is None else f",{labels[row]}") for row in range(40)]
    log = put(tmp_path, "log.csv", "\n".join([header, *rows]))
    named = () if labels is None else ("--label", "kind")
    assert says in tapgnn("fit", log, "--out", tmp_path / "model", *named, *words).refusal
    assert not (tmp_path / "model").exists()


def test_naming_a_label_learns_it_and_a_log_with_labels_offers_to(log, tmp_path):
    named = tapgnn("fit", log, "--out", tmp_path / "a", *SMALL, "--label", "is_fraud", "--json")
    assert named.last["classification"]["test_auc"] > 0
    silent = tapgnn("fit", log, "--out", tmp_path / "b", *SMALL, "--json")
    assert silent.last["classification"] is None
    assert "pass --classify to train a classifier" in silent.err
    refused = tapgnn("fit", log, "--out", tmp_path / "c", *SMALL, "--label", "is_fraud", "--no-classify", "--json")
    assert refused.last["classification"] is None


def test_evaluate_gives_what_the_library_gives_beside_the_trivial_methods(log, tmp_path):
    outcome = tapgnn("evaluate", log, *SMALL, "--protocol", "paper", "--seeds", 2, "--json", "--out", tmp_path)
    events = load_dataset(log)
    truth = library_evaluate(events, TAPGNN(width=16, epochs=1), "paper", 2).results
    assert outcome.last == {"name": "payments.csv", "simulated": True, **json.loads(json.dumps(truth))}
    assert outcome.last == json.loads((tmp_path / "evaluation.json").read_text())
    assert outcome.last["data_sha256"] == events_fingerprint(events)
    assert outcome.last["seeds"] == [0, 1]
    assert {"auc_mean", "auc_std", "baselines", "versions", "protocol"} <= set(outcome.last)
    assert all("auc_mean" in row for row in outcome.last["baselines"].values())
    assert outcome.out.count("\n") == 1
    assert all(name in outcome.err for name in ("tapgnn", *outcome.last["baselines"]))
    assert "seed 1  epoch 1.00 of 1" in outcome.err
    assert "imulated" in (tmp_path / "report.html").read_text()


@pytest.fixture(scope="module")
def fraudulent_log(tmp_path_factory):
    """A log with enough frauds among its test events (35 of 600) that their average precision is no matter of luck."""
    path = tmp_path_factory.mktemp("log") / "fraud.csv"
    size = ("--events", 4_000, "--accounts", 300, "--merchants", 40, "--days", 20, "--fraud", 0.1, "--seed", 1)
    assert tapgnn("simulate", path, *size).code == 0
    return path


def test_evaluate_classifies_events_with_every_seed_and_leads_with_it(fraudulent_log, tmp_path):
    log = fraudulent_log
    outcome = tapgnn("evaluate", log, *SMALL, "--seeds", 2, "--classify", "--json", "--out", tmp_path)
    found = outcome.last["classification"]
    assert [run["seed"] for run in found["runs"]] == [0, 1]
    assert found["test_ap_mean"] == pytest.approx(np.mean([run["test_ap"] for run in found["runs"]]))
    assert found["test_ap_std"] > 0
    assert found["test_positives"] >= 30
    assert found["test_ap_mean"] > 2 * found["test_positives"] / found["test_events"]
    assert {"new pair", "surprising link", "trees, columns", "trees, counts"} <= set(found["baselines"])
    for budget in ("0.001", "0.005", "0.01"):
        assert 0 <= found[f"precision_{budget}_mean"] <= 1
        assert 0 <= found[f"recall_{budget}_mean"] <= 1
    assert "event classification, 600 events" in outcome.err
    page = (tmp_path / "report.html").read_text()
    assert "Test AP, event classification" in page
    assert re.findall(r'<section id="([a-z-]+)"', page)[0] == "classification"
    for words in ("trees, columns", "0.1% of events", "0.5% of events", "Calibration", "AUC over the test period"):
        assert words in page
    silent = tapgnn("evaluate", log, *SMALL, "--seeds", 1, "--json", "--out", tmp_path)
    assert silent.last["classification"] is None
    assert "pass --classify" in silent.err


def test_the_paper_protocol_classifies_representations_on_its_own_parts(log):
    found = library_evaluate(load_dataset(log), TAPGNN(width=8, epochs=1), "paper", 1, classify=True)
    assert found.results["classification"]["protocol"] == "paper"
    assert found.results["classification"]["test_events"] == len(split_paper(load_dataset(log)).test)


def test_labels_that_evaluate_cannot_learn_are_refused_before_the_training(tmp_path):
    rows = "\n".join(f"a{row % 5},b{row % 7},{row}" for row in range(40))
    log = put(tmp_path, "log.csv", f"src,dst,time\n{rows}\n")
    assert "the log has no labels" in tapgnn("evaluate", log, "--classify", "--out", tmp_path / "x").refusal
    assert not (tmp_path / "x").exists()


def test_the_strict_protocol_is_the_default_and_the_table_goes_to_standard_output(log):
    outcome = tapgnn("evaluate", log, *SMALL, "--seeds", 1)
    assert outcome.code == 0
    assert "protocol strict" in outcome.out
    assert "MRR" in outcome.out
    for kind in ("AUC by negative type", "seen nodes", "unseen nodes", "historical", "inductive"):
        assert kind in outcome.out
    assert "the best trivial method" in outcome.err


def test_evaluate_always_leaves_results_and_a_report(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = tapgnn("evaluate", log, *SMALL, "--seeds", 1, "--json")
    folder = tmp_path / "tapgnn-evaluation" / "payments.csv"
    assert outcome.out.count("\n") == 1
    assert outcome.last == json.loads((folder / "evaluation.json").read_text())
    assert "imulated" in (folder / "report.html").read_text()
    assert "tapgnn-evaluation/payments.csv/report.html (--out chooses the folder)" in outcome.err


@pytest.mark.parametrize("command", ["evaluate", "fit"])
def test_a_place_that_cannot_be_written_is_refused_before_the_training(command, log, tmp_path):
    put(tmp_path, "file", "")
    for out in (tmp_path / "file", tmp_path / "file" / "below" / "it"):
        assert "is a file; pass the name of a folder" in tapgnn(command, log, "--out", out).refusal


def test_a_full_disk_is_one_line_and_leaves_no_half_of_a_file(log, tmp_path):
    with small_disk(tmp_path / "disk", 65_536) as disk:
        outcome = tapgnn("fit", log, "--out", disk / "model", *SMALL)
        assert outcome.code == 2
        said = outcome.err.splitlines()[-1]
        assert said.startswith(f"tapgnn: {disk / 'model'}")
        assert "No space left on device; make room" in said
        assert "Traceback" not in outcome.err
        assert not [path.name for path in (disk / "model").iterdir() if path.name.endswith(".part")]


def test_results_are_printed_even_where_the_files_cannot_be_written(log, tmp_path):
    (tmp_path / "evaluation.json").mkdir()
    outcome = tapgnn("evaluate", log, *SMALL, "--seeds", 1, "--json", "--out", tmp_path)
    assert outcome.code == 2
    assert outcome.last["auc_mean"] > 0.5
    assert "Is a directory" in outcome.err


def test_resume_refuses_another_log_of_the_same_length(log, tmp_path):
    head, *rows = log.read_text().splitlines()
    other = put(tmp_path, "other.csv", "\n".join([head, *(row.replace("m00", "x00") for row in rows)]) + "\n")
    assert tapgnn("fit", log, "--out", tmp_path / "model", *SMALL).code == 0
    again = ("fit", other, "--out", tmp_path / "model", "--width", 16, "--epochs", 2, "--resume")
    assert "other data or settings" in tapgnn(*again).refusal


def test_a_simulation_with_too_little_fraud_names_the_option(tmp_path):
    path = tmp_path / "few.csv"
    tapgnn("simulate", path, "--events", 500, "--accounts", 60, "--merchants", 20, "--days", 9, "--fraud", 0.002)
    refusal = tapgnn("fit", path, "--out", tmp_path / "model", "--classify").refusal
    assert "more fraud with --fraud 0.05, or omit --classify and --label" in refusal


@pytest.mark.parametrize(
    ("own", "rival", "spread", "says"),
    [
        (0.9, 0.8, 0.0, "AUC 0.9000, 0.1000 above the best trivial method, recency (0.8000)"),
        (0.8, 0.9, 0.0, "0.1000 below the best trivial method, recency (0.9000): on this log the trivial method is"),
        (0.90002, 0.9, 0.0, "AUC 0.9000, level with the best trivial method, recency (0.9000)"),
        (0.9, 0.9, 0.0, "AUC 0.9000, level with the best trivial method, recency (0.9000)"),
        (
            0.9,
            0.901,
            0.002,
            "level with the best trivial method, recency (0.9010): the difference is within the standard deviation",
        ),
    ],
)
def test_a_verdict_does_not_call_a_tie_a_defeat(own, rival, spread, says):
    rows = {
        "tapgnn": {"auc_mean": own, "auc_std": spread},
        "recency": {"auc_mean": rival},
        "popularity": {"auc_mean": 0.5},
    }
    assert says in verdict(rows)
