"""--config: the options of a command from a file, checked as on the command line."""

import pytest

from tapgnn.data import describe, read_events
from tests.cli.command import tapgnn
from tests.data.logs import put

ODD = "who,whom,when,amount\nann,bob,1,5\nbob,cat,2,7\n"
NAMES = 'src = "who"\ndst = "whom"\ntime = "when"\n'


def test_a_file_stands_for_the_options_and_the_command_line_wins(tmp_path):
    log = put(tmp_path, "odd.csv", ODD)
    config = put(tmp_path, "run.toml", f'{NAMES}features = ["amount"]\njson = true\n')
    facts = tapgnn("inspect", log, "--config", config).last
    assert (facts["events"], facts["feature_width"]) == (2, 1)
    assert "no column 'nobody'" in tapgnn("inspect", log, "--config", config, "--src", "nobody").refusal


def test_hyphens_and_underscores_are_the_same_and_flags_are_true_or_false(tmp_path):
    log = put(tmp_path, "odd.csv", ODD + "cat,ann,soon,1\n")
    for line in ("skip-bad-rows = true", "skip_bad_rows = true"):
        config = put(tmp_path, "run.toml", f"{NAMES}{line}\n")
        outcome = tapgnn("inspect", log, "--config", config, "--json")
        assert outcome.last["events"] == 2
        assert "1 row skipped; first: odd.csv line 4: time 'soon'" in outcome.err
    config = put(tmp_path, "run.toml", f"{NAMES}skip_bad_rows = false\n")
    assert "line 4: time 'soon'" in tapgnn("inspect", log, "--config", config).refusal


def test_both_names_of_a_switch_work(tmp_path):
    log = put(tmp_path, "plain.csv", "1,2,3\n4,5,6\n")
    for line, count in (("no-header = true", 2), ("header = false", 2), ("no-header = false", None)):
        outcome = tapgnn("inspect", log, "--json", "--config", put(tmp_path, "run.toml", line))
        assert (outcome.last["events"] if count else outcome.code) == (count or 2)


def test_a_required_option_may_stand_in_the_file(tmp_path, log):
    config = put(tmp_path, "run.toml", f'out = "{tmp_path / "model"}"\nwidth = 16\nepochs = 1\nseed = 3\n')
    assert tapgnn("fit", log, "--config", config, "--json").last["settings"]["training"]["seed"] == 3
    assert (tmp_path / "model" / "model.json").is_file()


def test_numbers_name_columns_too(tmp_path):
    log = put(tmp_path, "plain.csv", "9,1,2,3\n9,4,5,6\n")
    config = put(tmp_path, "run.toml", "src = 2\ndst = 3\ntime = 4\nheader = false\n")
    expected = describe(read_events(log, src="2", dst="3", time="4", header=False))
    assert tapgnn("inspect", log, "--json", "--config", config).last["end"] == expected["end"] == 6.0


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("lerning_rate = 1", "run.toml: tapgnn fit has no option 'lerning_rate'; did you mean learning-rate?"),
        ("protocol = 'paper'", "has no option 'protocol'"),
        (
            "xyzzy = 1",
            "the options are bins, bipartite, block-rate, boolean, categorical, chunk, classify, clip, cold-weight",
        ),
        ("config = 'x'", "has no option 'config'"),
        ("[model]\nwidth = 3", "has no option 'model'"),
        ("width = 'wide'", "run.toml"),
        ("width = 1.5", "'--width'"),
        ("width = true", "width must be a number or a string, not True"),
        ("width = []", "width must be a number or a string, not []"),
        ("width = {a = 1}", "width must be a number or a string"),
        ("width = 2001-01-01", "width must be a number or a string"),
        ("resume = 1", "resume must be true or false, not 1"),
        ("width = ", "run.toml is not TOML"),
        ("width = 3\nwidth = 4", "run.toml is not TOML"),
        ("width = 0", "width must be at least 1"),
        ("learning-rate = 0.1\nlearning_rate = 0.2", "'learning_rate' is given twice, under different names"),
        ("statistics = true\nno-statistics = true", "'no-statistics' is given twice"),
    ],
)
def test_what_the_command_does_not_know_is_refused(line, says, tmp_path, log):
    config = put(tmp_path, "run.toml", line)
    assert says in tapgnn("fit", log, "--out", tmp_path / "model", "--config", config).refusal
    assert not (tmp_path / "model").exists()


def test_a_file_that_is_no_text_is_refused(tmp_path, log):
    config = put(tmp_path, "run.toml", b"\xff\xfe")
    assert "run.toml is not TOML" in tapgnn("inspect", log, "--config", config).refusal
