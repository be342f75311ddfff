"""A training on the screen: a bar on a terminal, lines elsewhere; and TensorBoard."""

import io
import sys

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tapgnn.cli.progress import TensorBoardLog, TrainingScreen
from tapgnn.errors import ConfigError
from tapgnn.training.link_prediction import TrainingProgress

STEPS = [
    TrainingProgress(0, 50, 100, 0.7, None),
    TrainingProgress(0, 100, 100, 0.6, 1100.0, 0.8),
    TrainingProgress(1, 100, 100, 0.5, 1000.0, 0.75),
]


def shown(monkeypatch, terminal, seeds=1):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=80)
    monkeypatch.setattr("rich.console.Console", lambda stderr: console)
    screen = TrainingScreen("here it begins", 2, seeds)
    with screen.bar:
        for seed in range(seeds):
            for step in STEPS:
                screen.step(step, seed)
    return stream.getvalue()


def test_a_terminal_shows_a_bar_with_speed_loss_auc_and_remaining_time(monkeypatch):
    text = shown(monkeypatch, terminal=True)
    assert "here it begins" in text
    last = next(line for line in reversed(text.splitlines()) if "epoch" in line)
    for part in ("epoch 2/2", "events/s", "loss 0.500", "AUC 0.8000", "ETA", "━"):
        assert part in last
    assert "seed 2/2" in shown(monkeypatch, terminal=True, seeds=2)


def test_elsewhere_every_validation_is_a_line(monkeypatch):
    assert shown(monkeypatch, terminal=False).splitlines() == [
        "here it begins",
        "epoch 1.00 of 2  loss 0.6000  validation AUC 0.8000  1,100 events/s  best so far",
        "epoch 2.00 of 2  loss 0.5000  validation AUC 0.7500  1,000 events/s",
    ]
    lines = shown(monkeypatch, terminal=False, seeds=2).splitlines()
    assert lines[3].startswith("seed 1  epoch 1.00 of 2")
    assert lines[3].endswith("best so far")


def test_tensorboard_that_is_not_installed_is_a_clear_error(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install 'tapgnn\[tensorboard\]'"):
        TensorBoardLog(tmp_path)


def test_tensorboard_holds_every_step(tmp_path):
    board = TensorBoardLog(tmp_path)
    for step in STEPS:
        board.step(step)
    board.close()
    found = EventAccumulator(str(tmp_path)).Reload()
    assert [(point.step, round(point.value, 4)) for point in found.Scalars("loss")] == [
        (50, 0.7),
        (100, 0.6),
        (200, 0.5),
    ]
    assert [(point.step, round(point.value, 4)) for point in found.Scalars("validation_auc")] == [
        (100, 0.8),
        (200, 0.75),
    ]
