"""A folder that is not what `fit` saved ends in one line with the file and the cure: never in a crash or an answer.

Half of these folders are damaged by accident; the other half come from someone who also computes the checksums.
"""

import json
import os
import shutil

import pytest
import torch

from tapgnn import TAPGNN
from tapgnn.errors import TapgnnError
from tapgnn.online.engine.starting_point import StartingPoint
from tests.cli.command import started, tapgnn
from tests.model.damage import configured, flip_byte, replaced, reseal, rewritten

STATE, ESTIMATOR, WEIGHTS = "state.safetensors", "estimator.safetensors", "weights.safetensors"
FILES = ("model.json", "vocabulary.json", WEIGHTS, STATE, ESTIMATOR)


def _truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _replace(path, make):
    path.unlink()
    make(path)


ACCIDENTS = {
    "missing": lambda path: path.unlink(),
    "cut in half": _truncate,
    "empty": lambda path: path.write_bytes(b""),
    "a folder": lambda path: _replace(path, lambda at: at.mkdir()),
    "a link to itself": lambda path: _replace(path, lambda at: at.symlink_to(at)),
    "a pipe": lambda path: _replace(path, os.mkfifo),
    "one bit flipped": flip_byte,
}


def cut_rows(tensors, about):
    for name in tensors:
        tensors[name] = tensors[name][:50].clone()


def set_about(**values):
    return lambda tensors, about: about.update(values)


def set_params(**values):
    return lambda tensors, about: about["params"].update(values)


def set_tensor(name, change):
    return lambda tensors, about: tensors.update({name: change(tensors[name])})


def put_number(name, row, column, value):
    return lambda tensors, about: tensors[name][row].__setitem__(column, value)


def grow(tensors, about):
    """A state of a million nodes that it has no rows for."""
    about["size"] = 1_000_000


def other_header(length=None, text=None):
    """A safetensors file whose header says something else."""

    def act(folder):
        content = (folder / STATE).read_bytes()
        size = int.from_bytes(content[:8], "little")
        header = content[8 : 8 + size] if text is None else text(content[8 : 8 + size])
        count = len(header) if length is None else length
        replaced(STATE, count.to_bytes(8, "little") + header + content[8 + size :])(folder)

    return act


def drop_entry(folder):
    manifest = json.loads((folder / "model.json").read_text())
    del manifest["sha256"][STATE]
    (folder / "model.json").write_text(json.dumps(manifest))
    reseal(folder)


def of_another_model(folder):
    config = json.loads((folder / "model.json").read_text())["config"]
    model = TAPGNN(width=8, epochs=1, options={"sketch_width": 8})
    reseal(folder, config={**config, **model.config().to_dict()})


def first(value):
    return lambda tensor: tensor.index_fill(0, torch.tensor([0]), value)


