"""sweep: the file of the best settings is one that fit takes, and the sweep goes on where it was."""

import json
import tomllib

import pytest

from tapgnn import TAPGNN
from tests.cli.command import tapgnn

WORDS = ("--vary", "width=8,12", "--vary", "learning-rate=2e-3,4e-3", "--epochs", 1, "--sketch-width", 8, "--no-roles")


@pytest.fixture(scope="module")
def swept(log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    outcome = tapgnn("sweep", log, *WORDS, "--seeds", 1, "--trials", 3, "--out", folder, "--json")
    assert outcome.code == 0, outcome.err
    return folder, outcome


def test_the_best_of_the_trials_is_tested_beside_the_trivial_methods(swept):
    folder, outcome = swept
    found = outcome.last
    assert json.loads((folder / "sweep.json").read_text()) == found
    complete = [trial["validation"] for trial in found["trials"] if trial["state"] == "complete"]
    assert found["best"]["validation"] == max(complete)
    assert len(found["trials"]) == 3
    tested = found["test"]
    assert tested["settings"]["model"]["width"] == found["best"]["settings"]["width"]
    assert tested["selection_auc_mean"] == found["best"]["validation"]
    assert "recency" in tested["baselines"]
    assert "[3/3]" in outcome.err


def test_fit_takes_the_file_of_the_best_settings(swept, log, tmp_path):
    folder, outcome = swept
    best = outcome.last["best"]["settings"]
    written = tomllib.loads((folder / "best.toml").read_text())
    assert {"width", "learning-rate", "epochs", "sketch-width", "roles"} <= set(written)
    fitted = tapgnn("fit", log, "--config", folder / "best.toml", "--out", tmp_path)
    assert fitted.code == 0, fitted.err
    model = TAPGNN.load(tmp_path)
    assert (model.model_.config.width, model.learning_rate) == (best["width"], best["learning_rate"])
    assert (model.model_.config.roles, model.model_.config.sketch_width, model.epochs) == (False, 8, 1)


def test_more_trials_add_to_those_that_are_there_and_other_settings_are_refused(swept, log):
    folder, outcome = swept
    more = tapgnn("sweep", log, *WORDS, "--seeds", 1, "--trials", 4, "--out", folder, "--json")
    assert more.last["trials"][:3] == outcome.last["trials"]
    assert "[3/4]" not in more.err
    assert "[4/4]" in more.err
    refusal = tapgnn("sweep", log, *WORDS, "--clip", 2, "--trials", 4, "--out", folder)
    assert refusal.code == 2
    assert "holds a sweep of other settings; pass another --out" in refusal.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "Missing option '--vary'"),
        (("--vary", "wdith=3"), "there is no setting 'wdith'"),
        (("--vary", "width=8", "--trials", 0), "trials must be at least 1"),
        (("--vary", "width=8", "--epochs", 0), "epochs must be at least 1"),
    ],
)
def test_a_wrong_request_is_one_line(log, tmp_path, words, says):
    outcome = tapgnn("sweep", log, *words, "--out", tmp_path)
    assert outcome.code == 2
    assert says in outcome.err.splitlines()[-1]
