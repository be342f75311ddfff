"""The entry point: help that is true and quick, errors that are one line."""

import inspect
import os
import re
import shlex
import subprocess
import sys
import types
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import pytest
import typer

import tapgnn as package
from tapgnn import Config, cli
from tapgnn.cli import app, train
from tapgnn.cli.options import TrainingOptions
from tapgnn.data.reading.formats import FORMATS
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.errors import TapgnnError
from tapgnn.estimator import TAPGNN
from tapgnn.evaluation.protocols import PROTOCOLS
from tapgnn.kernels import KERNELS
from tapgnn.model.config import PRESETS
from tapgnn.training.link_prediction import Settings
from tests.cli.command import tapgnn
from tests.data.logs import put
from tests.data.reading.malformed import BAD, GOOD, LEGAL, damaged_texts, possible_counts

COMMANDS = (
    *("inspect", "simulate", "datasets"),
    *("evaluate", "compare", "sweep", "fit", "reproduce"),
    *("embed", "score", "rank", "classify"),
    *("serve", "replay", "migrate", "backup", "token"),
    *("export", "push", "pull", "doctor"),
)
TOKEN_COMMANDS = ("token new", "token list", "token revoke")


def test_help_names_every_command_and_every_command_has_help():
    for words in ((), ("--help",), ("-h",)):
        shown = tapgnn(*words)
        assert shown.code == 0
        assert all(name in shown.out for name in COMMANDS)
    for group in ("datasets", "token"):
        shown = tapgnn(group)
        assert (shown.code, shown.err) == (0, "")
        assert f"Usage: tapgnn {group}" in shown.out
    for name in (*COMMANDS, "datasets list", "datasets download", *TOKEN_COMMANDS):
        assert f"Usage: tapgnn {name}" in tapgnn(*name.split(), "--help").out


def test_the_commands_are_these_and_the_package_says_where_each_is():
    groups = [group.name for group in app.app.registered_groups]
    assert sorted([*(command.name for command in app.app.registered_commands), *groups]) == sorted(COMMANDS)
    told = cli.__doc__.split()
    for name in COMMANDS:
        assert {name, f"{name},", f"{name}:"} & set(told), name
    for path in Path(cli.__file__).parent.glob("[a-z]*.py"):
        assert path.name in told


def test_every_command_shows_examples_that_it_understands():
    for name in (*COMMANDS, "datasets list", "datasets download", *TOKEN_COMMANDS):
        if name in ("datasets", "token"):
            continue
        assert f"tapgnn {name}" in tapgnn(*name.split(), "--help").out.partition("Examples:")[2], name
        for line in app.EXAMPLES[name]:
            _, *words = shlex.split(line)
            assert " ".join(words).startswith(name)
            command = typer.main.get_command(app.app)
            for word in name.split():
                command, words = command.commands[word], words[1:]
            command.make_context(name, words)


