"""Options shared by several commands, as dataclasses with one field per option.

`grouped` lets a command take such a dataclass as one parameter. An option that is not given is None and leaves the
choice to the library, so that no default is defined twice; a test checks the defaults that help shows.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, is_dataclass
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
        help="strict: split by events, unseen nodes kept, three types of negatives. paper: the protocol of the paper.",
    ),
]
SeedsOption = Annotated[
    int,
    typer.Option(
        "--seeds", metavar="N", help="Number of runs, each with its own seed; reports mean and standard deviation."
    ),
]


def option(
    panel: str | None, metavar: str, help: str, shown: str | bool = False, *names: str, default: Any = None
) -> Any:
    """A field of a dataclass that is an option of a command; `shown` is the default that help shows."""
    about = typer.Option(*names, metavar=metavar, help=help, show_default=shown, rich_help_panel=panel)
    return field(default=default, metadata={"option": about})


@dataclass(frozen=True)
class Reading:
    """How a file of events is read; columns that are not named are found by their usual names."""

    format: str | None = option(
        READING, "NAME", "csv, tsv, parquet, jsonl, jodie, edges or snap.", "from the file name"
    )
    src: str | None = option(READING, "COLUMN", "The source of an event.", "src, source, user, from, ...")
    dst: str | None = option(READING, "COLUMN", "The destination of an event.", "dst, target, item, to, ...")
    time: str | None = option(
        READING, "COLUMN", "The time of an event: a number or an ISO date.", "time, timestamp, date, ..."
    )
    label: str | None = option(
        READING, "COLUMN", "The class of an event, an integer; 0 is the normal class.", "label, y"
    )
    features: str | None = option(READING, "A,B,...", "Numeric features of an event.", "f0, f1, ..., weight, rating")
    header: bool | None = option(
        READING,
        "",
        "Whether the first line is a header. Without one, the columns are named 1, 2, 3, ...",
        "detected",
        "--header/--no-header",
    )
    skip_bad_rows: bool = option(
        READING, "", "Skip rows that cannot be read, and report how many.", False, "--skip-bad-rows", default=False
    )

    @classmethod
    def of(cls, values: dict[str, Any]) -> Reading:
        """The options as a file holds them; others, or of the wrong kind, are a TypeError."""
        reading = cls(**values)
        for name, kind in get_type_hints(cls).items():
            if not isinstance(getattr(reading, name), kind):
                raise TypeError(f"{name} is {getattr(reading, name)!r}")
        return reading

    def options(self) -> dict[str, Any]:
        """The options of `tapgnn.data.read_events`."""
        names = None if self.features is None else [name.strip() for name in self.features.split(",") if name.strip()]
        return {**asdict(self), "features": names}


@dataclass(frozen=True)
class Learning:
    """The model and its training: parameters of `TAPGNN`, and options of its `Config`."""

    preset: str | None = option(
        MODEL, "NAME", "adaptive (the most accurate) or paper (the equations of the paper).", "adaptive"
    )
    kernel: str | None = option(MODEL, "NAME", "gcn, mean, pool, attention or adaptive.", PRESET)
    layers: int | None = option(MODEL, "K", "Number of layers: how many hops away neighbours are used.", PRESET)
    width: int | None = option(MODEL, "D", "Embedding dimension.", PRESET)
    dropout: float | None = option(MODEL, "P", "Dropout probability.", PRESET)
    epochs: int | None = option(TRAINING, "N", "Maximum number of passes over the log.", "8")
    patience: int | None = option(TRAINING, "N", "Stop after this many epochs without a better validation AUC.", "3")
    validations: int | None = option(TRAINING, "N", "Validations per epoch.", "2")
    chunk: int | None = option(TRAINING, "N", "Events per training step.", "512")
    negatives: int | None = option(TRAINING, "N", "Negatives per event.", "1")
    learning_rate: float | None = option(TRAINING, "RATE", "Learning rate of Adam.", "0.003")
    block_rate: float | None = option(
        TRAINING, "FACTOR", "Learning-rate multiplier for all weights but the direct part of the head.", "1/3"
    )
    vector_rate: float | None = option(TRAINING, "FACTOR", "Learning-rate multiplier for the node vectors.", "1/30")
    weight_decay: float | None = option(TRAINING, "RATE", "Weight decay of Adam.", "1e-05")
    clip: float | None = option(TRAINING, "NORM", "Maximum gradient norm.", "1.0")
    cold_weight: float | None = option(TRAINING, "W", "Loss weight of events with an unseen node, from 0 to 1.", "0.0")
    seed: int | None = option(TRAINING, "N", "The same seed gives the same model.", "0")
    threads: int = option(
        TRAINING,
        "N",
        "Number of threads; more can be slower on a busy machine, and only the same number gives identical results.",
        "1",
        default=1,
    )
    roles: bool | None = option(
        DETAIL, "", "Separate weights for sources and destinations.", PRESET, "--roles/--no-roles"
    )
    self_connection: bool | None = option(
        DETAIL,
        "",
        "Add the input of a block to its output, and normalise.",
        PRESET,
        "--self-connection/--no-self-connection",
    )
    time_width: int | None = option(DETAIL, "N", "Width of the time encoding in every block.", PRESET)
    rates: int | None = option(DETAIL, "N", "Number of learned decay rates of the adaptive kernel.", PRESET)
    sketch_width: int | None = option(DETAIL, "N", "Width of the walk sketches, 0 for none.", PRESET)
    sketch_steps: int | None = option(DETAIL, "N", "Maximum walk length of the sketches.", PRESET)
    sketch_half_lives: str | None = option(
        DETAIL, "A,B,...", "Half-lives of the decaying sketches, as fractions of the time span of the log.", PRESET
    )
    statistics: bool | None = option(
        DETAIL, "", "Use recency and event counts of a node as inputs.", PRESET, "--statistics/--no-statistics"
    )
    half_lives: str | None = option(
        DETAIL, "A,B,...", "Half-lives of the event counts, as fractions of the time span of the log.", PRESET
    )
    bins: int | None = option(DETAIL, "N", "Bins in the encoding of recency and counts.", PRESET)
    head: str | None = option(DETAIL, "NAME", "dot, additive or mlp.", PRESET)
    head_width: int | None = option(DETAIL, "N", "Hidden width of the mlp head.", PRESET)
    identity_dropout: float | None = option(
        DETAIL, "P", "Share of nodes that are treated as unknown in training.", PRESET
    )

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
    annotated: Any = Annotated  # made here, from a type that is known only now
    groups: dict[str, Any] = {}
    flat: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            hints = get_type_hints(parameter.annotation)
            for each in fields(parameter.annotation):
                hint = annotated[hints[each.name], each.metadata["option"]]
                flat[each.name] = parameter.replace(name=each.name, annotation=hint, default=each.default)
        else:
            flat[name] = parameter

    @functools.wraps(command)
    def run(**values: Any) -> None:
        made = {
            name: group(**{each.name: values.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **made)

    del run.__dict__["__wrapped__"]
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in flat.values()]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in keywords}
    return run
