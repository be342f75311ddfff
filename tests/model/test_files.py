"""Saved models: what comes back is what was saved, and anything else is refused with a cure."""

import json

import pytest
import torch
from safetensors.torch import save_file

from tapgnn import Events, load_model, save_model
from tapgnn.errors import ConfigError, ModelFileError
from tapgnn.model import model_hash
from tapgnn.model.files import load_state

from ..streams import KERNEL_NAMES, assert_same_state, tiny_model
from .damage import flip_byte, reseal


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


def test_a_type_that_could_not_be_read_back_is_not_saved(saved, tmp_path):
    with pytest.raises(ConfigError, match="float"):
        save_model(saved[1].bfloat16(), tmp_path / "half")


def test_a_state_comes_back_with_its_model(saved, tmp_path):
    _, model = saved
    events = Events.from_arrays(["a", "later"], ["b", "a"], [5.0, 6.0], vocabulary=model.vocabulary)
    _, state = model.advance(events, model.empty_state())
    save_model(model, tmp_path / "with", state)
    assert_same_state(state, load_state(tmp_path / "with", load_model(tmp_path / "with")), tolerance=0)
    assert model_hash(tmp_path / "with") == model_hash(saved[0])


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_a_state_of_any_kernel_comes_back_also_when_it_is_empty(kernel, tmp_path):
    events = Events.from_arrays(["a", "b"], ["b", "b"], [1.0, 2.0])
    model = tiny_model(kernel, events.vocabulary)
    empty, (_, full) = model.empty_state(), model.advance(events, model.empty_state())
    for state in (empty, full):
        save_model(model, tmp_path, state)
        assert_same_state(state, load_state(tmp_path, model), tolerance=0)


def test_a_state_that_kept_its_sums_in_float64_comes_back_in_the_type_of_the_model(tmp_path):
    log = Events.from_arrays([0, 1], [1, 2], [1.0, 2.0])
    model = tiny_model(vocabulary=log.vocabulary).float()
    with torch.no_grad():
        _, state = model.advance(log, model.empty_state())
    old = state.copy()
    old.sums = old.sums.double()
    save_model(model, tmp_path, old)
    assert_same_state(load_state(tmp_path, model), state, tolerance=0)


def test_a_state_of_another_model_is_refused(saved, tmp_path):
    folder, model = saved
    events = Events.from_arrays(["a"], ["b"], [5.0], vocabulary=model.vocabulary)
    save_model(model, tmp_path / "with", model.advance(events, model.empty_state())[1])
    (folder / "state.safetensors").write_bytes((tmp_path / "with" / "state.safetensors").read_bytes())
    with pytest.raises(ModelFileError, match=r"state.safetensors is not listed in model.json"):
        load_state(folder, model)


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
        (lambda folder: (folder / "model.json").write_text("{"), "model.json has invalid content"),
        (lambda folder: (folder / "model.json").write_text("[]"), "model.json has invalid content"),
        (lambda folder: (folder / "weights.safetensors").unlink(), "weights.safetensors is missing"),
        (lambda folder: flip_byte(folder / "weights.safetensors"), "checksum"),
        (lambda folder: flip_byte(folder / "vocabulary.json"), "checksum"),
        (lambda folder: (folder / "vocabulary.json").write_bytes(b""), "checksum"),
        (other_weights, "checksum"),
        (edit("format", 99), "upgrade tapgnn"),
        (edit("format", 1), "fit the model again with this version"),
        (edit("dtype", "float32"), "its own checksum"),
        (edit("nodes", 1), "its own checksum"),
        (edit("config", {}), "its own checksum"),
        (lambda folder: reseal(folder, dtype="int8"), "int8"),
        (lambda folder: reseal(folder, dtype="float32"), "torch.float64"),
        (lambda folder: reseal(folder, nodes=1), "inputs.vectors.weight is"),
        (lambda folder: reseal(folder, config={"depth": 3}), "unknown option"),
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
