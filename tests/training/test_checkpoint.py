"""A checkpoint belongs to one training: its settings, its events and their ids; all else is refused in one line."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from tapgnn import TAPGNN, Events
from tapgnn.errors import ModelFileError
from tapgnn.file_integrity import bytes_sha256
from tapgnn.model.files import pack_tensors, unpack_tensors

from ..model.damage import flip_byte

SIZE, BORDER = 400, 340


def columns():
    rng = np.random.default_rng(0)
    return rng.integers(0, 20, SIZE), rng.integers(20, 40, SIZE), np.arange(SIZE, dtype=float)


def parts(src, dst, time, prefix="n"):
    log = Events.from_arrays([f"{prefix}{n}" for n in src], [f"{prefix}{n}" for n in dst], time)
    return log.slice(0, BORDER), log.slice(BORDER, SIZE)


def fit(train, valid, folder, **options):
    return TAPGNN(width=8, epochs=options.pop("epochs", 1)).fit(train, valid, checkpoint=folder, **options)


@pytest.mark.parametrize("part", ["train", "valid", "ids"])
def test_a_training_does_not_go_on_with_other_events_of_the_same_number_and_times(part, tmp_path):
    src, dst, time = columns()
    fit(*parts(src, dst, time), tmp_path)
    row = {"train": 100, "valid": BORDER + 20, "ids": 0}[part]
    if part != "ids":
        dst[row] = 20 + (dst[row] - 19) % 20
    other = parts(src, dst, time, "other" if part == "ids" else "n")
    with pytest.raises(ModelFileError, match="other data or settings; start without --resume"):
        fit(*other, tmp_path, resume=True, epochs=2)


def test_a_training_goes_on_with_the_same_events_read_anew(tmp_path):
    fit(*parts(*columns()), tmp_path)
    train, valid = parts(*columns())
    assert fit(train, replace(valid), tmp_path, resume=True, epochs=2).history_.points[-1]["epoch"] == 2.0


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of a training that was stopped after an epoch."""
    folder = tmp_path_factory.mktemp("stopped")
    fit(*parts(*columns()), folder)
    return folder


def crafted(change):
    """A checkpoint after change(tensors, progress), with the right checksum."""

    def act(path):
        tensors, progress = unpack_tensors(path, path.read_bytes())
        progress.pop("sha256")
        change(tensors, progress)
        progress["sha256"] = bytes_sha256(pack_tensors(tensors, progress))
        path.write_bytes(pack_tensors(tensors, progress))

    return act


def changed(name, change):
    return crafted(lambda tensors, _: tensors.update({name: change(tensors[name])}))


def told(**values):
    return crafted(lambda _, progress: progress.update(values))


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def make_folder(path):
    path.unlink()
    path.mkdir()


HOSTILE = {
    "one bit flipped": flip_byte,
    "cut short": truncate,
    "empty": lambda path: path.write_bytes(b""),
    "a folder": make_folder,
    "a header of 2^63 bytes": lambda path: path.write_bytes(b"\xff" * 7 + b"\x7f" + path.read_bytes()[8:]),
    "narrow weights": changed("model.walk_scale", lambda row: row[:2].clone()),
    "double best weights": changed("best.walk_scale", torch.Tensor.double),
    "no best weight": crafted(lambda tensors, _: tensors.pop("best.walk_scale")),
    "short moments": changed("optimizer.0.8.exp_avg", lambda rows: rows[:1].clone()),
    "moments of a few nodes": changed("optimizer.1.0.moments", lambda rows: rows[:, :2].clone()),
    "half moments": crafted(lambda tensors, _: tensors.pop("optimizer.1.0.moments")),
    "moments of nothing": crafted(lambda tensors, _: tensors.update({"optimizer.0.999.step": torch.ones(())})),
    "moments by name": crafted(lambda tensors, _: tensors.update({"optimizer.0.x.step": torch.ones(())})),
    "a short generator": changed("torch_generator", lambda state: state[:8].clone()),
    "another generator": told(numpy_generator={"bit_generator": "PCG64"}),
    "a generator that is a list": told(numpy_generator=[]),
    "epoch -1": told(epoch=-1),
    "an epoch in words": told(epoch="first"),
    "a history that is a list": told(history=[]),
    "a history in words": crafted(lambda _, progress: progress["history"].update(best_epoch="first")),
    "points in words": crafted(lambda _, progress: progress["history"].update(points=["first"])),
    "nothing about the training": crafted(lambda _, progress: progress.pop("about")),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_checkpoint_with_the_wrong_content_is_one_line(case, stopped, tmp_path):
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    HOSTILE[case](tmp_path / "checkpoint.safetensors")
    with pytest.raises(ModelFileError, match=r"; start without --resume$") as caught:
        fit(*parts(*columns()), tmp_path, resume=True, epochs=2)
    assert "\n" not in str(caught.value)
