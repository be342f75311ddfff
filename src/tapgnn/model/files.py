"""A model on disk: a folder whose model.json lists every other file of the model with its SHA-256 checksum.

    model.json                             configuration, checksums of the files, checksum of what it says of the model
    weights.safetensors, vocabulary.json   the model
    state.safetensors                      what the model remembers, where a state was saved with it
    and what else is saved with the model: the estimator's part

Nothing is ever unpickled. model.json is written last, so a folder whose writing was cut short, or whose bytes changed,
is refused. A file is read once, into memory, and compared with its checksum; then, whoever computed that checksum,
every name, size, type and range is checked before compiled code sees a number.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tapgnn.errors import ConfigError, ModelFileError
from tapgnn.file_integrity import bytes_sha256, write_atomically
from tapgnn.model.config import Config
from tapgnn.model.event_classifier import EventClassifier, FactClassifier, RepresentationClassifier
from tapgnn.model.features.node_statistics import COUNT, LAST, SEEN, both_roles, recent_counts
from tapgnn.model.model import Model
from tapgnn.model.state import ARENAS, State
from tapgnn.vocabulary import Vocabulary, checked_id

FORMAT = 3
MANIFEST, WEIGHTS, VOCABULARY, STATE = "model.json", "weights.safetensors", "vocabulary.json", "state.safetensors"
# How a table becomes features; part of a model where it has one.
SCHEMA = "schema.json"
CURE = "restore the folder from a copy, or fit the model again"
# What unsuitable content makes the parsers of JSON and safetensors, torch, and our own constructors raise.
UNSUITABLE = (
    SafetensorError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
    AssertionError,
)
_DTYPES = {"float32": torch.float32, "float64": torch.float64}
# How many numbers a model may hold beyond its weights, such as the row of a new node.
ROOM = 1 << 24
_COUNTERS = ("clock", "events", "size", "sketch_width")


def save_model(
    model: Model, folder: str | Path, state: State | None = None, more: Mapping[str, bytes] | None = None
) -> str:
    """Write a model, a state of it and more files by name into a folder, each atomically; returns the model's hash."""
    kind = str(model.dtype).removeprefix("torch.")
    if kind not in _DTYPES:
        raise ConfigError(f"a model of type {kind} cannot be saved; convert it with model.float() first")
    files = {
        WEIGHTS: save_tensors({name: tensor.contiguous() for name, tensor in model.state_dict().items()}),
        VOCABULARY: json.dumps(list(model.vocabulary.ids)).encode(),
        **(more or {}),
    }
    if state is not None:
        state.check_usable()
        arenas = {name: getattr(state, name)[: state.size + 1] for name in ARENAS}
        files[STATE] = pack_tensors(arenas, {name: getattr(state, name) for name in _COUNTERS})
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "dtype": kind,
        "nodes": model.inputs.nodes,
        "config": model.config.to_dict(),
        "sha256": {name: bytes_sha256(content) for name, content in files.items()},
    }
    manifest["model_sha256"] = _hash_model(manifest)
    files[MANIFEST] = (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode()
    for name, content in files.items():
        write_atomically(Path(folder) / name, content)
    return str(manifest["model_sha256"])


def load_model(folder: str | Path) -> Model:
    """Read a model that `save_model` wrote; one that is missing, damaged, older or newer is a clear error."""
    source = Path(folder)
    manifest = _read_manifest(source)
    with refusing(source / VOCABULARY):
        vocabulary = _parse_vocabulary(read_file(source, VOCABULARY))
    with refusing(source / WEIGHTS):
        weights = load_tensors(read_file(source, WEIGHTS))
    with refusing(source / MANIFEST):
        config, dtype, nodes = Config.from_dict(manifest["config"]), _DTYPES[manifest["dtype"]], manifest["nodes"]
        check_count("nodes", nodes, len(vocabulary))
    with refusing(source / WEIGHTS):
        model = _build(config, Vocabulary(vocabulary.ids[:nodes]), weights, dtype)
    model.vocabulary = vocabulary
    return model.eval()


def model_hash(folder: str | Path) -> str:
    """The hash of a saved model: configuration, weights, vocabulary and schema, but not the state or other files."""
    return str(_read_manifest(Path(folder))["model_sha256"])


def load_state(folder: str | Path, model: Model) -> State:
    """Read the state that was saved with this model."""
    path = Path(folder) / STATE
    arenas, counters = unpack_tensors(path, read_file(folder, STATE))
    with refusing(path):
        if "sums" in arenas and arenas["sums"].dtype == torch.float64:
            # So earlier versions kept them, whatever the type of the model.
            arenas["sums"] = arenas["sums"].to(model.dtype)
        _check_state(arenas, counters, model)
        columns: dict[str, Any] = {**arenas, **counters}
        return State(**columns)


def restore_classifier(tensors: Mapping[str, Tensor], model: Model) -> EventClassifier:
    """The classifier of events of a model with these weights, each of them checked."""
    classifier: EventClassifier
    if "used" in tensors:
        classifier = FactClassifier.shaped_as(tensors)
        check_range("used", tensors["used"], 0, sum(map(len, model.description.values())) - 1)
    else:
        classifier = RepresentationClassifier(2 * model.config.width + len(model.description["features"]))
    check_tensors(tensors, classifier.state_dict())
    for name, tensor in tensors.items():
        check_range(name, tensor)
    classifier.load_state_dict(tensors)
    return classifier.eval()


def holds_file(folder: str | Path, name: str) -> bool:
    """Whether such a file is among those of a model; one that is there and not listed is not silently left out."""
    return name in _read_manifest(Path(folder))["sha256"] or os.path.lexists(Path(folder) / name)


def read_file(folder: str | Path, name: str) -> bytes:
    """The content of one of the files of a model, as it was when it was saved."""
    path = Path(folder) / name
    expected = _read_manifest(Path(folder))["sha256"].get(name)
    content = read_whole(path)
    if expected is None:
        raise ModelFileError(f"{path} is not listed in {MANIFEST}, so it may belong to another model; {CURE}")
    if bytes_sha256(content) != expected:
        raise ModelFileError(f"{path} is damaged: its checksum is not the one in {MANIFEST}; {CURE}")
    return content


def pack_tensors(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    """Named tensors and plain values as the content of one file."""
    plain = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    return bytes(save_tensors(plain, metadata={"about": json.dumps(about)}))


def unpack_tensors(path: Path, content: bytes, cure: str = CURE) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `pack_tensors` packed, here the content of this file."""
    with refusing(path, cure):
        tensors = load_tensors(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        return tensors, dict(json.loads(header["__metadata__"]["about"]))


def read_whole(path: Path, cure: str = CURE) -> bytes:
    """The content of a regular file; a pipe or a device would never end."""
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
        content = path.read_bytes() if regular else b""
    except (FileNotFoundError, NotADirectoryError):
        raise ModelFileError(f"{path} is missing; {cure}") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read ({error.strerror}); {cure}") from None
    except MemoryError:
        raise ModelFileError(f"{path} does not fit into memory; {cure}") from None
    if not regular:
        raise ModelFileError(f"{path} is not a regular file; {cure}")
    return content


@contextmanager
def refusing(path: Path, cure: str = CURE) -> Iterator[None]:
    """Say of whatever goes wrong with the content of a file which file it is, and the cure."""
    try:
        yield
    except UNSUITABLE as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(":.")[:300]
        raise ModelFileError(f"{path} has invalid content ({reason}); {cure}") from None


def check_tensors(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Refuse tensors of other names, shapes or types than expected."""
    odd = sorted(tensors.keys() ^ expected.keys())
    if odd:
        raise ConfigError(f"{odd[0]} is {'unknown' if odd[0] in tensors else 'missing'}")
    for name, known in expected.items():
        tensor = tensors[name]
        if tensor.shape != known.shape or tensor.dtype != known.dtype or not tensor.is_contiguous():
            raise ConfigError(
                f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}, not {known.dtype} of {tuple(known.shape)}"
            )


def check_range(name: str, tensor: Tensor, low: float = -sys.float_info.max, high: float = sys.float_info.max) -> None:
    """Refuse numbers out of a range, by default that of the finite ones; NaN is in none."""
    if tensor.numel() and not (low <= float(tensor.amin()) and float(tensor.amax()) <= high):
        raise ConfigError(f"{name} has numbers that are not finite, or out of their range")


def check_count(name: str, value: Any, largest: int) -> None:
    """Refuse what is not a whole number from 0 to the largest."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
        raise ConfigError(f"{name} is {value!r}, not a whole number from 0 to {largest}")


class _ReadFrom(TorchFunctionMode):
    """Make the parts of a model whose weights come from a file: none is drawn, and not much more than the file holds is
    allocated, whatever the configuration says. (Shapes alone, on the meta device, make torch import its compiler.)
    """

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.room = ROOM + sum(tensor.numel() for tensor in weights.values())

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        given, name = options or {}, getattr(function, "__name__", "")
        if name in ("normal_", "uniform_", "kaiming_uniform_"):
            return arguments[0] if arguments else given["tensor"]
        if name in ("empty", "zeros", "ones", "linspace", "logspace"):
            shape = arguments[2:3] if name.endswith("space") else arguments
            self.room -= math.prod(shape[0] if isinstance(shape[0], tuple | list) else shape)
            if self.room < 0:
                raise ConfigError("the configuration is of a larger model than the weights")
        return function(*arguments, **given)


def _build(config: Config, vocabulary: Vocabulary, weights: dict[str, Tensor], dtype: torch.dtype) -> Model:
    """The model with its weights; nothing is allocated before their shapes are those of the configuration."""
    if config.layers > len(weights):
        raise ConfigError(f"there are no weights of {config.layers} layers")
    with _ReadFrom(weights):
        model = Model(config, vocabulary).to(dtype)
    features, expected = weights["inputs.features"], model.state_dict()
    if features.dim() and len(features) > len(model.inputs.features):
        # Nodes that came after training were described, too.
        expected["inputs.features"] = model.inputs.features[:1].expand(len(features), -1)
    check_tensors(weights, expected)
    for name in expected:
        check_range(name, weights[name])
    model.inputs.features = features
    model.load_state_dict(weights)
    return model


def _check_state(arenas: dict[str, Tensor], counters: dict[str, Any], model: Model) -> None:
    """Refuse what cannot be a state of this model."""
    clock, events, size, sketch_width = (counters[name] for name in _COUNTERS)
    empty = model.empty_state()
    check_count("size", size, len(model.vocabulary))
    check_count("events", events, 1 << 53)
    if not isinstance(clock, float) or not (math.isfinite(clock) or (clock == -math.inf and not events)):
        raise ConfigError(f"clock is {clock!r}, not a finite number")
    if sketch_width != empty.sketch_width or len(counters) != len(_COUNTERS):
        raise ConfigError(f"sketch_width is {sketch_width!r}, not {empty.sketch_width}, or there is more")
    alike = {name: getattr(empty, name) for name in ARENAS}
    check_tensors(arenas, {name: row.new_empty(1 + size, row.shape[1], device="meta") for name, row in alike.items()})
    statistics = arenas["statistics"]
    check_range("sums", arenas["sums"], low=-math.inf)
    check_range("embedding", arenas["embedding"])
    check_range("sketch", arenas["sketch"])
    check_range("partners", arenas["partners"], low=-math.inf)
    check_range("statistics (last)", both_roles(statistics, LAST), -math.inf, clock)
    check_range("statistics (count)", both_roles(statistics, COUNT), 0, events)
    check_range("statistics (seen)", both_roles(statistics, SEEN), 0, events)
    check_range("statistics (recent)", recent_counts(statistics), 0, events)


def _parse_vocabulary(content: bytes) -> Vocabulary:
    ids = json.loads(content)
    if not isinstance(ids, list):
        raise ConfigError("it is not a list of ids")
    for row, name in enumerate(ids):
        # Ids are hashed by their bytes: half of a surrogate pair has none.
        str(checked_id(name, row)).encode()
    return Vocabulary(ids)


def _hash_model(manifest: dict[str, Any]) -> str:
    """The checksum of what model.json says of the model itself."""
    told = {name: manifest[name] for name in ("format", "dtype", "nodes", "config")}
    parts = (WEIGHTS, VOCABULARY, *([SCHEMA] if SCHEMA in manifest["sha256"] else []))
    files = {name: manifest["sha256"][name] for name in parts}
    return bytes_sha256(json.dumps({**told, "sha256": files}, sort_keys=True).encode())


def _read_manifest(source: Path) -> dict[str, Any]:
    path = source / MANIFEST
    content = read_whole(path, f"{source} is not a saved model, or its writing was cut short")
    with refusing(path):
        manifest = json.loads(content)
        version = manifest["format"]
        check_count("format", version, sys.maxsize)
        if version != FORMAT:
            newer = f"this version reads format {FORMAT}; upgrade tapgnn"
            older = "without checksums of the state; fit the model again with this version"
            raise ModelFileError(f"{path} has format {version}, {newer if version > FORMAT else older}")
        if not isinstance(manifest["sha256"], dict) or manifest["model_sha256"] != _hash_model(manifest):
            raise ConfigError("its own checksum is not the one it names")
    return manifest  # type: ignore[no-any-return]
