"""Every block of code in tutorials and how-to guides runs, in its order, in one folder for each page.

Blocks of `python` and `sh` are run; `console` shows a session with a server or a tool that a test machine may not have,
and its commands and options are compared with the program, as are those of the README. Pages of reference and
explanation have doctests.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from tapgnn.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
GUIDES = sorted([*DOCS.glob("tutorials/*.md"), *DOCS.glob("how-to/*.md")])
PAGES = sorted([*DOCS.rglob("*.md"), DOCS.parent / "README.md"])


def blocks(page):
    return BLOCK.findall(page.read_text())


def runnable(page):
    return [(language, code) for language, code in blocks(page) if language in ("python", "sh")]


@pytest.mark.parametrize("page", [page for page in GUIDES if runnable(page)], ids=lambda page: page.stem)
def test_the_blocks_of_a_guide_run_as_printed(page, tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    for language, code in runnable(page):
        command = [sys.executable, "-W", "ignore", "-c", code] if language == "python" else ["bash", "-e", "-c", code]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{code}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_settings_that_are_shown_exist(page):
    for language, code in blocks(page):
        if language == "toml":
            tomllib.loads(code)
        if language not in ("sh", "console"):
            continue
        for line in code.replace("\\\n", " ").splitlines():
            words = line.removeprefix("$ ").partition(" #")[0]
            if words.startswith("tapgnn ") and (language == "sh" or line.startswith("$ ")):
                check(shlex.split(words)[1:])


def check(words):
    """Refuse a command or an option that does not exist."""
    command = typer.main.get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, words
        command, words = command.commands[words[0]], words[1:]
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}
    for word in words:
        if re.match(r"--?[a-z]", word):
            assert word.partition("=")[0] in known, word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_block_says_what_language_it_is(page):
    for language, code in blocks(page):
        assert language, code[:80]