CRAFTED = {
    "state of 50 rows": rewritten(STATE, cut_rows),
    "state of 50 rows that says so": rewritten(STATE, lambda t, about: (cut_rows(t, about), about.update(size=60))),
    "state of a million nodes": rewritten(STATE, grow),
    "state of -1 nodes": rewritten(STATE, set_about(size=-1)),
    "state of many nodes": rewritten(STATE, set_about(size="many")),
    "state of a half node": rewritten(STATE, set_about(size=0.5)),
    "state whose clock is NaN": rewritten(STATE, set_about(clock=float("nan"))),
    "state whose clock is infinite": rewritten(STATE, set_about(clock=float("inf"))),
    "state whose clock is a date": rewritten(STATE, set_about(clock="2026-01-01")),
    "state of -1 events": rewritten(STATE, set_about(events=-1)),
    "state that is used up": rewritten(STATE, set_about(consumed=True)),
    "state with views": rewritten(STATE, set_about(views=[1, 2])),
    "state of other sketches": rewritten(STATE, set_about(sketch_width=1 << 40)),
    "state without a clock": rewritten(STATE, lambda _, about: about.pop("clock")),
    "state without sums": rewritten(STATE, lambda tensors, _: tensors.pop("sums")),
    "state with an arena more": rewritten(STATE, lambda tensors, _: tensors.update(more=torch.ones(1))),
    "narrow embeddings": rewritten(STATE, set_tensor("embedding", lambda rows: rows[:, :3].clone())),
    "double embeddings": rewritten(STATE, set_tensor("embedding", torch.Tensor.double)),
    "whole statistics": rewritten(STATE, set_tensor("statistics", lambda rows: torch.zeros_like(rows).long())),
    "flat sketches": rewritten(STATE, set_tensor("sketch", torch.Tensor.flatten)),
    "an embedding that is NaN": rewritten(STATE, put_number("embedding", 3, 0, float("nan"))),
    "an infinite sum": rewritten(STATE, put_number("sums", 3, 0, float("inf"))),
    "a negative count": rewritten(STATE, put_number("statistics", 3, 0, -1.0)),
    "an event after the clock": rewritten(STATE, put_number("statistics", 3, 2, 1e300)),
    "a header of 2^63 bytes": other_header(length=(1 << 63) - 1),
    "a header of 90 MB": other_header(length=90_000_000),
    "a header that is not JSON": other_header(text=lambda text: b"[" * len(text)),
    "a header without values": other_header(text=lambda text: text.replace(b'"about"', b'"other"')),
    "tensors that overlap": other_header(text=lambda text: text.replace(b'"data_offsets":[0,', b'"data_offsets":[8,')),
    "an unknown type of numbers": other_header(text=lambda text: text.replace(b'"F32"', b'"Q99"')),
    "values that are a list": replaced(STATE, torch.ones(2).numpy().tobytes()),
    "a state that nobody listed": drop_entry,
    "candidates beyond the vocabulary": rewritten(ESTIMATOR, set_tensor("candidates", lambda rows: rows + 1_000_000)),
    "negative candidates": rewritten(ESTIMATOR, set_tensor("candidates", first(-5))),
    "half candidates": rewritten(ESTIMATOR, set_tensor("candidates", lambda rows: rows + 0.5)),
    "square candidates": rewritten(ESTIMATOR, set_tensor("candidates", lambda rows: rows[:, None].repeat(1, 2))),
    "no candidates": rewritten(ESTIMATOR, lambda tensors, _: tensors.pop("candidates")),
    "a narrow classifier": rewritten(ESTIMATOR, set_tensor("classifier.additive", lambda row: row[:, :4].clone())),
    "a classifier that reads beyond a description": rewritten(
        ESTIMATOR, set_tensor("classifier.used", lambda row: row + 999)
    ),
    "a classifier that reads before it": rewritten(ESTIMATOR, set_tensor("classifier.used", lambda row: row - 1)),
    "a classifier of no rank": rewritten(ESTIMATOR, set_tensor("classifier.first", lambda row: row[0].clone())),
    "a classifier that is NaN": rewritten(ESTIMATOR, set_tensor("classifier.low", lambda row: row * torch.nan)),
    "half a classifier": rewritten(ESTIMATOR, lambda tensors, _: tensors.pop("classifier.out")),
    "parameters that are a number": rewritten(ESTIMATOR, set_about(params=3)),
    "an unknown parameter": rewritten(ESTIMATOR, set_params(colour="red")),
    "epochs that are a word": rewritten(ESTIMATOR, set_params(epochs="many")),
    "a weight too many": rewritten(WEIGHTS, lambda tensors, _: tensors.update(more=torch.ones(1))),
    "a weight too few": rewritten(WEIGHTS, lambda tensors, _: tensors.pop("walk_scale")),
    "vectors of half the nodes": rewritten(WEIGHTS, set_tensor("inputs.vectors.weight", lambda rows: rows[:9].clone())),
    "flat features": rewritten(WEIGHTS, set_tensor("inputs.features", lambda rows: torch.ones(()))),
    "half-precision weights": rewritten(WEIGHTS, set_tensor("walk_scale", torch.Tensor.half)),
    "weights that are NaN": rewritten(WEIGHTS, set_tensor("walk_scale", lambda row: row * torch.nan)),
    "ids that are no list": replaced("vocabulary.json", {"a": 1}),
    "ids that repeat": replaced("vocabulary.json", ["a"] * 340),
    "ids that are lists": replaced("vocabulary.json", [["a"]]),
    "ids that are fractions": replaced("vocabulary.json", [row + 0.5 for row in range(340)]),
    "half of a character": replaced("vocabulary.json", ["\ud800", *range(339)]),
    "too few ids": replaced("vocabulary.json", [1, 2, 3]),
    "a thousand brackets": replaced("vocabulary.json", b"[" * 100_000),
    "configuration of another model": of_another_model,
    "configuration of another kernel": configured(kernel="mean"),
    "a billion channels": configured(width=1_000_000_000),
    "60,000 channels": configured(width=60_000),
    "a million sketches": configured(sketch_width=1 << 20),
    "a billion layers": configured(layers=1_000_000_000),
    "60,000 layers": configured(layers=60_000),
    "-1 layers": configured(layers=-1),
    "a width in words": configured(width="wide"),
    "a half-life that is NaN": configured(half_lives=[float("nan")] * 5),
    "half-lives that are a number": configured(half_lives=3),
    "a span of 0": configured(span=0.0),
    "an unknown option": configured(colour="red"),
    "configuration that is a list": lambda folder: reseal(folder, config=[]),
    "numbers of an unknown type": lambda folder: reseal(folder, dtype="int8"),
    "a type that is a list": lambda folder: reseal(folder, dtype=[]),
    "-1 nodes": lambda folder: reseal(folder, nodes=-1),
    "a million nodes": lambda folder: reseal(folder, nodes=1_000_000),
    "nodes that are true": lambda folder: reseal(folder, nodes=True),
    "a list": lambda folder: (folder / "model.json").write_text("[]"),
    "a format in words": lambda folder: reseal(folder, format="new"),
    "an older format": lambda folder: reseal(folder, format=1),
    "a newer format": lambda folder: reseal(folder, format=99),
}


