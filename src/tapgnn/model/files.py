"""A model on disk: a folder with model.json (configuration and checksums), weights.safetensors and vocabulary.json.

Nothing is ever unpickled. model.json is written last and names the checksums of the other two, so a folder whose
writing was cut short, or whose bytes changed, is refused. The model's hash covers all three; a saved state carries it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from tapgnn.errors import ConfigError, ModelFileError
from tapgnn.file_integrity import bytes_sha256, write_atomically
from tapgnn.model.config import Config
from tapgnn.model.model import Model
from tapgnn.model.state import ARENAS, State
from tapgnn.vocabulary import Vocabulary

FORMAT = 1
_DTYPES = {"float32": torch.float32, "float64": torch.float64}


def save_model(model: Model, folder: str | Path) -> str:
    """Write the model into a folder, file by file and each atomically; returns its hash."""
    kind = str(model.dtype).removeprefix("torch.")
    if kind not in _DTYPES:
        raise ConfigError(f"a model of type {kind} cannot be saved; convert it with model.float() first")
    target = Path(folder)
    weights = save_tensors({name: tensor.contiguous() for name, tensor in model.state_dict().items()})
    vocabulary = json.dumps(list(model.vocabulary.ids)).encode()
    manifest = {
        "format": FORMAT,
        "dtype": kind,
        "nodes": model.inputs.nodes,
        "config": model.config.to_dict(),
        "sha256": {"weights.safetensors": bytes_sha256(weights), "vocabulary.json": bytes_sha256(vocabulary)},
    }
    text = json.dumps(manifest, indent=2, sort_keys=True).encode()
    write_atomically(target / "weights.safetensors", weights)
    write_atomically(target / "vocabulary.json", vocabulary)
    write_atomically(target / "model.json", text)
    return bytes_sha256(text)


def load_model(folder: str | Path) -> Model:
    """Read a model that `save_model` wrote; one that is missing, damaged or newer is a clear error."""
    source = Path(folder)
    manifest = _manifest(source)
    vocabulary = Vocabulary(json.loads(_checked(source, "vocabulary.json", manifest)))
    try:
        config = Config.from_dict(manifest["config"])
        model = Model(config, Vocabulary(vocabulary.ids[: manifest["nodes"]])).to(_DTYPES[manifest["dtype"]])
        weights = load_tensors(_checked(source, "weights.safetensors", manifest))
        model.inputs.features = weights["inputs.features"]
        model.load_state_dict(weights)
    except (KeyError, TypeError, RuntimeError, SafetensorError, ConfigError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelFileError(f"{source}: the files do not describe one model ({reason}); save it again") from None
    model.vocabulary = vocabulary
    return model.eval()


def model_hash(folder: str | Path) -> str:
    """The hash of a saved model."""
    _manifest(Path(folder))
    return bytes_sha256((Path(folder) / "model.json").read_bytes())


def save_state(state: State, path: str | Path, digest: str) -> None:
    """Write a state and the hash of the model that it belongs to."""
    state.check_usable()
    facts = {"clock": state.clock, "events": state.events, "size": state.size, "sketch_width": state.sketch_width}
    arenas = {name: getattr(state, name)[: state.size + 1] for name in ARENAS}
    write_tensors(path, arenas, {**facts, "model": digest})


def load_state(path: str | Path, digest: str) -> State:
    """Read a state that `save_state` wrote for the model with this hash; another model's is refused."""
    arenas, facts = read_tensors(path)
    if facts.pop("model", None) != digest:
        raise ModelFileError(f"{path} belongs to another model; replay the log into this one instead")
    columns: dict[str, Any] = {**arenas, **facts}
    return State(**columns)


def write_tensors(path: str | Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write named tensors and plain values as one file, there whole or not at all."""
    plain = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    write_atomically(path, save_tensors(plain, metadata={"about": json.dumps(about)}))


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote."""
    if not Path(path).is_file():
        raise ModelFileError(f"{path} is missing; restore the whole folder from a copy")
    try:
        with safe_open(str(path), framework="pt") as file:
            about = json.loads((file.metadata() or {})["about"])
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelFileError(f"{path} is damaged ({error}); restore it from a copy") from None


def _manifest(source: Path) -> dict[str, Any]:
    path = source / "model.json"
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ModelFileError(
            f"{path} is missing; {source} is not a saved model, or its writing was cut short"
        ) from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ModelFileError(f"{path} is damaged: it is not JSON; restore it from a copy or train again") from None
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if not isinstance(version, int) or not isinstance(manifest.get("sha256"), dict):
        raise ModelFileError(f"{path} is damaged: no format or checksums; restore it from a copy or train again")
    if version > FORMAT:
        raise ModelFileError(f"{path} has format {version}, this version reads up to {FORMAT}; upgrade tapgnn")
    return manifest  # type: ignore[no-any-return]


def _checked(source: Path, name: str, manifest: dict[str, Any]) -> bytes:
    path = source / name
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"{path} is missing; restore the whole folder from a copy") from None
    if bytes_sha256(content) != manifest["sha256"].get(name):
        raise ModelFileError(f"{path} is damaged: its checksum is not the one in model.json; restore it from a copy")
    return content
