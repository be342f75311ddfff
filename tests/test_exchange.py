"""A model for other programs and other places: the same numbers come back."""

import json

import numpy as np
import polars as pl
import pytest
from safetensors import safe_open
from torch import no_grad

from tapgnn import TAPGNN
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.errors import ConfigError, ModelFileError
from tapgnn.exchange import pull, push, write_embeddings, write_head
from tests.cli.command import tapgnn

HEADS = {"dot": "paper", "role-dot": "paper", "additive": "published", "mlp": "adaptive"}


@pytest.fixture(scope="module")
def log():
    return simulate(600, accounts=60, merchants=20, days=20)


@pytest.fixture(scope="module")
def folder(log, tmp_path_factory):
    place = tmp_path_factory.mktemp("exchanged") / "model"
    TAPGNN(width=8, epochs=1).fit(log).save(place)
    return place


@pytest.fixture(scope="module")
def model(folder):
    return TAPGNN.load(folder)


def test_every_format_of_embeddings_holds_what_the_model_answers(model, tmp_path):
    names = list(model.vocabulary.ids)
    known = model.embed(names)
    for ending in ("parquet", "npz", "txt"):
        assert write_embeddings(model, tmp_path / f"nodes.{ending}") == len(names)
    table = pl.read_parquet(tmp_path / "nodes.parquet")
    assert table["node"].to_list() == names
    assert np.array_equal(table.select(pl.col("^z.*$")).to_numpy(), known)
    packed = np.load(tmp_path / "nodes.npz")
    assert packed["node"].tolist() == names
    assert np.array_equal(packed["embedding"], known)
    first, *lines = (tmp_path / "nodes.txt").read_text().splitlines()
    assert first == f"{len(names)} 8"
    words = [line.split(" ") for line in lines]
    assert [word[0] for word in words] == names
    assert np.array_equal(np.array([word[1:] for word in words], dtype=np.float32), known)


def test_gensim_reads_the_text_format(model, tmp_path):
    gensim = pytest.importorskip("gensim.models")
    write_embeddings(model, tmp_path / "nodes.txt")
    vectors = gensim.KeyedVectors.load_word2vec_format(str(tmp_path / "nodes.txt"))
    assert np.allclose(vectors["a00001"], model.embed("a00001")[0], rtol=1e-5, atol=1e-5)


def numpy_head(kind, weight, z, statistics, walks, pairs, left):
    """The formula of docs/reference/file-formats.md."""
    zu, zv = z[:left], z[left:]
    if kind == "dot":
        return (zu * zv).sum(axis=1)
    if kind == "role-dot":
        turned_u = zu @ weight["of_left.weight"].T + weight["of_left.bias"]
        turned_v = zv @ weight["of_right.weight"].T + weight["of_right.bias"]
        return (turned_u * turned_v).sum(axis=1) / np.sqrt(z.shape[1])
    if kind == "additive":
        return np.hstack([zu, zv]) @ weight["of_both.weight"][0] + weight["of_both.bias"]
    logit = zu @ weight["of_pair"][0] + zv @ weight["of_pair"][1] + (zu * zv) @ weight["of_pair"][2]
    hidden = weight["direct.bias"] + statistics[:left] @ weight["direct.of_left.weight"].T
    hidden = hidden + statistics[left:] @ weight["direct.of_right.weight"].T
    hidden = hidden + walks @ weight["direct.of_walks.weight"].T + pairs @ weight["direct.of_pairs.weight"].T
    deep = np.maximum(hidden, 0) @ weight["direct.second.weight"].T + weight["direct.second.bias"]
    return logit + np.maximum(deep, 0) @ weight["direct.out.weight"][0] + weight["direct.out.bias"][0]


@pytest.mark.parametrize("kind", HEADS)
def test_the_exported_head_computes_by_its_formula_what_the_model_scores(kind, log, tmp_path):
    model = TAPGNN(HEADS[kind], width=8, epochs=1, options={"head": kind}).fit(log.slice(0, 300))
    write_head(model, tmp_path / "head.safetensors")
    with safe_open(tmp_path / "head.safetensors", "numpy") as file:
        about = json.loads(file.metadata()["tapgnn_head"])
        weight = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert (about["head"], about["width"]) == (kind, 8)
    given = []
    head, rows = model.model_.head, np.arange(10)
    head.register_forward_pre_hook(lambda module, arguments: given.append(arguments[0]))
    model.model_.train()  # the program on tensors, whose head is given its inputs
    for module in model.model_.modules():
        module.eval()
    times = np.full(10, model.now)
    told = model.model_.score(model.state_, rows, rows + 5, times)
    inputs = given[0]
    with no_grad():
        parts = [None if part is None else part.numpy(force=True) for part in inputs[:4]]
    assert np.allclose(numpy_head(kind, weight, *parts, inputs.left), told.numpy(force=True), rtol=1e-4, atol=1e-5)


def test_a_model_that_is_pushed_and_pulled_is_the_same_model(folder, tmp_path):
    for address in (f"file://{tmp_path}/there", f"memory://{tmp_path.name}/there"):
        files = push(folder, address)
        assert files[-1] == "model.json"
        target = tmp_path / address.partition(":")[0]
        pull(address, target)
        again = TAPGNN.load(target)
        assert again.rank("a00001", k=3) == TAPGNN.load(folder).rank("a00001", k=3)
        with pytest.raises(ModelFileError, match="holds a model already"):
            pull(address, target)


def test_a_copy_that_is_damaged_cut_short_or_not_there_is_refused(folder, tmp_path):
    there = tmp_path / "there"
    push(folder, f"file://{there}")
    (there / "weights.safetensors").write_bytes(b"other")
    with pytest.raises(ModelFileError, match=r"weights\.safetensors is damaged"):
        pull(f"file://{there}", tmp_path / "damaged")
    (there / "state.safetensors").unlink()
    with pytest.raises(ModelFileError, match="not a whole model"):
        pull(f"file://{there}", tmp_path / "short")
    (there / "model.json").write_text('{"sha256": {"../escaped": "0"}}')
    with pytest.raises(ModelFileError, match="not the name of a file"):
        pull(f"file://{there}", tmp_path / "odd")
    with pytest.raises(ModelFileError, match="not a whole model"):
        pull(f"file://{tmp_path}/nowhere", tmp_path / "none")
    with pytest.raises(ConfigError, match="nosuch"):
        push(folder, "nosuch://bucket/model")


def test_the_command_line_exports_pushes_and_pulls(folder, tmp_path):
    shown = tapgnn("export", folder, "--embeddings", tmp_path / "n.npz", "--head", tmp_path / "h.safetensors", "--json")
    assert shown.last["nodes"] == len(np.load(tmp_path / "n.npz")["node"])
    assert tapgnn("push", folder, f"file://{tmp_path}/there").code == 0
    assert tapgnn("pull", f"file://{tmp_path}/there", tmp_path / "back", "--json").last["files"][-1] == "model.json"
    assert "pass --embeddings or --head" in tapgnn("export", folder).refusal
    assert "does not end in one of" in tapgnn("export", folder, "--embeddings", tmp_path / "n.csv").refusal
