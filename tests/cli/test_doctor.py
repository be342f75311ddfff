"""doctor: what is installed, and a test that says whether it works."""

from tapgnn import TAPGNN
from tests.cli.command import tapgnn


def test_it_names_versions_threads_folders_and_a_test_that_passes():
    shown = tapgnn("doctor", "--json")
    assert shown.code == 0, shown.err
    found = shown.last
    assert {"tapgnn", "python", "torch", "numba"} <= found["versions"].keys()
    assert "compiled loops" in found["folders"]
    assert found["devices"]["cpu"] == "used"
    assert found["test"]["failure"] is None
    assert "test: passed" in shown.err


def test_a_failure_is_reported_and_ends_with_exit_code_1(monkeypatch):
    def fail(self, folder):
        raise OSError("no space left")

    monkeypatch.setattr(TAPGNN, "save", fail)
    shown = tapgnn("doctor", "--json")
    assert shown.code == 1
    assert shown.last["test"]["failure"] == "OSError: no space left"
    assert "test: failed" in shown.err
