"""A fit as a run of MLflow, in a store of files."""

import json
import sys

import pytest

from tapgnn import TAPGNN
from tapgnn.cli.mlflow_log import MLflowLog
from tapgnn.errors import ConfigError
from tapgnn.training.link_prediction import TrainingProgress
from tests.cli.command import SMALL, tapgnn

mlflow = pytest.importorskip("mlflow")


@pytest.fixture
def address(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return (tmp_path / "store").as_uri()


def test_a_run_has_the_settings_curves_results_and_the_model(log, address, tmp_path):
    folder = tmp_path / "payments-model"
    outcome = tapgnn("fit", log, "--out", folder, *SMALL, "--mlflow", address, "--json")
    assert outcome.code == 0, outcome.err
    client = mlflow.MlflowClient(tracking_uri=address)
    experiment = client.get_experiment_by_name(log.name)
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.status, run.info.run_name) == ("FINISHED", "payments-model")
    assert run.data.params["training.epochs"] == "1"
    assert run.data.params["model.width"] == "16"
    assert run.data.tags["model_sha256"] == outcome.last["model_sha256"]
    assert run.data.metrics["validation.auc"] == outcome.last["validation"]["auc"]
    points = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    curve = client.get_metric_history(run.info.run_id, "validation_auc")
    assert [point.value for point in curve] == [point["validation"] for point in points]
    assert {item.path for item in client.list_artifacts(run.info.run_id)} >= {"model", "fit.json", "report.html"}
    again = client.download_artifacts(run.info.run_id, "model", str(tmp_path))
    nodes = TAPGNN.load(folder).vocabulary.ids[:3]
    assert TAPGNN.load(again).rank(nodes, k=2) == TAPGNN.load(folder).rank(nodes, k=2)


def test_a_fit_without_results_is_a_run_that_failed(address):
    step = TrainingProgress(0, 100, 100, 0.6, 1100.0, 0.8)
    tracked = MLflowLog(address, "model")
    tracked.open("payments")
    tracked.step(step)
    tracked.close()
    client = mlflow.MlflowClient(tracking_uri=address)
    (run,) = client.search_runs([client.get_experiment_by_name("payments").experiment_id])
    assert run.info.status == "FAILED"
    assert run.data.metrics["loss"] == 0.6


def test_an_address_that_mlflow_refuses_is_one_line_before_any_training(log, tmp_path):
    said = tapgnn("fit", log, "--out", tmp_path / "model", *SMALL, "--mlflow", "nowhere://else").refusal
    assert said.startswith("tapgnn: --mlflow nowhere://else: ")
    assert not (tmp_path / "model").exists()


def test_mlflow_that_is_not_installed_is_a_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ConfigError, match=r"pip install 'tapgnn\[mlflow\]'"):
        MLflowLog("file:///store", "model")
