"""The options that several commands share, as dataclasses: a field is an option.

`grouped` lets a command take such a dataclass as one parameter. An option that is not given is None and leaves the
choice to the library, so no default is written down twice; what help says of them is held to the truth by a test.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from tapgnn.estimator import TAPGNN

READING, MODEL, TRAINING = "Reading the events", "Model", "Training"

EventsArgument = Annotated[
    str, typer.Argument(metavar="EVENTS", help="A file of events, or the name of a data set.", show_default=False)
]
ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="The folder that 'tapgnn fit --out' wrote.", show_default=False)
]
Json = Annotated[
    bool, typer.Option("--json", metavar="", help="End standard output with one JSON object, on one line.")
]


def _option(panel: str, metavar: str, help: str, default: str | bool = False, *names: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, show_default=default, rich_help_panel=panel)


@dataclass(frozen=True)
class Reading:
    """How a file of events is read; every column is found by its usual names where it is not named."""

    format: Annotated[
        str | None,
        _option(READING, "NAME", "csv, tsv, parquet, jsonl, jodie, edges or snap.", "by the ending of the file"),
    ] = None
    src: Annotated[str | None, _option(READING, "COLUMN", "Who acts.", "src, source, user, from, ...")] = None
    dst: Annotated[str | None, _option(READING, "COLUMN", "On whom or what.", "dst, target, item, to, ...")] = None
    time: Annotated[
        str | None, _option(READING, "COLUMN", "When: a number or an ISO date.", "time, timestamp, date, ...")
    ] = None
    label: Annotated[
        str | None, _option(READING, "COLUMN", "The kind of event, a whole number; 0 is the usual one.", "label, y")
    ] = None
    features: Annotated[
        str | None, _option(READING, "A,B,...", "Numbers that describe an event.", "f0, f1, ..., weight, rating")
    ] = None
    header: Annotated[
        bool | None,
        _option(
            READING,
            "",
            "Whether the first line names the columns. Without such a line they are called 1, 2, 3, ...",
            "by the look of it",
            "--header/--no-header",
        ),
    ] = None
    skip_bad_rows: Annotated[
        bool, _option(READING, "", "Leave out rows that cannot be read, and say how many.", False, "--skip-bad-rows")
    ] = False

    def options(self) -> dict[str, Any]:
        """The options of `tapgnn.data.read_events`."""
        names = None if self.features is None else [name.strip() for name in self.features.split(",") if name.strip()]
        return {**asdict(self), "features": names}


@dataclass(frozen=True)
class Learning:
    """The model and how it is trained: parameters of `TAPGNN`."""

    preset: Annotated[
        str | None, _option(MODEL, "NAME", "adaptive (the best we have) or paper (its equations).", "adaptive")
    ] = None
    kernel: Annotated[
        str | None, _option(MODEL, "NAME", "gcn, mean, pool, attention or adaptive.", "of the preset")
    ] = None
    layers: Annotated[int | None, _option(MODEL, "K", "How many steps away a neighbour counts.", "of the preset")] = (
        None
    )
    width: Annotated[int | None, _option(MODEL, "D", "Numbers in an embedding.", "of the preset")] = None
    dropout: Annotated[float | None, _option(MODEL, "P", "Share of channels left out.", "of the preset")] = None
    epochs: Annotated[int | None, _option(TRAINING, "N", "At most so many passes over the log.", "8")] = None
    patience: Annotated[
        int | None, _option(TRAINING, "N", "Stop after so many epochs without a better validation AUC.", "3")
    ] = None
    chunk: Annotated[int | None, _option(TRAINING, "N", "Events per step.", "512")] = None
    negatives: Annotated[int | None, _option(TRAINING, "N", "Events that did not happen, per event.", "1")] = None
    learning_rate: Annotated[float | None, _option(TRAINING, "RATE", "Step size of Adam.", "0.003")] = None
    weight_decay: Annotated[float | None, _option(TRAINING, "RATE", "Weight decay of Adam.", "1e-05")] = None
    seed: Annotated[int | None, _option(TRAINING, "N", "The same seed gives the same model.", "0")] = None
    threads: Annotated[
        int | None,
        _option(
            TRAINING,
            "N",
            "Threads of torch; on a busy machine 1 is often the fastest, and only the same number gives the same bits.",
            "as torch sees fit",
        ),
    ] = None

    def estimator(self) -> TAPGNN:
        """An untrained estimator; options that do not fit are refused here, before anything is read."""
        from tapgnn.errors import ConfigError
        from tapgnn.estimator import TAPGNN

        chosen = {name: value for name, value in asdict(self).items() if value is not None}
        threads = chosen.pop("threads", None)
        found = TAPGNN(**chosen)
        found.config()
        found.settings()
        if found.seed < 0:
            raise ConfigError(f"seed must not be negative, not {found.seed}")
        if threads is not None:
            set_threads(threads)
        return found


def set_threads(count: int) -> None:
    """Give torch and numba this many threads."""
    import numba
    import torch

    from tapgnn.errors import ConfigError

    if count < 1:
        raise ConfigError(f"threads must be at least 1, not {count}")
    torch.set_num_threads(count)
    most = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(count, most))


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Show typer the fields of every parameter that is a dataclass as parameters of their own."""
    groups: dict[str, Any] = {}
    flat: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            hints = get_type_hints(parameter.annotation, include_extras=True)
            flat |= {
                field.name: parameter.replace(name=field.name, annotation=hints[field.name], default=field.default)
                for field in fields(parameter.annotation)
            }
        else:
            flat[name] = parameter

    @functools.wraps(command)
    def run(**values: Any) -> None:
        made = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **made)

    del run.__dict__["__wrapped__"]
    shown = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in flat.values()]
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return run
