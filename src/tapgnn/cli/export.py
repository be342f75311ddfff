"""export, push and pull: a fitted model for other programs, and in other places."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tapgnn.cli.options import ModelArgument, argument, command, option
from tapgnn.cli.output import Output, say
from tapgnn.errors import QueryError


@command
def export(
    model: ModelArgument,
    output: Output,
    embeddings: Path | None = option(
        "FILE",
        "Write the embeddings of all nodes: .parquet, .arrow, .npz, or .txt in the text format of word2vec.",
    ),
    head: Path | None = option("FILE", "Write the weights that score a pair, as .safetensors."),
    time: str | None = option("TIME", "Time of the embeddings, later than the log.", "just after the last event"),
) -> None:
    """Write the embeddings of all nodes, or the scoring head, for other programs.

    The formula of the head is in the reference of file formats. For some nodes, or as CSV, see 'tapgnn embed'.
    """
    if embeddings is None and head is None:
        raise QueryError("pass --embeddings or --head, each with a file")
    from tapgnn import exchange
    from tapgnn.cli.query_input import parse_time
    from tapgnn.estimator import TAPGNN
    from tapgnn.threads import set_threads

    set_threads(1)
    fitted = TAPGNN.load(model)
    count = None
    if embeddings is not None:
        when = None if time is None else parse_time(time, fitted)
        count = exchange.write_embeddings(fitted, embeddings, when)
        say(f"{embeddings}: the embeddings of {count:,} nodes, {fitted.model_.config.width} numbers each")
    if head is not None:
        exchange.write_head(fitted, head)
        say(f"{head}: the head {fitted.model_.config.head}")
    output.result({"embeddings": embeddings and str(embeddings), "nodes": count, "head": head and str(head)})


ADDRESS = "A folder at any address that fsspec knows, such as s3://bucket/model or file:///backups/model."


@command
def push(
    model: ModelArgument,
    address: Annotated[str, argument("ADDRESS", ADDRESS)],
    output: Output,
) -> None:
    """Copy a model to another place, such as an object store.

    Every file is compared with its checksum first, and model.json is written last, so that a copy that was cut short is
    refused. Credentials are those of the fsspec package of the place, such as s3fs.
    """
    from tapgnn import exchange

    files = exchange.push(model, address)
    say(f"{model} -> {address}: {len(files)} files")
    output.result({"address": address, "files": files})


@command
def pull(
    address: Annotated[str, argument("ADDRESS", ADDRESS)],
    folder: Annotated[Path, argument("FOLDER", "A new folder for the model.")],
    output: Output,
) -> None:
    """Copy a model from another place into a new folder, and check it."""
    from tapgnn import exchange

    files = exchange.pull(address, folder)
    say(f"{address} -> {folder}: {len(files)} files, all as their checksums say")
    output.result({"folder": str(folder), "files": files})
