"""The examples of the README run exactly as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), flags=re.DOTALL)


def run(command, folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )


@pytest.mark.parametrize("code", blocks("python"))
def test_the_python_example_runs_as_printed(code, tmp_path):
    done = run([sys.executable, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "m0" in done.stdout
    assert (tmp_path / "model" / "model.json").is_file()


@pytest.mark.parametrize("code", blocks("sh"))
def test_the_command_line_example_runs_as_printed(code, tmp_path):
    done = run(["bash", "-e", "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model" / "report.html").is_file()


def test_both_examples_are_there_and_short():
    assert len(blocks("python")) == len(blocks("sh")) == 1
    assert len(blocks("python")[0].strip().splitlines()) <= 10
    assert len(blocks("sh")[0].strip().splitlines()) <= 5


def test_every_link_leads_to_a_file():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text()):
        assert (README.parent / target).is_file(), target
