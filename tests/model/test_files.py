"""Saved models: what comes back is what was saved, and anything else is refused with a cure."""

import json

import pytest
import torch
from safetensors.torch import save_file

from tapgnn import Events, load_model, save_model
from tapgnn.errors import ModelFileError
from tapgnn.model import model_hash

from ..streams import tiny_model


@pytest.fixture
def saved(tmp_path):
    events = Events.from_arrays(["a", "b", 7], ["b", 7, "a"], [1.0, 2.0, 3.0])
    model = tiny_model(vocabulary=events.vocabulary, node_features=1)
    model.inputs.describe([0, 9], [[2.0], [3.0]])
    events.vocabulary.add(["later"])
    save_model(model, tmp_path / "model")
    return tmp_path / "model", model


def test_a_model_comes_back_with_its_numbers_and_its_ids(saved):
    folder, model = saved
    again = load_model(folder)
    assert again.vocabulary == model.vocabulary
    assert again.config == model.config
    assert again.dtype == torch.float64
    for (name, first), second in zip(model.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(first, second), name
    columns = (["a", "later"], ["b", "a"], [5.0, 6.0])
    scores = []
    for each in (model, again):
        events = Events.from_arrays(*columns, vocabulary=each.vocabulary)
        _, state = each.advance(events, each.empty_state())
        scores.append(each.score(state, [0, 3], [1, 0], 7.0))
    assert torch.equal(*scores)


def test_the_hash_names_the_contents(saved, tmp_path):
    folder, model = saved
    assert save_model(model, tmp_path / "copy") == model_hash(folder)
    with torch.no_grad():
        model.projection.norm.bias += 1e-9
    assert save_model(model, tmp_path / "changed") != model_hash(folder)


def flip_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def edit(key, value):
    def act(folder):
        manifest = json.loads((folder / "model.json").read_text())
        manifest[key] = value
        (folder / "model.json").write_text(json.dumps(manifest))

    return act


def other_weights(folder):
    save_file({"x": torch.ones(1)}, folder / "weights.safetensors")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "model.json").unlink(), "model.json is missing"),
        (lambda folder: (folder / "model.json").write_text("{"), "not JSON"),
        (lambda folder: (folder / "model.json").write_text("[]"), "no format"),
        (lambda folder: (folder / "weights.safetensors").unlink(), "weights.safetensors is missing"),
        (lambda folder: flip_byte(folder / "weights.safetensors"), "checksum"),
        (lambda folder: flip_byte(folder / "vocabulary.json"), "checksum"),
        (lambda folder: (folder / "vocabulary.json").write_bytes(b""), "checksum"),
        (other_weights, "checksum"),
        (edit("format", 99), "upgrade tapgnn"),
        (edit("dtype", "int8"), "do not describe one model"),
        (edit("nodes", 1), "do not describe one model"),
        (edit("config", {"depth": 3}), "unknown option"),
    ],
)
def test_a_damaged_or_newer_model_is_refused_in_one_line(saved, damage, words):
    folder, _ = saved
    damage(folder)
    with pytest.raises(ModelFileError, match=words) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


def test_saving_again_leaves_no_scraps(saved):
    folder, model = saved
    save_model(model, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "vocabulary.json", "weights.safetensors"]
