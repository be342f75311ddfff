"""Errors give their cure in the words of the interface that shows it."""

import ast
import re
from pathlib import Path

import numpy as np

import tapgnn
from tapgnn import TAPGNN, Events
from tapgnn.data.writing import write_events
from tapgnn.errors import StateError, TapgnnError, advise
from tapgnn.online.server.http_errors import problem_from
from tests.cli.command import tapgnn as command

SOURCE = Path(tapgnn.__file__).parent
PYTHON = re.compile(r"\w+\(|\w+=['\"\w.]|`")


def texts(call):
    """The arguments of a call of `advise` that are cures, by interface."""
    names = ("kind", "what", "python", "command_line", "http")
    given = dict(zip(names, call.args, strict=False)) | {each.arg: each.value for each in call.keywords}
    return {name: ast.unparse(given[name]) for name in ("command_line", "http") if name in given}


def test_no_cure_for_the_command_line_or_for_http_is_in_python():
    seen = 0
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "advise":
                for interface, cure in texts(node).items():
                    assert not PYTHON.search(cure), (path, cure)
                    assert interface == "command_line" or not re.search(r"--\w|\bengine\b", cure), (path, cure)
                    seen += 1
    assert seen > 6


def test_http_and_the_command_line_show_their_own_words():
    error = advise(StateError, "it is closed", "open it again", "start the command again", "send the request again")
    assert str(error) == "it is closed; open it again"
    assert error.told("command_line") == "it is closed; start the command again"
    assert problem_from(error).detail.endswith("it is closed; send the request again")
    assert TapgnnError("plain").told("http") == "plain"


def test_events_that_a_saved_model_has_observed_are_refused_in_words_of_the_command_line(tmp_path):
    rng = np.random.default_rng(0)
    log = Events.from_arrays(rng.integers(0, 20, 300), rng.integers(20, 40, 300), np.arange(300.0))
    model = TAPGNN(width=8, epochs=1).fit(log)
    model.save(tmp_path / "model")
    write_events(log.slice(250, 300), tmp_path / "old.csv", model.schema)
    refused = command("rank", tmp_path / "model", "3", "--observe", tmp_path / "old.csv").refusal
    assert "pass a file of later events" in refused
    assert "late='merge'" not in refused
