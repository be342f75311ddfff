"""The runner: every run once, whatever ended the runs before."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tapgnn.errors import ConfigError
from tapgnn.evaluation.revisions import REVISIONS
from tapgnn.evaluation.runner import Run, older_runs, perform_runs
from tapgnn.experiments.writing import write_results
from tests.evaluation.sums import METHODS, SEEDS, experiment

TWO = METHODS[:2]


def sums(folder):
    """What the folder holds: by run, the number."""
    return {each.run: each.found["auc"] for each in experiment().finished(folder)}


def run(folder, runs, sums=None, **options):
    """The runs that were started, and how many failed."""
    started = []

    def tell(progress):
        if progress.found is None:
            started.append(progress.run)

    failed = perform_runs(sums or experiment(), runs, folder, listener=tell, **options)
    return started, failed


def test_every_run_is_done_once_in_a_process_of_its_own(tmp_path):
    runs = experiment().runs(methods=TWO, seeds=1)
    assert run(tmp_path, runs, processes=2) == (runs, 0)
    assert run(tmp_path, runs) == ([], 0)
    found = [each.found["process"] for each in experiment().finished(tmp_path)]
    assert len({*found, os.getpid()}) == len(runs) + 1


def test_a_reproduction_that_is_killed_anywhere_goes_on_and_ends_in_the_same_numbers(tmp_path):
    runs = experiment().runs(methods=TWO)
    run(tmp_path / "whole", runs)
    for steps in (3, 6):
        command = [sys.executable, "-m", "tests.evaluation.sums", tmp_path / "killed", str(steps)]
        assert subprocess.run(command).returncode == -signal.SIGKILL
        kept = sums(tmp_path / "killed")
        assert 0 < len(kept) < len(runs)
    started, _ = run(tmp_path / "killed", runs)
    assert {*started} == {*runs} - {*kept}
    assert sums(tmp_path / "killed") == sums(tmp_path / "whole")
    files = [sorted(path.name for path in (tmp_path / name).rglob("*")) for name in ("killed", "whole")]
    assert files[0] == files[1]


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    def stop(progress):
        if progress.found is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform_runs(experiment(), experiment().runs(methods=TWO), tmp_path, processes=2, listener=stop)
    assert len(sums(tmp_path)) == 1


def test_a_failed_run_is_counted_told_and_tried_again(tmp_path):
    runs = [Run("one", "fails", 0), Run("one", "plus", 0)]
    assert run(tmp_path, runs) == (runs, 1)
    values = json.loads((tmp_path / runs[0].place).read_text())
    assert values["found"] == {"error": "EventError: no such sum"}
    assert [*sums(tmp_path)] == runs[1:]
    assert run(tmp_path, runs) == (runs[:1], 1)


def test_a_run_of_other_settings_or_of_a_quick_reproduction_does_not_count(tmp_path):
    runs = [Run("two", "plus", 1)]
    run(tmp_path, runs)
    other = experiment(settings=lambda run: {"rate": 0.1})
    assert [*other.finished(tmp_path)] == []
    assert run(tmp_path, runs, other)[0] == runs
    assert [*sums(tmp_path)] == []
    assert run(tmp_path, experiment().runs(["two"], ["plus"], 2, quick=True)[1:])[0] == [Run("two", "plus", 1, True)]


def test_a_run_of_older_code_counts_until_it_is_repeated_on_request(tmp_path, monkeypatch):
    runs, folder = experiment().runs(methods=TWO, seeds=1), tmp_path / "sums"
    run(folder, runs)
    monkeypatch.setitem(REVISIONS, "evaluation", REVISIONS["evaluation"] + 1)
    run(folder, runs[:1], again=True)
    assert older_runs(experiment(), runs, folder) == runs[1:]
    write_results(experiment(), tmp_path)
    revisions = json.loads((folder / "sums.json").read_text())["revisions"]
    assert revisions == {"plus": {"evaluation": REVISIONS["evaluation"] - 1}, "times": {"evaluation": 0}}
    assert run(folder, runs) == ([], 0)
    assert run(folder, runs, again=True) == (runs[1:], 0)
    assert older_runs(experiment(), runs, folder) == []


@pytest.mark.parametrize("older", [True, False])
def test_a_file_without_revisions_is_of_the_first_code(tmp_path, monkeypatch, older):
    runs = [Run("two", "plus", 1)]
    run(tmp_path, runs)
    values = json.loads((tmp_path / runs[0].place).read_text())
    del values["revisions"]
    (tmp_path / runs[0].place).write_text(json.dumps(values))
    monkeypatch.setitem(REVISIONS, "evaluation", int(older))
    assert older_runs(experiment(), runs, tmp_path) == runs * older


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"found": 3}'])
def test_a_damaged_file_is_a_missing_one(tmp_path, broken):
    runs = [Run("two", "plus", 1)]
    run(tmp_path, runs)
    (tmp_path / runs[0].place).write_text(broken)
    assert sums(tmp_path) == {}
    assert run(tmp_path, runs) == (runs, 0)
    assert sums(tmp_path) == {runs[0]: 3.0}


def test_seeds_come_first_so_that_a_part_of_a_reproduction_covers_everything():
    assert [run.seed for run in experiment().runs()] == sorted([*range(SEEDS)] * 6)


def test_a_wrong_request_is_an_error():
    with pytest.raises(ConfigError, match="no data set 'three' in this experiment; it has one, two"):
        experiment().runs(datasets=["three"])
    with pytest.raises(ConfigError, match="no method 'minus'"):
        experiment().runs(methods=["minus"])
    with pytest.raises(ConfigError, match="seeds must be at least 1"):
        experiment().runs(seeds=0)
    with pytest.raises(ConfigError, match="processes and threads"):
        perform_runs(experiment(), [], None, processes=0)
