"""reproduce, killed at random moments, ends in the files of one that was left alone."""

import contextlib
import hashlib
import json
import signal
import subprocess

import numpy as np
import pytest

from tests.cli.command import started

# Of a run, what another run of the same has otherwise.
TIMES = {"seconds", "train_seconds", "train_cpu_seconds", "query_ms", "memory_mb"}
WORDS = ("reproduce", "links", "--quick", "--datasets", "fb-forum", "--seeds", 1, "--processes", 2, "--json")
METHODS = ("--methods", "recency,popularity,edgebank,pair-count,local-global")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with random events in place of fb-forum, as many as it has, whose checksum is noted."""
    rng, size = np.random.default_rng(0), 33_720
    src, dst = (90 * rng.random((2, size)) ** 2).astype(int)
    rows = "".join(f"{u},{v + 100},{when},1\n" for u, v, when in zip(src, dst, range(size), strict=True))
    path = tmp_path / "data" / "fb-forum.edges"
    path.parent.mkdir()
    path.write_text("from_node_id,to_node_id,timestamp,state_label\n" + rows)
    path.with_name("fb-forum.edges.sha256").write_text(hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setenv("TAPGNN_DATA", str(path.parent))


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return value


def content(folder):
    """The files of a folder by name; a kill in the middle of a write may leave a part of a file, which is none."""
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file() and path.suffix != ".part"}
    return {
        str(name): without_times(json.loads(path.read_text())) if path.suffix == ".json" else path.read_bytes()
        for name, path in files.items()
    }


def test_a_reproduction_that_is_killed_at_random_moments_ends_in_the_same_files(data, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    alone = started(*WORDS, *METHODS, "--out", whole)
    out, err = alone.communicate()
    assert alone.returncode == 0, err
    rng, kept = np.random.default_rng(), []
    for _ in range(3):
        process = started(*WORDS, *METHODS, "--out", killed)
        # After a run has finished, or at any moment of those that follow.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.stderr.readline()
            process.wait(timeout=rng.uniform(0, 0.6))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kept.append(len([*killed.rglob("runs/*/*/*.json")]))
    assert kept == sorted(kept)
    last = started(*WORDS, *METHODS, "--out", killed)
    again, err = last.communicate()
    assert last.returncode == 0, err
    assert json.loads(again.splitlines()[-1]) == json.loads(out.splitlines()[-1])
    assert content(killed) == content(whole)
    assert len([*whole.rglob("runs/*/*/*.json")]) == 5
