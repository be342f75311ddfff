"""Damaged files: bytes changed at random give one clear line or all the events, never fewer in silence."""

import random

import numpy as np
import pytest

from tapgnn import Events
from tapgnn.data import read_events, write_events
from tapgnn.errors import DataError
from tests.data.logs import put
from tests.data.reading.malformed import damaged_texts, possible_counts


def outcome(path):
    """The number of events, or None where the file is refused as it should be."""
    try:
        return len(read_events(path))
    except DataError as error:
        message = str(error)
    assert "\n" not in message
    assert path.name in message
    return None


@pytest.mark.parametrize("seed", range(30))
def test_no_damage_to_a_text_file_loses_events_in_silence(tmp_path, seed):
    for damaged in damaged_texts(seed, 40):
        assert outcome(put(tmp_path, "log.csv", damaged)) in (None, *possible_counts(damaged))


@pytest.mark.parametrize("ending", ["csv.gz", "jsonl.gz", "parquet"])
def test_no_damage_to_a_packed_file_loses_events_in_silence(tmp_path, ending):
    rng, numbers = random.Random(ending), np.arange(300)
    path = tmp_path / f"log.{ending}"
    write_events(Events.from_arrays(numbers % 7, numbers % 5, numbers, numbers[:, None] * 0.5, numbers % 2), path)
    good = path.read_bytes()
    for turn in range(300):
        damaged = bytearray(good)
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if turn % 4 == 0:
            del damaged[rng.randrange(len(damaged)) :]
        assert outcome(put(tmp_path, path.name, bytes(damaged))) in (None, 300)
