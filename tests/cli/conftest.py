"""A small simulated log and a model fitted to it, both made by the command line once."""

import pytest

from tests.cli.command import SMALL, tapgnn


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory, monkeypatch):
    """What a command writes beside itself, or notes, stays out of the project and of the user's cache."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    monkeypatch.setenv("TAPGNN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "payments.csv"
    size = ("--events", 3_000, "--accounts", 300, "--merchants", 40, "--days", 20, "--fraud", 0.05, "--seed", 1)
    assert tapgnn("simulate", path, *size).code == 0
    return path


@pytest.fixture(scope="session")
def fitted(log, tmp_path_factory):
    """The folder of the model, and what the command that made it said."""
    folder = tmp_path_factory.mktemp("model")
    outcome = tapgnn("fit", log, "--out", folder, *SMALL, "--classify", "--json")
    assert outcome.code == 0, outcome.err
    return folder, outcome


@pytest.fixture(scope="session")
def model(fitted):
    return fitted[0]
