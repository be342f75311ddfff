"""Options shared by several commands, as dataclasses with one field per option.

`command` lets a command take such a dataclass as one parameter. An option that is not given is None and leaves the
choice to the library, so that no default is defined twice; a test checks the defaults that help shows.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from tapgnn.cli.config_file import read_config
from tapgnn.threads import useful_threads

if TYPE_CHECKING:
    from tapgnn.data import Schema
    from tapgnn.data.node_table import NodeTable
    from tapgnn.estimator import TAPGNN


def argument(name: str, help: str) -> Any:
    """An argument that must be given, by its name in help."""
    return typer.Argument(metavar=name, help=help, show_default=False)


EventsArgument = Annotated[str, argument("EVENTS", "A file of events, or the name of a data set.")]
ModelArgument = Annotated[str, argument("MODEL", "The folder that 'tapgnn fit --out' wrote.")]


def option(metavar: str, help: str, shown: str | bool = True, *names: str, default: Any = None, **more: Any) -> Any:
    """An option: the default of a parameter or of a field of a dataclass; `shown` is what help shows as its default."""
    about = typer.Option(*names, metavar=metavar, help=help, show_default=shown, **more)
    return field(default=default, metadata={"option": about})


_reading = functools.partial(option, rich_help_panel="Reading the events")
_model = functools.partial(option, rich_help_panel="Model")
_training = functools.partial(option, rich_help_panel="Training")
_detail = functools.partial(option, rich_help_panel="Model details")
PROTOCOL = option(
    "NAME",
    "strict: split by events, unseen nodes kept, three types of negatives. paper: the protocol of the paper. "
    "tgb: of the Temporal Graph Benchmark, every destination ranked. dyglib: of DyGLib, with hidden nodes.",
    default="strict",
)
LAG = option(
    "N",
    "Staleness of the history, in events: a query sees only the batches of N events before its own.",
    default=0,
)
SELECT = option("METRIC", "Choose the weights of TAP-GNN by their validation auc, ap or mrr.", default="auc")
SEEDS = option("N", "Number of runs, each with its own seed; the results are mean and standard deviation.", default=5)
CONFIG = option(
    "FILE",
    "A TOML file with options of this command, by their long names; the command line takes precedence.",
    callback=read_config,
    is_eager=True,
)


@dataclass(frozen=True)
class ReadingOptions:
    """What the columns of a file of events mean; what is not given is found from the first rows.

    'tapgnn inspect' shows what was found.
    """

    format: str | None = _reading(
        "NAME", "csv, tsv, parquet, arrow, jsonl, jodie, edges or snap.", "from the file name"
    )
    src: str | None = _reading("COLUMN", "The source of an event: who pays.", "src, user, payer, card_id, ...")
    dst: str | None = _reading("COLUMN", "The destination: who is paid.", "dst, item, payee, merchant_id, ...")
    time: str | None = _reading(
        "COLUMN", "The time of an event: a number or a date.", "time, timestamp, created_at, ..."
    )
    label: str | None = _reading(
        "COLUMN", "The label to predict for each event, 0 or 1, such as fraud; '' for none.", "label, is_fraud, ..."
    )
    id: str | None = _reading(
        "COLUMN", "The identifier of an event, repeated in the answers; '' for none.", "id, transaction_id, ..."
    )
    numeric: str | None = _reading("A,B,...", "Columns to use as numbers.", "detected")
    categorical: str | None = _reading("A,B,...", "Columns to use as categories.", "detected")
    boolean: str | None = _reading("A,B,...", "Columns to use as true or false.", "detected")
    drop: str | None = _reading("A,B,...", "Columns not to use.", "constants, ids, free text")
    features: str | None = _reading("A,B,...", "Use only these columns, their kinds detected.", "all usable columns")
    bipartite: bool | None = _reading(
        "",
        "Sources and destinations are different kinds of nodes: user 7 and page 7 are two nodes.",
        "one kind",
        "--bipartite/--no-bipartite",
    )
    time_unit: str | None = _reading("UNIT", "Unit of numeric times: s, ms, us, ns, min, h or d.", "detected")
    time_format: str | None = _reading("FORMAT", "Format of dates, such as '%d/%m/%Y %H:%M'.", "ISO 8601")
    time_zone: str | None = _reading("NAME", "Time zone of dates without an offset, such as Europe/Paris.", "UTC")
    header: bool | None = _reading(
        "", "Whether the first line is a header. Without one, the columns are named 1, 2, 3, ...", "detected"
    )
    skip_bad_rows: bool = _reading(
        "", "Skip rows that cannot be read, and report how many.", False, "--skip-bad-rows", default=False
    )

    def options(self) -> dict[str, Any]:
        """The options of `tapgnn.data.read_events`."""
        lists = ("numeric", "categorical", "boolean", "drop", "features")
        return {name: listed(value) if name in lists else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class NodeOptions:
    """A table of node attributes."""

    node_table: str | None = _reading(
        "FILE", "A table of node attributes, one row per node, such as the category of a merchant."
    )
    node_id: str | None = _reading("COLUMN", "The column of node ids in the node table.", "as in EVENTS")

    def read(self, schema: Schema) -> NodeTable | None:
        """The node table, if there is one."""
        from tapgnn.data.node_table import read_node_table
        from tapgnn.errors import ConfigError

        if self.node_table is None:
            if self.node_id is not None:
                raise ConfigError("--node-id names a column of --node-table; pass that file, too")
            return None
        return read_node_table(self.node_table, schema, self.node_id)


def listed(names: str | None) -> list[str] | None:
    """The names of an option that takes several; None if it is not given.

    >>> listed("amount, channel")
    ['amount', 'channel']
    """
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


@dataclass(frozen=True)
class TrainingOptions:
    """The model and its training: parameters of `TAPGNN`, and options of its `Config`."""

    preset: str | None = _model(
        "NAME",
        "adaptive (the most accurate), paper (its equations) or published (as run for it).",
        shown="adaptive",
    )
    kernel: str | None = _model(
        "NAME",
        "gcn, mean, pool, attention, adaptive or mean-with-self.",
        "adaptive (paper: mean; published: mean-with-self)",
    )
    layers: int | None = _model("K", "Number of layers: how many hops away neighbours are used.", "2")
    width: int | None = _model("D", "Embedding dimension.", "64 (paper, published: 128)")
    dropout: float | None = _model("P", "Dropout probability.", "0.0 (paper, published: 0.2)")
    epochs: int | None = _training("N", "Maximum number of passes over the log.", "8 (paper, published: 20)")
    patience: int | None = _training("N", "Stop after this many epochs without a better validation.", "3")
    validations: int | None = _training("N", "Validations per epoch.", "2")
    select: str | None = _training("METRIC", "Choose the weights by their validation auc, ap or mrr.", "auc")
    chunk: int | None = _training("N", "Events per training step.", "512")
    gradient: str | None = _training(
        "chunk|N|full", "How far back gradients flow: the events of a step, N chunks, or all history (slow).", "chunk"
    )
    lag: int | None = _training("N", "Staleness of the history, in events, in training and in the test.", "0")
    negatives: int | None = _training("N", "Negatives per event.", "1")
    met_share: float | None = _training("SHARE", "Share of negatives that are past destinations of the source.", "0.3")
    historical_share: float | None = _training(
        "SHARE", "Share of past pairs among the negatives of the second question, whether the event happens.", "0.1"
    )
    learning_rate: float | None = _training("RATE", "Learning rate of Adam.", "0.003")
    block_rate: float | None = _training(
        "FACTOR", "Learning-rate multiplier for all weights except the direct part of the head.", "1/3"
    )
    vector_rate: float | None = _training(
        "FACTOR", "Learning-rate multiplier for the node vectors.", "1/30 (paper, published: 1/3)"
    )
    weight_decay: float | None = _training("RATE", "Weight decay of Adam.", "1e-05")
    clip: float | None = _training("NORM", "Maximum gradient norm.", "1.0")
    cold_weight: float | None = _training("W", "Loss weight of destinations without a history yet, from 0 to 1.", "0.0")
    seed: int | None = _training("N", "The same seed gives the same model.", "0")
    device: str = _training("NAME", "Where to train: cpu. Other devices are for Python.", default="cpu")
    threads: int = _training(
        "N",
        "Number of threads; their number changes no result of a model. By default two, where there are two cores.",
        str(useful_threads()),
        default=useful_threads(),
    )
    roles: bool | None = _detail("", "Separate weights for sources and destinations.", "yes (paper, published: no)")
    self_connection: bool | None = _detail(
        "", "Add the input of a block to its output, and normalise.", "yes (published: no)"
    )
    norm: bool | None = _detail("", "Normalise in a block with a self connection.", "yes (paper: no)")
    time_width: int | None = _detail("N", "Width of the time encoding in every block.", "0 (paper, published: 128)")
    time_at_input: bool | None = _detail("", "Give the time encoding to the first block alone.", "no (published: yes)")
    projection: bool | None = _detail("", "Project embeddings to the time of a query, as in the paper.", "yes")
    log_pause: bool | None = _detail(
        "", "Encode the logarithm of the pause in the projection of the paper.", "no (paper: yes)"
    )
    rates: int | None = _detail("N", "Number of learned decay rates of the adaptive kernel.", "3")
    sketch_width: int | None = _detail("N", "Width of the walk sketches, 0 for none.", "64 (paper, published: 0)")
    sketch_steps: int | None = _detail("N", "Maximum walk length of the sketches.", "2")
    sketch_half_lives: str | None = _detail(
        "A,B,...", "Half-lives of the decaying sketches, as fractions of the time span of the log.", "0.1,0.01"
    )
    partners: int | None = _detail(
        "N", "Number of recent partners stored exactly for each node, 0 for none.", "16 (paper, published: 0)"
    )
    statistics: bool | None = _detail(
        "", "Use recency and event counts of a node as inputs.", "yes (paper, published: no)"
    )
    half_lives: str | None = _detail(
        "A,B,...",
        "Half-lives of the event counts, as fractions of the time span of the log.",
        "0.5,0.1,0.02,0.004,0.0008",
    )
    bins: int | None = _detail("N", "Bins in the encoding of recency and counts.", "5")
    head: str | None = _detail("NAME", "dot, role-dot, additive or mlp.", "mlp (paper: role-dot; published: additive)")
    head_width: int | None = _detail("N", "Hidden width of the mlp head.", "32")
    node_vectors: bool | None = _detail("", "Learn a vector for each node that training knows.", "yes")
    identity_dropout: float | None = _detail(
        "P", "Share of nodes that training treats as unknown.", "0.1 (paper, published: 0.0)"
    )

    def estimator(self) -> TAPGNN:
        """An untrained estimator; invalid options are refused here, before any data is read."""
        from tapgnn.estimator import TAPGNN
        from tapgnn.threads import set_threads

        chosen = {name: value for name, value in asdict(self).items() if value is not None}
        _check_device(chosen.pop("device"))
        set_threads(chosen.pop("threads"))
        for name in {"half_lives", "sketch_half_lives"} & set(chosen):
            chosen[name] = _numbers(name, chosen[name])
        known = TAPGNN().get_params()
        options = {name: chosen.pop(name) for name in [*chosen] if name not in known}
        found = TAPGNN(**chosen, options=options or None)
        found.config()
        found.settings()
        return found


def _check_device(name: str) -> None:
    """Refuse every device but the CPU, and say whether there is such a one at all."""
    if name == "cpu":
        return
    import torch

    from tapgnn.errors import ConfigError

    try:
        kind = torch.device(name).type
    except RuntimeError:
        raise ConfigError(f"--device {name} is not the name of a device; leave it out to train on the cpu") from None
    there = kind != "meta" and torch.get_device_module(kind).is_available()
    what = "the command line trains on the cpu alone" if there else f"torch finds no {kind} device on this machine"
    cure = f"in Python, model.to({name!r}) moves a model" if there else "training on the cpu needs none"
    raise ConfigError(f"--device {name}: {what}; leave it out, {cure}")


def _numbers(name: str, text: str) -> tuple[float, ...]:
    """The values of an option that takes several numbers."""
    from tapgnn.errors import ConfigError

    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        flag = name.replace("_", "-")
        raise ConfigError(f"--{flag} takes comma-separated numbers, such as 0.5,0.1, not {text!r}") from None


def command(function: Callable[..., None]) -> Callable[..., None]:
    """A function as typer takes it: its own parameters, each field of its dataclass parameters, and --config.

    The docstring becomes whole paragraphs, which help wraps to the width of the screen.
    """
    annotated: Any = Annotated  # made here, from a type that is known only now
    groups: dict[str, Any] = {}
    flat: list[inspect.Parameter] = []

    def add(name: str, hint: Any, default: Any) -> None:
        if isinstance(default, Field):
            hint, default = annotated[hint, default.metadata["option"]], default.default
        flat.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))

    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
        else:
            add(name, parameter.annotation, parameter.default)
    for group in groups.values():
        hints = get_type_hints(group)
        for each in fields(group):
            add(each.name, hints[each.name], each)
    add("config", Path | None, CONFIG)

    def run(config: Path | None, **values: Any) -> None:
        made = {
            name: group(**{each.name: values.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        function(**values, **made)

    run.__name__ = function.__name__
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    run.__doc__ = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run
