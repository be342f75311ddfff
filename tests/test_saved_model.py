"""A saved model is checked as a whole once, and then answers from its arrays as `TAPGNN.load` would."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tapgnn import TAPGNN, Events
from tapgnn.errors import ModelFileError, QueryError
from tapgnn.saved_model import CHECKED, SavedModel, open_model

NAMES = [f"n{row}" for row in range(40)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    generator = np.random.default_rng(0)
    src, dst = generator.choice(NAMES[:20], 400), generator.choice(NAMES[20:], 400)
    folder = tmp_path_factory.mktemp("saved") / "model"
    TAPGNN(width=8, epochs=1).fit(Events.from_arrays(src, dst, np.arange(400.0))).save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("TAPGNN_CACHE", str(tmp_path / "cache"))
    return shutil.copytree(saved, tmp_path / "model")


def test_it_answers_as_the_whole_model_does(folder):
    quick, whole = open_model(folder), TAPGNN.load(folder)
    assert isinstance(quick, SavedModel)
    asked, when = ["n0", "n1", "nobody"], [500.0, 600.0, 700.0]
    np.testing.assert_array_equal(quick.embed(asked, when), whole.embed(asked, when))
    np.testing.assert_allclose(quick.score(asked, asked[::-1]), whole.score(asked, asked[::-1]), rtol=1e-4)
    for found, expected in zip(quick.rank(asked, k=3), whole.rank(asked, k=3), strict=True):
        assert [name for name, _ in found] == [name for name, _ in expected]
        np.testing.assert_allclose([score for _, score in found], [score for _, score in expected], rtol=1e-4)
    assert quick.rank("n0", among=[]) == []


def test_a_question_about_the_past_is_refused_as_by_the_whole_model(folder):
    for ask in (lambda model: model.score(["n0"], ["n20"], [3.0]), lambda model: model.embed(["n0"], [3.0])):
        said = []
        for model in (open_model(folder), TAPGNN.load(folder)):
            with pytest.raises(QueryError) as caught:
                ask(model)
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_a_model_that_was_checked_is_opened_without_torch_and_compiled_code(folder):
    program = (
        "import sys; from tapgnn.cli import main; code = main(['rank', sys.argv[1], 'n0']);"
        "print(code, sorted({'torch', 'numba', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program, folder], capture_output=True, text=True, check=True, env={**os.environ}
        ).stdout
        for _ in range(2)
    ]
    assert "'torch'" in said[0]
    assert said[1].splitlines()[-1] == "0 []"
    # What is printed does not depend on which of them checked the model.
    assert said[0].splitlines()[:-1] == said[1].splitlines()[:-1]


def test_a_checked_model_that_changed_is_refused_as_by_the_whole_model(folder):
    open_model(folder)
    path = folder / "state.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\7")
    with pytest.raises(ModelFileError, match=r"state\.safetensors is damaged"):
        open_model(folder)


def test_another_model_json_is_checked_anew(folder, tmp_path):
    open_model(folder)
    manifest = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(manifest))
    assert isinstance(open_model(folder), SavedModel)
    assert len((tmp_path / "cache" / CHECKED).read_text().split()) == 2


def test_where_nothing_can_be_noted_a_model_still_answers(folder, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TAPGNN_CACHE", str(tmp_path / "file" / "cache"))
    assert len(open_model(folder).rank("n0", k=2)) == 2