@pytest.fixture
def copy(model, tmp_path):
    return shutil.copytree(model, tmp_path / "model")


@pytest.fixture(scope="module")
def node(model):
    return json.loads((model / "vocabulary.json").read_text())[0]


def assert_refused(folder, node):
    for load in (TAPGNN.load, StartingPoint.of):
        with pytest.raises(TapgnnError) as caught:
            load(folder)
        said = str(caught.value)
        assert "\n" not in said
        assert str(folder) in said
        assert any(cure in said for cure in ("; restore", "; fit the model again", "; upgrade", "not a saved model"))
    assert tapgnn("rank", folder, node).refusal == f"tapgnn: {said}"


@pytest.mark.parametrize("accident", ACCIDENTS)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_one_line(name, accident, copy, node):
    ACCIDENTS[accident](copy / name)
    assert_refused(copy, node)


@pytest.mark.parametrize("case", CRAFTED)
def test_a_file_with_the_right_checksum_and_the_wrong_content_is_one_line(case, copy, node):
    CRAFTED[case](copy)
    assert_refused(copy, node)


@pytest.mark.parametrize("case", ["state of 50 rows", "candidates beyond the vocabulary", "60,000 channels"])
def test_no_content_ends_the_process(case, copy, node):
    CRAFTED[case](copy)
    process = started("rank", copy, node)
    out, err = process.communicate()
    assert (process.returncode, out, len(err.splitlines())) == (2, "", 1), err


def test_a_folder_with_right_checksums_made_by_others_is_accepted(copy, model, node):
    """What refuses the folders above is their content, not that someone else computed the checksums."""
    rewritten(STATE, lambda tensors, about: None)(copy)
    rewritten(ESTIMATOR, lambda tensors, about: None)(copy)
    assert tapgnn("rank", copy, node).out == tapgnn("rank", model, node).out


@pytest.mark.parametrize(
    "content", [3, "csv", ["src"], {"schema": {}}, {"schema": {"src": 7}, "encoder": {}}, b"{", {"encoder": {}}]
)
def test_a_wrong_note_of_how_the_log_was_read_is_one_line(content, copy, node):
    replaced("schema.json", content)(copy)
    assert "schema.json has invalid content" in tapgnn("rank", copy, node).refusal


def test_a_model_that_is_saved_again_still_knows_how_its_log_was_read(copy):
    schema = TAPGNN.load(copy).schema
    assert schema.to_dict() == json.loads((copy / "fit.json").read_text())["schema"]
    TAPGNN.load(copy).save(copy)
    assert TAPGNN.load(copy).schema == schema
