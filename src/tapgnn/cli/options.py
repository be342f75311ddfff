"""Options shared by several commands, as dataclasses with one field per option.

`grouped` lets a command take such a dataclass as one parameter. An option that is not given is None and leaves the
choice to the library, so that no default is defined twice; a test checks the defaults that help shows.
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

READING, MODEL, TRAINING, DETAIL = "Reading the events", "Model", "Training", "Model details"
PRESET = "from the preset"

EventsArgument = Annotated[
    str, typer.Argument(metavar="EVENTS", help="A file of events, or the name of a data set.", show_default=False)
]
ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="The folder that 'tapgnn fit --out' wrote.", show_default=False)
]
Json = Annotated[
    bool, typer.Option("--json", metavar="", help="Print one JSON object as the last line of standard output.")
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
    """How a file of events is read; columns that are not named are found by their usual names."""

    format: Annotated[
        str | None,
        _option(READING, "NAME", "csv, tsv, parquet, jsonl, jodie, edges or snap.", "from the file name"),
    ] = None
    src: Annotated[
        str | None, _option(READING, "COLUMN", "The source of an event.", "src, source, user, from, ...")
    ] = None
    dst: Annotated[
        str | None, _option(READING, "COLUMN", "The destination of an event.", "dst, target, item, to, ...")
    ] = None
    time: Annotated[
        str | None,
        _option(READING, "COLUMN", "The time of an event: a number or an ISO date.", "time, timestamp, date, ..."),
    ] = None
    label: Annotated[
        str | None, _option(READING, "COLUMN", "The class of an event, an integer; 0 is the normal class.", "label, y")
    ] = None
    features: Annotated[
        str | None, _option(READING, "A,B,...", "Numeric features of an event.", "f0, f1, ..., weight, rating")
    ] = None
    header: Annotated[
        bool | None,
        _option(
            READING,
            "",
            "Whether the first line is a header. Without one, the columns are named 1, 2, 3, ...",
            "detected",
            "--header/--no-header",
        ),
    ] = None
    skip_bad_rows: Annotated[
        bool, _option(READING, "", "Skip rows that cannot be read, and report how many.", False, "--skip-bad-rows")
    ] = False

    def options(self) -> dict[str, Any]:
        """The options of `tapgnn.data.read_events`."""
        names = None if self.features is None else [name.strip() for name in self.features.split(",") if name.strip()]
        return {**asdict(self), "features": names}


@dataclass(frozen=True)
class Learning:
    """The model and its training: parameters of `TAPGNN`, and options of its `Config`."""

    preset: Annotated[
        str | None,
        _option(MODEL, "NAME", "adaptive (the most accurate) or paper (the equations of the paper).", "adaptive"),
    ] = None
    kernel: Annotated[str | None, _option(MODEL, "NAME", "gcn, mean, pool, attention or adaptive.", PRESET)] = None
    layers: Annotated[
        int | None, _option(MODEL, "K", "Number of layers: how many hops away neighbours are used.", PRESET)
    ] = None
    width: Annotated[int | None, _option(MODEL, "D", "Embedding dimension.", PRESET)] = None
    dropout: Annotated[float | None, _option(MODEL, "P", "Dropout probability.", PRESET)] = None
    epochs: Annotated[int | None, _option(TRAINING, "N", "Maximum number of passes over the log.", "8")] = None
    patience: Annotated[
        int | None, _option(TRAINING, "N", "Stop after this many epochs without a better validation AUC.", "3")
    ] = None
    validations: Annotated[int | None, _option(TRAINING, "N", "Validations per epoch.", "2")] = None
    chunk: Annotated[int | None, _option(TRAINING, "N", "Events per training step.", "512")] = None
    negatives: Annotated[int | None, _option(TRAINING, "N", "Negatives per event.", "1")] = None
    learning_rate: Annotated[float | None, _option(TRAINING, "RATE", "Learning rate of Adam.", "0.003")] = None
    block_rate: Annotated[
        float | None,
        _option(TRAINING, "FACTOR", "Learning-rate multiplier for all weights but the direct part of the head.", "1/3"),
    ] = None
    vector_rate: Annotated[
        float | None, _option(TRAINING, "FACTOR", "Learning-rate multiplier for the node vectors.", "1/30")
    ] = None
    weight_decay: Annotated[float | None, _option(TRAINING, "RATE", "Weight decay of Adam.", "1e-05")] = None
    clip: Annotated[float | None, _option(TRAINING, "NORM", "Maximum gradient norm.", "1.0")] = None
    cold_weight: Annotated[
        float | None,
        _option(TRAINING, "W", "Loss weight of events with an unseen node, from 0 to 1.", "0.0"),
    ] = None
    seed: Annotated[int | None, _option(TRAINING, "N", "The same seed gives the same model.", "0")] = None
    threads: Annotated[
        int,
        _option(
            TRAINING,
            "N",
            "Number of threads; more are slower on a busy machine, and only the same number gives identical results.",
            "1",
        ),
    ] = 1
    roles: Annotated[
        bool | None,
        _option(DETAIL, "", "Separate weights for sources and destinations.", PRESET, "--roles/--no-roles"),
    ] = None
    self_connection: Annotated[
        bool | None,
        _option(
            DETAIL,
            "",
            "Add the input of a block to its output, and normalise.",
            PRESET,
            "--self-connection/--no-self-connection",
        ),
    ] = None
    time_width: Annotated[int | None, _option(DETAIL, "N", "Width of the time encoding in every block.", PRESET)] = None
    rates: Annotated[
        int | None, _option(DETAIL, "N", "Number of learned decay rates of the adaptive kernel.", PRESET)
    ] = None
    sketch_width: Annotated[int | None, _option(DETAIL, "N", "Width of the walk sketches, 0 for none.", PRESET)] = None
    sketch_steps: Annotated[int | None, _option(DETAIL, "N", "Maximum walk length of the sketches.", PRESET)] = None
    sketch_half_lives: Annotated[
        str | None,
        _option(
            DETAIL, "A,B,...", "Half-lives of the decaying sketches, as fractions of the time span of the log.", PRESET
        ),
    ] = None
    facts: Annotated[
        bool | None,
        _option(DETAIL, "", "Use recency and event counts of a node as inputs.", PRESET, "--facts/--no-facts"),
    ] = None
    half_lives: Annotated[
        str | None,
        _option(DETAIL, "A,B,...", "Half-lives of the event counts, as fractions of the time span of the log.", PRESET),
    ] = None
    bins: Annotated[int | None, _option(DETAIL, "N", "Bins in the encoding of recency and counts.", PRESET)] = None
    head: Annotated[str | None, _option(DETAIL, "NAME", "dot, additive or mlp.", PRESET)] = None
    head_width: Annotated[int | None, _option(DETAIL, "N", "Hidden width of the mlp head.", PRESET)] = None
    identity_dropout: Annotated[
        float | None, _option(DETAIL, "P", "Share of nodes that are treated as unknown in training.", PRESET)
    ] = None

    def estimator(self) -> TAPGNN:
        """An untrained estimator; invalid options are refused here, before any data is read."""
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
    """The values of an option that takes several numbers."""
    from tapgnn.errors import ConfigError

    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        flag = name.replace("_", "-")
        raise ConfigError(f"--{flag} takes comma-separated numbers, such as 0.5,0.1, not {text!r}") from None


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Present the fields of every dataclass parameter to typer as separate parameters."""
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
