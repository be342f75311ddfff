"""A training on disk after every epoch, so that it can go on where it stopped and end in the same bits.

One safetensors file: weights, best weights, optimizer moments and torch's generator as tensors; epoch, history, numpy's
generator and what the training was about as JSON in its header. Nothing is unpickled.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tapgnn.errors import ModelFileError
from tapgnn.events import events_fingerprint
from tapgnn.model.files import read_tensors, write_tensors
from tapgnn.training.link_prediction import History, LinkTraining

FILE = "checkpoint.safetensors"


def save_checkpoint(training: LinkTraining, folder: str | Path) -> None:
    """Write everything that the next epoch depends on."""
    tensors = {f"model.{name}": tensor for name, tensor in training.model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in training.best.items()}
    for place, optimizer in enumerate(training.optimizers):
        for key, moments in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{place}.{key}.{name}": torch.as_tensor(value) for name, value in moments.items()}
    tensors["torch_generator"] = torch.get_rng_state()
    progress = {
        "epoch": training.epoch,
        "history": asdict(training.history),
        "numpy_generator": training.rng.bit_generator.state,
        "about": _about(training),
    }
    write_tensors(Path(folder) / FILE, tensors, progress)


def load_checkpoint(training: LinkTraining, folder: str | Path) -> None:
    """Bring a training that was made with the same data and settings to where the checkpoint was written."""
    source = Path(folder) / FILE
    if not source.exists():
        raise ModelFileError(f"{folder} holds no checkpoint; start without --resume")
    tensors, progress = read_tensors(source)
    if progress["about"] != json.loads(json.dumps(_about(training))):
        raise ModelFileError(f"{source} belongs to a training with other data or settings; start without --resume")
    training.model.load_state_dict(_under(tensors, "model."))
    training.best = _under(tensors, "best.")
    for place, optimizer in enumerate(training.optimizers):
        state: dict[int, dict[str, Any]] = {}
        for name, tensor in _under(tensors, f"optimizer.{place}.").items():
            key, field = name.split(".", 1)
            # That of the node vectors counts its steps in a plain integer.
            whole = field == "step" and not isinstance(optimizer, torch.optim.Adam)
            state.setdefault(int(key), {})[field] = int(tensor) if whole else tensor
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    training.epoch = progress["epoch"]
    training.history = History(**progress["history"])
    training.rng.bit_generator.state = progress["numpy_generator"]
    torch.set_rng_state(tensors["torch_generator"])


def _about(training: LinkTraining) -> dict[str, Any]:
    settings = asdict(training.settings)
    settings.pop("epochs")
    return {
        "config": training.model.config.to_dict(),
        "settings": settings,
        "events": [events_fingerprint(training.train), events_fingerprint(training.valid)],
    }


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
