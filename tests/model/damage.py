"""Saved models that are not what was saved, by accident or by someone who also computes the checksums."""

import hashlib
import json

from safetensors import safe_open
from safetensors.torch import save_file


def reseal(folder, **changes):
    """Change model.json, and make all its checksums right."""
    path = folder / "model.json"
    manifest = {**json.loads(path.read_text()), **changes}
    for name in manifest["sha256"]:
        if (folder / name).is_file():
            manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    told = {name: manifest[name] for name in ("format", "dtype", "nodes", "config")}
    parts = ("weights.safetensors", "vocabulary.json", "schema.json")
    told["sha256"] = {name: manifest["sha256"][name] for name in parts if name in manifest["sha256"]}
    manifest["model_sha256"] = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(manifest))


def replaced(name, content):
    """A file with other content, and the right checksum of it."""

    def act(folder):
        (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        reseal(folder)

    return act


def rewritten(name, change):
    """A file of tensors after change(tensors, values in its header), and the right checksum of it."""

    def act(folder):
        path = str(folder / name)
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118
            header = dict(file.metadata() or {})
        about = json.loads(header["about"]) if "about" in header else {}
        change(tensors, about)
        save_file(tensors, path, {**header, "about": json.dumps(about)} if header else None)
        reseal(folder)

    return act


def configured(**changes):
    """A model.json with other options of the model, and the right checksum of them."""

    def act(folder):
        reseal(folder, config={**json.loads((folder / "model.json").read_text())["config"], **changes})

    return act


def flip_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