def test_shells_complete_commands_and_options():
    for words, wanted in (("tapgnn ra", {"rank"}), ("tapgnn rank --que", {"--queries"})):
        asking = {"_TAPGNN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        command = [sys.executable, "-c", "import sys; from tapgnn.cli import main; sys.exit(main())"]
        done = subprocess.run(command, env={**os.environ, **asking}, capture_output=True, text=True)
        assert set(done.stdout.split()) == wanted


def test_version_is_that_of_the_package():
    assert tapgnn("--version").out == f"tapgnn {package.__version__}\n"


def test_help_names_every_choice_there_is():
    shown = " ".join(re.sub("[│╭╰─╮╯]", " ", tapgnn("evaluate", "--help").out).split())
    for name in (*FORMATS, *KERNELS, *PRESETS, *PROTOCOLS):
        assert name in shown


def in_words(value):
    """A value as help shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def told(adaptive, paper, published):
    """A default by preset, those that are the same told once."""
    if paper == published != adaptive:
        return f"{adaptive} (paper, published: {paper})"
    others = {"paper": paper, "published": published}
    other = "; ".join(f"{name}: {value}" for name, value in others.items() if value != adaptive)
    return f"{adaptive} ({other})" if other else adaptive


def test_the_defaults_that_help_shows_are_those_of_the_estimator():
    truth = TAPGNN().get_params()
    shown = {field.name: field.metadata["option"].show_default for field in fields(TrainingOptions)}
    for name in ("epochs", "vector_rate"):
        usual, others = shown.pop(name).rstrip(")").split(" (paper, published: ")
        values = [getattr(TAPGNN(each).settings(), name) for each in ("adaptive", "paper", "published")]
        assert [float(Fraction(text)) for text in (usual, others, others)] == values
    resolved = {name: TAPGNN(name).resolved()["model"] for name in ("adaptive", "paper", "published")}
    for name in [name for name in shown if name in resolved["adaptive"]]:
        assert shown.pop(name) == told(*(in_words(values[name]) for values in resolved.values())), name
    assert shown.pop("threads") == str(TrainingOptions().threads)
    assert shown.pop("device") is True
    assert TrainingOptions().device == "cpu"
    for name in ("preset", "select", "gradient"):
        assert shown.pop(name) == truth[name]
    assert {name: float(Fraction(text)) for name, text in shown.items()} == {name: truth[name] for name in shown}


@pytest.mark.parametrize("command", [train.fit, train.evaluate])
def test_every_option_of_model_and_training_is_one_of_the_command_line(command):
    measured = {"origin", "span", "unit", "events", "edge_features", "edge_categories"}
    measured |= {"node_features"}
    wanted = {field.name for kind in (Config, Settings) for field in fields(kind)} - measured
    offered = set(inspect.signature(command).parameters)
    assert wanted <= offered
    assert set(TAPGNN().get_params()) - {"options"} <= offered


def test_help_does_not_wait_for_torch():
    script = """
import sys
from tapgnn.cli import main
assert main(["--help"]) == main(["fit", "--help"]) == main(["--version"]) == 0
heavy = {"torch", "numba", "numpy", "polars", "sklearn"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_a_question_to_a_saved_model_loads_nothing_that_only_trains(tmp_path):
    log = simulate(events=400, accounts=60, merchants=20, seed=1)
    TAPGNN(epochs=1, width=8).fit(log).save(tmp_path / "model")
    script = f"""
import sys
from tapgnn.cli import main
assert main(["rank", {str(tmp_path / "model")!r}, "a00001", "-k", "3"]) == 0
heavy = {{"torch._dynamo", "sklearn", "pooch", "matplotlib", "pandas", "tapgnn.baselines"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("nothing", "No such command 'nothing'"),
        ("reproduce table-1", "there is no experiment 'table-1'; the experiments are data, links"),
        ("reproduce links --methods tng", "there is no method 'tng' in this experiment; it has"),
        ("reproduce links --datasets payments", "there is no data set 'payments' in this experiment; it has fb-forum"),
        ("reproduce links --seeds 0", "seeds must be at least 1, not 0"),
        ("fit log.csv", "Missing option '--out'"),
        ("fit", "Missing argument 'EVENTS'"),
        ("fit log.csv --out m --wdith 3", "--width"),
        ("fit log.csv --out m --width wide", "--width"),
        ("fit log.csv --out m --width 0", "width must be at least 1"),
        ("fit log.csv --out m --epochs 0", "epochs must be at least 1"),
        ("fit log.csv --out m --device xpu", "--device xpu: torch finds no xpu device on this machine; leave it out"),
        ("fit log.csv --out m --device gpu", "--device gpu is not the name of a device; leave it out"),
        ("fit log.csv --out m --dropout 2", "dropout must lie in"),
        ("fit log.csv --out m --seed -1", "seed must be a whole number from 0 to"),
        ("fit log.csv --out m --threads 0", "threads must be at least 1"),
        ("fit log.csv --out m --tensorboard b", "needs the package tensorboard"),
        ("fit log.csv --out m", "log.csv does not exist"),
        ("fit fb-form --out m", "did you mean fb-forum?"),
        ("fit . --out m", "is a folder"),
        ("evaluate log.csv --kernel gnc", "kernel 'gnc' is not one of gcn"),
        ("evaluate log.csv --preset best", "preset 'best' is not one of"),
        ("evaluate log.csv --format excel", "log.csv does not exist"),
        ("inspect log.csv --config none.toml", "none.toml cannot be read"),
        ("simulate log.xlsx", "the file name must end in one of .csv"),
        ("simulate log.csv --fraud 2", "fraud share from 0 to 0.5"),
        ("datasets download nothing", "there is no data set 'nothing'"),
        ("datasets download reddit", "tapgnn datasets download reddit --unverified"),
        ("datasets download reddit --unverified --url ftp://x", "is not an http or https address"),
        ("rank nowhere a", "is not a saved model"),
        ("embed nowhere", "pass either NODES, or --queries"),
        ("score nowhere --src a", "pass either both --src and --dst, or --queries"),
        ("rank nowhere a -k 0", "-k must be at least 1"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert says in tapgnn(*words.split()).refusal


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_file_is_one_line_and_exit_code_2_for_every_command(case, tmp_path):
    name, content, says = BAD[case]
    log = put(tmp_path, name, content)
    lines = {tapgnn(*words).refusal for words in (("inspect", log), ("evaluate", log), ("fit", log, "--out", tmp_path))}
    assert len(lines) == 1
    assert says in lines.pop()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("case", LEGAL)
def test_a_strange_but_legal_file_is_read_fully(case, tmp_path):
    name, content, count = LEGAL[case]
    assert tapgnn("inspect", put(tmp_path, name, content), "--json").last["events"] == count


@pytest.mark.parametrize("seed", range(100, 105))
def test_a_damaged_file_gives_all_its_events_or_one_line(seed, tmp_path):
    for damaged in damaged_texts(seed, 20):
        outcome = tapgnn("inspect", put(tmp_path, "log.csv", damaged), "--json")
        if outcome.code:
            assert "log.csv" in outcome.refusal
        else:
            assert outcome.last["events"] in possible_counts(damaged)


@pytest.mark.parametrize("command", ["inspect", "evaluate", "fit --out m"])
def test_every_command_refuses_a_malformed_file_alike(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(tmp_path, "log.csv", GOOD.replace(",2,1,", ",soon,1,"))
    name, *rest = command.split()
    says = "tapgnn: log.csv line 3: time 'soon' is not a number or an ISO date; fix the row or pass --skip-bad-rows"
    assert tapgnn(name, "log.csv", *rest).refusal == says
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv"]


def test_a_log_too_short_to_split_is_one_line(tmp_path):
    path = put(tmp_path, "log.csv", "src,dst,time\na,b,1\n")
    for words in (("evaluate", path), ("evaluate", path, "--protocol", "paper"), ("fit", path, "--out", tmp_path)):
        assert "distinct times" in tapgnn(*words).refusal
    assert "protocol 'odd' is not one of" in tapgnn("evaluate", path, "--protocol", "odd").refusal


def test_an_unforeseen_error_keeps_its_traceback(monkeypatch, tmp_path):
    broken = types.ModuleType("tapgnn.data.writing")
    monkeypatch.setitem(sys.modules, "tapgnn.data.writing", broken)
    with pytest.raises(ImportError):
        app.main(["simulate", str(tmp_path / "log.csv")])


def test_a_message_over_several_lines_becomes_one(monkeypatch):
    def refuse(*_, **__):
        raise TapgnnError("one\n  two")

    monkeypatch.setattr("tapgnn.data.find_dataset", refuse)
    assert tapgnn("datasets", "list").refusal == "tapgnn: one two"


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    blocked = put(tmp_path, "file", "")
    assert str(blocked) in tapgnn("simulate", blocked / "log.csv", "--events", 10).refusal


def test_ctrl_c_is_exit_code_130(monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tapgnn.data.find_dataset", stop)
    outcome = tapgnn("datasets", "list")
    assert (outcome.code, outcome.err) == (130, "tapgnn: stopped by Ctrl-C\n")
