"""A checkpoint belongs to one training: its settings, its events and their ids."""

from dataclasses import replace

import numpy as np
import pytest

from tapgnn import TAPGNN, Events
from tapgnn.errors import ModelFileError

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
