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

READING, MODEL, TRAINING, DETAIL = "Reading the events", "Model", "Training", "The model in detail"
PRESET = "of the preset"

EventsArgument = Annotated[
    str, typer.Argument(metavar="EVENTS", help="A file of events, or the name of a data set.", show_default=False)
]
ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="The folder that 'tapgnn fit --out' wrote.", show_default=False)
]
Json = Annotated[
    bool, typer.Option("--json", metavar="", help="End standard output with one JSON object, on one line.")
]

ProtocolOption = Annotated[
    str,
    typer.Option(
        "--protocol",
        metavar="NAME",
        help="strict: cut by events, new nodes kept, three kinds of negatives. paper: what was run for the paper.",
    ),
]
SeedsOption = Annotated[
    int, typer.Option("--seeds", metavar="N", help="Train and test so many times; mean and deviation.")
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
    """The model and how it is trained: parameters of `TAPGNN`, and options of its `Config`."""

    preset: Annotated[
        str | None, _option(MODEL, "NAME", "adaptive (the best we have) or paper (its equations).", "adaptive")
    ] = None
    kernel: Annotated[str | None, _option(MODEL, "NAME", "gcn, mean, pool, attention or adaptive.", PRESET)] = None
    layers: Annotated[int | None, _option(MODEL, "K", "How many steps away a neighbour counts.", PRESET)] = None
    width: Annotated[int | None, _option(MODEL, "D", "Numbers in an embedding.", PRESET)] = None
    dropout: Annotated[float | None, _option(MODEL, "P", "Share of channels left out.", PRESET)] = None
    epochs: Annotated[int | None, _option(TRAINING, "N", "At most so many passes over the log.", "8")] = None
    patience: Annotated[
        int | None, _option(TRAINING, "N", "Stop after so many epochs without a better validation AUC.", "3")
    ] = None
    validations: Annotated[int | None, _option(TRAINING, "N", "How often an epoch is validated.", "2")] = None
    chunk: Annotated[int | None, _option(TRAINING, "N", "Events per step.", "512")] = None
    negatives: Annotated[int | None, _option(TRAINING, "N", "Events that did not happen, per event.", "1")] = None
    learning_rate: Annotated[float | None, _option(TRAINING, "RATE", "Step size of Adam.", "0.003")] = None
    block_rate: Annotated[
        float | None, _option(TRAINING, "SHARE", "Step size of all but the direct part of the head, of that.", "1/3")
    ] = None
    vector_rate: Annotated[
        float | None, _option(TRAINING, "SHARE", "Step size of the node vectors, of that.", "1/30")
    ] = None
    weight_decay: Annotated[float | None, _option(TRAINING, "RATE", "Weight decay of Adam.", "1e-05")] = None
    clip: Annotated[float | None, _option(TRAINING, "NORM", "The largest norm of a gradient.", "1.0")] = None
    cold_weight: Annotated[
        float | None,
        _option(TRAINING, "W", "Weight of queries with an end that has no history yet, from 0 to 1.", "0.0"),
    ] = None
    seed: Annotated[int | None, _option(TRAINING, "N", "The same seed gives the same model.", "0")] = None
    threads: Annotated[
        int,
        _option(
            TRAINING,
            "N",
            "Threads of torch; more are slower on a busy machine, and only the same number gives the same bits.",
            "1",
        ),
    ] = 1
    roles: Annotated[
        bool | None,
        _option(DETAIL, "", "Own weights as source and as destination.", PRESET, "--roles/--no-roles"),
    ] = None
    self_connection: Annotated[
        bool | None,
        _option(
            DETAIL,
            "",
            "A block adds its own input and normalises.",
            PRESET,
            "--self-connection/--no-self-connection",
        ),
    ] = None
    time_width: Annotated[int | None, _option(DETAIL, "N", "Channels of time given to every block.", PRESET)] = None
    rates: Annotated[int | None, _option(DETAIL, "N", "Learned rates of the adaptive kernel.", PRESET)] = None
    sketch_width: Annotated[int | None, _option(DETAIL, "N", "Length of walk sketches, 0 for none.", PRESET)] = None
    sketch_steps: Annotated[int | None, _option(DETAIL, "N", "Longest walk of the sketches.", PRESET)] = None
    sketch_half_lives: Annotated[
        str | None, _option(DETAIL, "A,B,...", "Of the sketches that forget, in lengths of the log.", PRESET)
    ] = None
    facts: Annotated[
        bool | None,
        _option(DETAIL, "", "Recency and counts are inputs.", PRESET, "--facts/--no-facts"),
    ] = None
    half_lives: Annotated[str | None, _option(DETAIL, "A,B,...", "Of the counts, in lengths of the log.", PRESET)] = (
        None
    )
    bins: Annotated[int | None, _option(DETAIL, "N", "Pieces of the encoding of a fact.", PRESET)] = None
    head: Annotated[str | None, _option(DETAIL, "NAME", "dot, additive or mlp.", PRESET)] = None
    head_width: Annotated[int | None, _option(DETAIL, "N", "Hidden width of the mlp.", PRESET)] = None
    identity_dropout: Annotated[float | None, _option(DETAIL, "P", "Share of nodes trained as if unknown.", PRESET)] = (
        None
    )

    def estimator(self) -> TAPGNN:
        """An untrained estimator; options that do not fit are refused here, before anything is read."""
        from tapgnn.estimator import TAPGNN
        from tapgnn.threads import set_threads

        chosen = {name: value for name, value in asdict(self).items() if value is not None}
        set_threads(chosen.pop("threads"))
        for name in {"half_lives", "sketch_half_lives"} & set(chosen):
            chosen[name] = _numbers(name, chosen[name])
        known = TAPGNN().get_params()
        options = {name: chosen.pop(name) for name in [*chosen] if name not in known}
        found = TAPGNN(**chosen, options=options or None)
        found.config()
        found.settings()
        return found


def _numbers(name: str, text: str) -> tuple[float, ...]:
    """The numbers of an option that takes several."""
    from tapgnn.errors import ConfigError

    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        flag = name.replace("_", "-")
        raise ConfigError(f"--{flag} takes numbers with commas between them, such as 0.5,0.1, not {text!r}") from None


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
