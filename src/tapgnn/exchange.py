"""A fitted model for other programs and other places.

    write_embeddings(model, file)    z(v, now) of every node: Parquet, npz, or the text format of word2vec
    write_head(model, file)          the head that scores a pair, as safetensors (docs/reference/file-formats.md)
    push(folder, address)            a model folder to any address that fsspec knows (s3://, gs://, az://, sftp://, ...)
    pull(address, folder)            and back, checked against its checksums

Only what model.json lists is copied, model.json last: a copy that was cut short is refused when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import save as save_tensors

from tapgnn.data.writing import write_table
from tapgnn.errors import ConfigError, ModelFileError
from tapgnn.estimator import TAPGNN
from tapgnn.file_integrity import atomic_write, write_atomically
from tapgnn.fitted_queries import FittedQueries
from tapgnn.model.files import MANIFEST, read_file
from tapgnn.vocabulary import Id

# What stands beside a model and is copied with it where it exists.
BESIDE = ("fit.json", "report.html", "metrics.jsonl")
ENDINGS = (".parquet", ".arrow", ".npz", ".txt")


def every_node(model: FittedQueries) -> tuple[list[Id], list[str]]:
    """The ids of all nodes as their table has them, and the side of each ('src' where there is only one kind)."""
    schema, held = model.schema, list(model.vocabulary.ids)
    names = schema.external(held)
    own = schema.internal_src(names).tolist()
    return names, ["src" if name == source else "dst" for name, source in zip(held, own, strict=True)]


def write_embeddings(model: TAPGNN, path: str | Path, time: float | None = None) -> int:
    """Write the embeddings of all nodes at a time (now), in the format of the ending; returns how many."""
    target = Path(path)
    if target.suffix not in ENDINGS:
        raise ConfigError(f"{target.name} does not end in one of {', '.join(ENDINGS)}; choose a format by its ending")
    names, sides = every_node(model)
    when = model.now if time is None else time
    z = model.embed_rows(np.arange(len(names)), np.full(len(names), when))
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".npz":
        kept = {"node": np.array(list(map(str, names))), "side": np.array(sides), "embedding": z}
        with atomic_write(target) as stream:
            np.savez_compressed(stream, **kept)  # type: ignore[arg-type]
    elif target.suffix == ".txt":
        write_atomically(target, "\n".join(_word2vec(model, names, sides, z)) + "\n")
    else:
        columns: dict[str, Any] = {"node": names, **({"side": sides} if model.schema.bipartite else {})}
        columns[model.schema.time] = [when] * len(names)
        write_table(columns | {f"z{place}": z[:, place] for place in range(z.shape[1])}, target)
    return len(names)


def _word2vec(model: TAPGNN, names: Iterable[Id], sides: Iterable[str], z: NDArray[np.float32]) -> Iterable[str]:
    """The lines of a word2vec text file; a word has no blanks, and tells the side where there are two."""
    yield f"{len(z)} {z.shape[1]}"
    for name, side, row in zip(names, sides, z, strict=True):
        word = "_".join(str(name).split()) or "_"
        yield " ".join([f"{side}:{word}" if model.schema.bipartite else word, *(f"{value:.9g}" for value in row)])


def write_head(model: TAPGNN, path: str | Path) -> None:
    """Write the weights of the head and what its formula needs to know, as metadata."""
    target = Path(path)
    if target.suffix != ".safetensors":
        raise ConfigError(f"{target.name} does not end in .safetensors; the head is written in that format alone")
    config = model.model_.config
    about = {"format": 1, "head": config.head, "width": config.width, "head_width": config.head_width}
    tensors = {name: tensor.contiguous() for name, tensor in model.model_.head.state_dict().items()}
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, bytes(save_tensors(tensors, metadata={"tapgnn_head": json.dumps(about)})))


def push(folder: str | Path, address: str) -> list[str]:
    """Copy a model folder to an address; returns the names of the files, model.json last."""
    listed, beside = model_files(Path(folder))
    files = [*beside, *listed]
    system, place = _filesystem(address)
    system.makedirs(place, exist_ok=True)
    for name in files:
        system.pipe_file(str(PurePosixPath(place) / name), (Path(folder) / name).read_bytes())
    return files


def pull(address: str, folder: str | Path) -> list[str]:
    """Copy a model from an address into a new folder, and check it; returns the names of the files."""
    target = Path(folder)
    if (target / MANIFEST).exists():
        raise ModelFileError(f"{target} holds a model already; choose another folder, or remove it first")
    system, place = _filesystem(address)

    def read(name: str) -> bytes:
        return bytes(system.cat_file(str(PurePosixPath(place) / name)))

    try:
        manifest = read(MANIFEST)
        files = _listed(address, manifest)
        files += [name for name in BESIDE if system.exists(str(PurePosixPath(place) / name))]
        for name in files:
            write_atomically(target / name, read(name))
    except FileNotFoundError as error:
        raise ModelFileError(f"{address} is not a whole model: {error} is missing; push it again") from None
    write_atomically(target / MANIFEST, manifest)
    listed, beside = model_files(target)
    return [*beside, *listed]


def model_files(folder: Path) -> tuple[list[str], list[str]]:
    """The files of a model folder, each compared with its checksum, model.json last; and those that stand beside it."""
    # A manifest that is missing or damaged is refused by the first file that is read.
    read_file(folder, "weights.safetensors")
    files = _listed(str(folder), (folder / MANIFEST).read_bytes())
    for name in files:
        read_file(folder, name)
    return [*files, MANIFEST], [name for name in BESIDE if (folder / name).is_file()]


def _listed(where: str, manifest: bytes) -> list[str]:
    """The names that a model.json lists; a name that would lead out of the folder is refused."""
    try:
        names = list(json.loads(manifest)["sha256"])
    except (ValueError, LookupError, TypeError):
        raise ModelFileError(f"{where}: {MANIFEST} is not that of a model; push the model again") from None
    odd = next((name for name in names if PurePosixPath(name).name != name or name in ("..", ".", MANIFEST)), None)
    if odd is not None:
        raise ModelFileError(
            f"{where}: {MANIFEST} lists {odd!r}, which is not the name of a file; push the model again"
        )
    return names


def _filesystem(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path there."""
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]

    try:
        return url_to_fs(address)  # type: ignore[no-any-return]
    except (ImportError, ValueError) as error:
        raise ConfigError(f"{address}: {error}; install the package of fsspec for it, or write file:///...") from None
