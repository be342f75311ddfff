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


RECORDS = """
import sys
import numpy as np
from tapgnn.compiled import projection_fused
from tapgnn.compiled.handle import make_handle

make_handle((getattr(projection_fused, sys.argv[1])(*np.zeros((4, 2))),))
print(sum(make_handle.stats.cache_hits.values()))
"""


def printed(source, program, *arguments):
    """What a program prints that runs on the sources in a folder."""
    command, path = [sys.executable, "-c", program, *arguments], {"PYTHONPATH": str(source)}
    return subprocess.run(command, env=path, capture_output=True, text=True, check=True).stdout.split()


def pause_and_hits(source):
    """What the compiled loop says, and whether it was found on disk."""
    return printed(source, PROGRAM)


def test_what_was_compiled_for_a_record_that_is_gone_is_not_looked_at(tmp_path):
    shutil.copytree(Path(tapgnn.__file__).parent, tmp_path / "tapgnn", ignore=shutil.ignore_patterns("__pycache__"))
    assert printed(tmp_path, RECORDS, "JoinWeights") == ["0"]
    assert printed(tmp_path, RECORDS, "JoinWeights") == ["1"]
    for path in tmp_path.rglob("*.py"):
        path.write_text(path.read_text().replace("JoinWeights", "OtherWeights"))
    assert printed(tmp_path, RECORDS, "OtherWeights") == ["0"]


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
