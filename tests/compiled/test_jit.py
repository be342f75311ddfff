"""Compiled code is never stale: a change in any file that takes part in it compiles it anew."""

import shutil
import subprocess
import sys
from pathlib import Path

import tapgnn

PROGRAM = """
import numpy as np
from tapgnn.model.features.walk_sketch import _decay_to_queries

past, kept = np.array([[1.0, 0.0, 5.0, -np.inf, 1.0, 0.0]]), np.empty((1, 2))
_decay_to_queries(past, np.array([7.0]), np.array([3.0]), (0.0, 1.0, 1.0), np.array([[1.0], [0.0]]), kept)
print(round(-np.log(kept[0, 1])), sum(_decay_to_queries.stats.cache_hits.values()))
"""


def pause_and_hits(source):
    """What the compiled loop says, and whether it was found on disk."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True
    )
    return run.stdout.split()


def test_a_piece_that_is_inlined_from_another_file_is_never_the_one_of_before(tmp_path):
    shutil.copytree(Path(tapgnn.__file__).parent, tmp_path / "tapgnn", ignore=shutil.ignore_patterns("__pycache__"))
    assert pause_and_hits(tmp_path) == ["2", "0"]
    assert pause_and_hits(tmp_path) == ["2", "1"]
    other = tmp_path / "tapgnn" / "model" / "features" / "node_statistics.py"
    text = other.read_text()
    changed = text.replace("return max(row[LAST], row[LAST + 1])", "return max(row[LAST], row[LAST + 1]) - 1.0")
    assert changed != text
    other.write_text(changed)
    assert pause_and_hits(tmp_path) == ["3", "0"]
    (tmp_path / "tapgnn" / "report" / "layout.py").write_text("")
    assert pause_and_hits(tmp_path) == ["3", "1"]
