"""A kernel from another package is found by its entry point, and is trained, saved, loaded, served and explained."""

import sys

import numpy as np
import pytest
import torch

from tapgnn import TAPGNN, Config, Events, load_model
from tapgnn.errors import ConfigError, ModelFileError
from tapgnn.online.engine.engine import Engine
from tapgnn.online.explain.event_window import Window

from ..online.live import explain_now
from ..streams import assert_same_state, tiny_model


@pytest.fixture
def offered(tmp_path, monkeypatch):
    """A distribution beside the project that offers one kernel, and one thing that is none."""
    info = tmp_path / "site" / "halving-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: halving\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tapgnn.kernels]\nhalving = tests.kernels.outside:Halving\nwrong = json:dumps\n"
    )
    monkeypatch.setattr(sys, "path", [str(info.parent), *sys.path])


def log(size=300):
    rng = np.random.default_rng(0)
    return Events.from_arrays(*rng.integers(0, 12, (2, size)), np.arange(size, dtype=float))


def test_it_is_trained_saved_loaded_and_served(offered, tmp_path):
    events = log()
    model = TAPGNN(kernel="halving", width=8, epochs=1).fit(events)
    assert model.model_.config.kernel == "halving"
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").config.kernel == "halving"
    with Engine.open(tmp_path / "model", journal=tmp_path / "state.db") as engine:
        engine.observe([("a", "b", 1000.0), ("a", 3, 1001.0)])
        assert 0 < engine.score(["a"], [3])[0] < 1


def test_its_scan_is_its_definition_and_any_cut_gives_the_same_state(offered):
    events = log(60)
    model = tiny_model("halving", events.vocabulary, origin=0.0)
    trace, state = model.advance(events, model.empty_state())
    torch.testing.assert_close(trace.embedding, model.advance_directly(events), rtol=1e-10, atol=1e-10)
    with torch.no_grad():
        cut = model.empty_state()
        for piece in events.chunks(7):
            _, cut = model.advance(piece, cut)
    assert_same_state(state, cut)


@torch.no_grad()
def test_its_scores_are_explained(offered):
    events = log(40)
    model = tiny_model("halving", events.vocabulary, origin=0.0)
    window = Window(model, 40)
    trace, state = model.advance(events, model.empty_state())
    window.record(events, trace)
    found = explain_now(model, state, window, 0, 1, 41.0, limit=40)
    assert found.logit == pytest.approx(float(model.score(state, *events.vocabulary.rows([0, 1])[:, None], 41.0)))
    assert found.base + found.older + sum(cause.embedding for cause in found.causes) == pytest.approx(found.logit)


def test_what_is_not_offered_or_no_kernel_is_refused_with_the_choice(offered, monkeypatch, tmp_path):
    with pytest.raises(
        ConfigError, match="not one of gcn, mean, pool, attention, adaptive, mean-with-self, halving, wrong"
    ):
        Config(kernel="thirding")
    with pytest.raises(ConfigError, match=r"json:dumps, which is not a subclass of tapgnn\.kernels\.Kernel"):
        Config(kernel="wrong")
    TAPGNN(kernel="halving", width=8, epochs=1).fit(log(60)).save(tmp_path / "model")
    monkeypatch.undo()
    with pytest.raises((ConfigError, ModelFileError), match="halving"):
        load_model(tmp_path / "model")
