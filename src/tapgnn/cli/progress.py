"""Training progress on the screen, in metrics.jsonl and in TensorBoard.

Each receives every step (`TrainingProgress`). A terminal shows a bar with events/s, loss, best validation AUC and the
remaining time without early stopping; elsewhere there is one line per validation.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tapgnn.cli.output import say
from tapgnn.errors import ConfigError
from tapgnn.file_integrity import write_atomically

if TYPE_CHECKING:
    from tapgnn.training.link_prediction import TrainingProgress


class Screen:
    """Progress of a training of at most `epochs` epochs per seed.

    `opening` is printed with the first step, so that an error before it stays one line.
    """

    def __init__(self, opening: str, epochs: int, seeds: int = 1) -> None:
        self.opening, self.epochs, self.seeds = opening, epochs, seeds
        self.seed: int | None = None
        self.turn, self.best = -1, -1.0
        console = Console(stderr=True)
        self.bar: Progress | None = None
        if console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(bar_width=10), TextColumn("{task.fields[status]}"))
            left = (TextColumn("ETA"), TimeRemainingColumn(compact=True))
            self.bar = Progress(*columns, *left, console=console, refresh_per_second=4)
            self.task = self.bar.add_task("preparing (the first run compiles)", total=None, status="")

    def __enter__(self) -> Screen:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def step(self, step: TrainingProgress, seed: int = 0) -> None:
        """Show the progress."""
        if self.seed is None:
            say(self.opening, None if self.bar is None else self.bar.console)
        if seed != self.seed:
            self.seed, self.turn, self.best = seed, self.turn + 1, -1.0
        better = step.valid_auc is not None and step.valid_auc > self.best
        self.best = step.valid_auc if step.valid_auc is not None and better else self.best
        if self.bar is not None:
            self._draw(self.bar, step)
        elif step.valid_auc is not None:
            place = f"seed {seed}  " if self.seeds > 1 else ""
            place += f"epoch {step.epoch + step.done / step.total:.2f} of {self.epochs}"
            mark = "  best so far" if better else ""
            say(f"{place}  loss {step.loss:.4f}  validation AUC {step.valid_auc:.4f}{_speed(step, '  ')}{mark}")

    def _draw(self, bar: Progress, step: TrainingProgress) -> None:
        done = (self.turn * self.epochs + step.epoch) * step.total + step.done
        place = f"seed {self.turn + 1}/{self.seeds} " if self.seeds > 1 else ""
        status = f"loss {step.loss:.3f}{_speed(step, ' ')}"
        status += f" AUC {self.best:.4f}" if self.best >= 0 else ""
        bar.update(
            self.task,
            description=f"{place}epoch {step.epoch + 1}/{self.epochs}",
            total=self.seeds * self.epochs * step.total,
            completed=done,
            status=status,
        )


def _speed(step: TrainingProgress, before: str) -> str:
    return "" if step.events_per_s is None else f"{before}{step.events_per_s:,.0f} events/s"


class MetricsFile:
    """A file with one JSON object per validation; a resumed training drops those that it will repeat."""

    def __init__(self, path: Path, resume: bool) -> None:
        self.path = path
        self.lines = _points(path) if resume else []
        self.begun = False

    def step(self, step: TrainingProgress) -> None:
        """Append a validation."""
        if not self.begun:
            self.finish([point for point in self.lines if point["epoch"] <= step.epoch])
            self.begun = True
        if step.valid_auc is not None:
            epoch = step.epoch + step.done / step.total
            point = {"epoch": epoch, "loss": step.loss, "valid_auc": step.valid_auc, "events_per_s": step.events_per_s}
            with open(self.path, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(point) + "\n")

    def finish(self, points: list[dict[str, Any]]) -> None:
        """Make these points the whole content of the file."""
        write_atomically(self.path, "".join(json.dumps(point) + "\n" for point in points))


def _points(path: Path) -> list[dict[str, Any]]:
    """The points of an earlier run, without a truncated last line or anything that is not a point."""
    points: list[dict[str, Any]] = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                point = json.loads(line)
                if isinstance(point, dict) and isinstance(point.get("epoch"), int | float):
                    points.append(point)
    return points


class TensorBoardLog:
    """TensorBoard curves: loss and validation AUC against the number of training events."""

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
        if step.valid_auc is not None:
            self.writer.add_scalar("valid_auc", step.valid_auc, seen)
            self.writer.flush()

    def close(self) -> None:
        """Flush and close the file."""
        if self.writer is not None:
            self.writer.close()
