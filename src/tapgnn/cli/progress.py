"""Progress of a training and of many runs: on the screen, in metrics.jsonl and in TensorBoard.

For a training a terminal shows a bar with events/s, loss, the best validation and the remaining time without early
stopping, for runs one with the finished ones; elsewhere there is a line for each validation, or for each finished run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapgnn.cli.output import say
from tapgnn.errors import ConfigError
from tapgnn.file_integrity import write_atomically

if TYPE_CHECKING:
    from tapgnn.evaluation.runner import Found, Run
    from tapgnn.evaluation.runner import Progress as RunProgress
    from tapgnn.training.link_prediction import TrainingProgress


class TrainingScreen:
    """Progress of a training of at most `epochs` epochs per seed.

    `opening` is printed with the first step, so that an error before it stays one line. It is drawn `with screen.bar:`.
    """

    def __init__(self, opening: str, epochs: int, seeds: int = 1) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.opening, self.epochs, self.seeds = opening, epochs, seeds
        self.seed: int | None = None
        self.turn, self.best = -1, -1.0
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=10), TextColumn("{task.fields[status]}"))
        left = (TextColumn("ETA"), TimeRemainingColumn(compact=True))
        self.bar = Progress(*columns, *left, console=console, refresh_per_second=4, disable=not console.is_terminal)
        self.task = self.bar.add_task("preparing (the first run compiles)", total=None, status="")

    def step(self, step: TrainingProgress, seed: int = 0) -> None:
        """Show the progress."""
        if self.seed is None:
            say(self.opening, self.bar.console)
        if seed != self.seed:
            self.seed, self.turn, self.best = seed, self.turn + 1, -1.0
        found = step.validation
        better = found is not None and found > self.best
        self.best = found if found is not None and better else self.best
        if not self.bar.disable:
            self._draw(step)
        elif found is not None:
            place = f"seed {seed}  " if self.seeds > 1 else ""
            place += f"epoch {step.epoch + step.done / step.total:.2f} of {self.epochs}"
            mark = "  best so far" if better else ""
            measured = f"validation {step.metric.upper()} {found:.4f}"
            say(f"{place}  loss {step.loss:.4f}  {measured}{_speed(step, '  ')}{mark}")

    def _draw(self, step: TrainingProgress) -> None:
        place = f"seed {self.turn + 1}/{self.seeds} " if self.seeds > 1 else ""
        status = f"loss {step.loss:.3f}{_speed(step, ' ')}"
        status += f" {step.metric.upper()} {self.best:.4f}" if self.best >= 0 else ""
        self.bar.update(
            self.task,
            description=f"{place}epoch {step.epoch + 1}/{self.epochs}",
            total=self.seeds * self.epochs * step.total,
            completed=(self.turn * self.epochs + step.epoch) * step.total + step.done,
            status=status,
        )


def _speed(step: TrainingProgress, before: str) -> str:
    return "" if step.events_per_s is None else f"{before}{step.events_per_s:,.0f} events/s"


class RunScreen:
    """Progress of runs: what each is called, and what is said of it when it has finished."""

    def __init__(self, title: str, total: int, words: Callable[[Run], str], outcome: Callable[[Found], str]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.words, self.outcome = words, outcome
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("ETA"))
        self.bar = Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)
        self.task = self.bar.add_task(title, total=total)

    def __enter__(self) -> RunScreen:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def tell(self, progress: RunProgress) -> None:
        """Show that a run starts or has finished."""
        self.bar.update(self.task, completed=progress.done)
        name, found = self.words(progress.run), progress.found
        place = f"[{progress.done}/{progress.total}] {name}"
        if found is None:
            self.bar.update(self.task, description=name)
        elif "error" in found:
            say(f"{place}: failed: {found['error']}", self.bar.console)
        elif self.bar.disable:
            say(f"{place}: {self.outcome(found)}", self.bar.console)


def write_metrics(path: Path, points: list[dict[str, Any]]) -> None:
    """Make these validations the content of the file, one JSON object per line."""
    write_atomically(path, "".join(json.dumps(point) + "\n" for point in points))


class TensorBoardLog:
    """TensorBoard curves: loss and validation against the number of training events."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError(
                "--tensorboard needs the package tensorboard, which is not installed; "
                "run pip install 'tapgnn[tensorboard]'"
            ) from None
        self._make: Any = SummaryWriter
        self._folder = str(folder)
        self.writer: Any = None

    def step(self, step: TrainingProgress) -> None:
        """Add a step; the first one creates the file."""
        if self.writer is None:
            self.writer = self._make(self._folder)
        seen = step.epoch * step.total + step.done
        self.writer.add_scalar("loss", step.loss, seen)
        if step.events_per_s is not None:
            self.writer.add_scalar("events_per_s", step.events_per_s, seen)
        if step.validation is not None:
            self.writer.add_scalar(f"validation_{step.metric}", step.validation, seen)
            self.writer.flush()

    def close(self) -> None:
        """Flush and close the file."""
        if self.writer is not None:
            self.writer.close()
