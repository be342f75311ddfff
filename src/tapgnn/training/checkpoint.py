"""Checkpoints: a training on disk after every epoch, which can be resumed and ends in the same bits.

One safetensors file: weights, best weights, optimizer moments and torch's generator as tensors; epoch, history, numpy's
generator, the configuration, a fingerprint of the events, and the checksum of all this as JSON in its header. Nothing
is unpickled, and no tensor is used before its name, size and type are known to fit the training.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tapgnn.errors import ConfigError, ModelFileError
from tapgnn.events import events_fingerprint
from tapgnn.file_integrity import bytes_sha256, write_atomically
from tapgnn.model.files import check_count, check_tensors, pack_tensors, read_whole, refusing, unpack_tensors
from tapgnn.training.link_prediction import History, LinkTraining
from tapgnn.training.row_adam import RowAdam

FILE, CURE = "checkpoint.safetensors", "start without --resume"


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
    progress["sha256"] = bytes_sha256(pack_tensors(tensors, progress))
    write_atomically(Path(folder) / FILE, pack_tensors(tensors, progress))


def load_checkpoint(training: LinkTraining, folder: str | Path) -> None:
    """Restore a training with the same data and settings to where the checkpoint was written."""
    source = Path(folder) / FILE
    if not os.path.lexists(source):
        raise ModelFileError(f"{folder} holds no checkpoint; {CURE}")
    tensors, progress = unpack_tensors(source, read_whole(source, CURE), CURE)
    with refusing(source, CURE):
        if progress.pop("sha256") != bytes_sha256(pack_tensors(tensors, progress)):
            raise ConfigError("it is damaged: its checksum does not match its header")
        if progress["about"] != json.loads(json.dumps(_about(training))):
            raise ModelFileError(f"{source} belongs to a training with other data or settings; {CURE}")
        _restore(training, tensors, progress)


def _restore(training: LinkTraining, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
    weights, best = _under(tensors, "model."), _under(tensors, "best.")
    for found in (weights, best) if best else (weights,):
        check_tensors(found, training.model.state_dict())
    training.model.load_state_dict(weights)
    training.best = best
    for place, optimizer in enumerate(training.optimizers):
        optimizer.load_state_dict(
            {**optimizer.state_dict(), "state": _moments(optimizer, _under(tensors, f"optimizer.{place}."))}
        )
    check_count("epoch", progress["epoch"], sys.maxsize)
    training.epoch, training.history = progress["epoch"], _history(progress["history"])
    training.rng.bit_generator.state = progress["numpy_generator"]
    torch.set_rng_state(tensors["torch_generator"])


def _moments(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> dict[int, dict[str, Any]]:
    """The state of an optimizer by the place of the parameter, each tensor as large as compiled code expects it."""
    tables = [table for group in optimizer.param_groups for table in group["params"]]
    # That of the node vectors counts its steps in a plain integer.
    whole = not isinstance(optimizer, torch.optim.Adam)
    state: dict[int, dict[str, Any]] = {}
    for key in sorted({name.split(".")[0] for name in tensors}):
        check_count("a parameter", int(key), len(tables) - 1)
        table, found = tables[int(key)], _under(tensors, f"{key}.")
        expected = {"step": torch.empty((), dtype=torch.int64 if whole else torch.float32)}
        if isinstance(optimizer, RowAdam):
            expected["moments"] = table.new_empty(2, *table.shape, device="meta")
        else:
            expected |= {"exp_avg": table, "exp_avg_sq": table}
        check_tensors(found, expected)
        state[int(key)] = {**found, "step": int(found["step"])} if whole else dict(found)
    return state


def _history(values: dict[str, Any]) -> History:
    history = History(**values)
    points = [value for point in history.points for value in (point["epoch"], point["loss"], point["validation"])]
    numbers = (*points, history.best, history.best_epoch, history.seconds, history.events)
    if not all(isinstance(number, int | float) for number in numbers):
        raise ConfigError("its history has values that are not numbers")
    return history


def _about(training: LinkTraining) -> dict[str, Any]:
    return {
        "config": training.model.config.to_dict(),
        "settings": {name: value for name, value in asdict(training.settings).items() if name != "epochs"},
        "events": [events_fingerprint(training.train), events_fingerprint(training.valid)],
    }


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
