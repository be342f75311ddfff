"""The examples run, are short, and the notebook shows what it promises."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TASKS = (
    *("fraud_alerts", "recommend_items", "live_scoring"),
    *("embeddings_for_trees", "honest_comparison", "changed_behaviour"),
)


@pytest.mark.parametrize("name", TASKS)
def test_an_example_runs_and_is_short(name, tmp_path):
    path = EXAMPLES / f"{name}.py"
    assert len(path.read_text().splitlines()) < 60
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, path], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_notebook_runs_and_shows_a_log_a_model_and_a_comparison():
    book = json.loads((EXAMPLES / "first_look.ipynb").read_text())
    assert not [cell for cell in book["cells"] if cell.get("outputs")]
    code = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    assert sum(len(each.splitlines()) for each in code) < 60
    names: dict[str, object] = {}
    shown = []
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            *before, last = ast.parse("".join(cell["source"])).body
            exec(compile(ast.Module(before, []), "cell", "exec"), names)
            if not isinstance(last, ast.Expr):
                exec(compile(ast.Module([last], []), "cell", "exec"), names)
                continue
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            if hasattr(value, "_repr_html_"):
                shown.append(value._repr_html_())
    log, comparison, model = shown
    assert "2,500 events" in log
    assert "is_fraud" in log or "label" in log
    assert all(name in comparison for name in ("tapgnn", "recency", "auc"))
    assert "FactClassifier" in model
    assert "2,500 events up to" in model


def test_ids_from_a_file_cannot_put_markup_into_a_notebook():
    from tapgnn import Events

    shown = Events.from_arrays(["<script>alert(1)</script>"], ["b"], [1.0])._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
