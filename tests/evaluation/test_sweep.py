"""Sweep: what varies is what was written, trials are kept, and the test events decide nothing."""

from dataclasses import replace

import numpy as np
import optuna
import pytest

from tapgnn import TAPGNN
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.data.splits import split_strict
from tapgnn.errors import ConfigError
from tapgnn.evaluation.sweep import FILE, known_settings, parse_space, sweep, with_settings

SMALL = TAPGNN(width=8, epochs=1, options={"sketch_width": 8})


@pytest.fixture(scope="module")
def log():
    return simulate(events=600, accounts=80, merchants=20, days=20, seed=3)


def test_values_are_those_that_were_written():
    space = parse_space(
        ["width=32, 64", "learning-rate=1e-4..1e-2", "dropout=0..0.5", "layers=1..3", "roles=true,false"]
    )
    assert space.values["width"].choices == (32, 64)
    assert space.values["roles"].choices == (True, False)
    rate, dropout, layers = (space.values[name] for name in ("learning_rate", "dropout", "layers"))
    assert (rate.low, rate.high, rate.log) == (1e-4, 1e-2, True)
    assert (dropout.low, dropout.high, dropout.log) == (0.0, 0.5, False)
    assert (layers.low, layers.high, layers.log) == (1, 3, False)
    assert space.combinations is None
    assert parse_space(["width=8,16", "kernel=gcn,mean,pool"]).combinations == 6


def test_every_setting_of_model_and_training_can_vary_but_those_that_say_what_is_judged():
    known = known_settings()
    assert {"width", "kernel", "head", "chunk", "patience", "met_share", "node_vectors", "gradient"} <= set(known)
    assert not {"seed", "lag", "select", "span", "events", "edge_features", "half_lives"} & set(known)
    assert (known["width"], known["dropout"], known["roles"], known["head"]) == (int, float, bool, str)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ([], "nothing varies; pass --vary"),
        (["width"], "takes NAME=A,B,... or NAME=LOW..HIGH"),
        (["wdith=3"], "there is no setting 'wdith'; those that vary are"),
        (["select=auc,ap"], "there is no setting 'select'"),
        (["width=8", "width=16"], "width is given twice"),
        (["width=8,wide"], "'wide' is not a whole number"),
        (["roles=yes"], "'yes' is not true or false"),
        (["dropout=0.5..0.1"], "0.5 is not below 0.1"),
        (["head=dot..mlp"], "head is no number; list its values"),
    ],
)
def test_a_wrong_request_is_an_error(written, says):
    with pytest.raises(ConfigError, match=says):
        parse_space(written)


def test_settings_reach_the_estimator_and_its_model():
    model = with_settings(SMALL, {"width": 16, "bins": 3})
    assert (model.config().width, model.config().bins, model.config().sketch_width, model.epochs) == (16, 3, 8, 1)
    assert SMALL.options == {"sketch_width": 8}


def test_every_combination_is_tried_once_and_the_best_is_that_of_validation(log, tmp_path):
    heard = []
    space = parse_space(["width=8,16", "layers=1,2"])
    found = sweep(log, SMALL, space, tmp_path, listener=lambda *told: heard.append(told))
    tried = [(trial["settings"]["width"], trial["settings"]["layers"]) for trial in found.trials]
    assert sorted(tried) == [(8, 1), (8, 2), (16, 1), (16, 2)]
    assert [told[1:] for told in heard] == [(place, 4) for place in range(1, 5)]
    complete = {trial["number"]: trial["validation"] for trial in found.trials if trial["state"] == "complete"}
    assert found.validation == max(complete.values())
    own = with_settings(SMALL, found.settings).fit(split_strict(log).train, split_strict(log).valid)
    assert own.history_.best == found.validation
    assert sweep(log, SMALL, space, tmp_path) == found
    with pytest.raises(ConfigError, match="holds a sweep of other space; pass another --out"):
        sweep(log, SMALL, parse_space(["width=8,16"]), tmp_path)
    with pytest.raises(ConfigError, match="other settings"):
        sweep(log, with_settings(SMALL, {"clip": 2.0}), space, tmp_path)


def test_the_test_events_decide_nothing(log, tmp_path):
    border = len(log) - len(split_strict(log).test)
    rng = np.random.default_rng(0)
    dst = np.append(log.dst[:border], rng.permutation(log.dst[border:]))
    space = parse_space(["learning_rate=1e-3..1e-2"])
    found = [
        sweep(events, SMALL, space, tmp_path / name, trials=2)
        for name, events in (("own", log), ("other", replace(log, dst=dst)))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_a_sweep_that_was_stopped_goes_on_without_the_trial_at_work(log, tmp_path, end, monkeypatch):
    fits, whole = [], TAPGNN.fit

    def stop(self, *given, **options):
        fits.append(self.width)
        if len(fits) == 2:
            raise end
        return whole(self, *given, **options)

    space = parse_space(["width=8,12,16"])
    monkeypatch.setattr(TAPGNN, "fit", stop)
    with pytest.raises(end):
        sweep(log, SMALL, space, tmp_path)
    found = sweep(log, SMALL, space, tmp_path)
    assert sorted(trial["settings"]["width"] for trial in found.trials) == [8, 12, 16]
    assert len(fits) == 4
    assert sweep(log, SMALL, space, tmp_path, trials=3).trials == found.trials


def test_a_setting_that_cannot_be_trained_is_a_failed_trial(log, tmp_path):
    found = sweep(log, SMALL, parse_space(["rates=1,50"]), tmp_path)
    assert {trial["settings"]["rates"]: trial["state"] for trial in found.trials} == {1: "complete", 50: "failed"}
    (failed,) = [trial for trial in found.trials if trial["state"] == "failed"]
    assert "lower rates" in failed["error"]
    with pytest.raises(ConfigError, match=r"no trial was completed; the first one failed with: .*lower rates"):
        sweep(log, SMALL, parse_space(["rates=50"]), tmp_path / "other")


def test_a_trial_that_is_worse_than_the_others_is_stopped_early(log, tmp_path):
    model, space = with_settings(SMALL, {"epochs": 3, "validations": 2}), parse_space(["learning_rate=1e-3..1e-2"])
    sweep(log, model, space, tmp_path, trials=1)
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / FILE}")
    study = optuna.load_study(study_name="sweep", storage=storage)
    for _ in range(4):
        better = optuna.create_trial(
            value=1.0,
            params={"learning_rate": 5e-3},
            distributions=dict(space.values),
            intermediate_values=dict.fromkeys(range(1, 7), 1.0),
        )
        study.add_trial(better)
    storage.engine.dispose()
    last = sweep(log, model, space, tmp_path, trials=6).trials[-1]
    assert last["state"] == "pruned"
    assert 0 < last["validation"] < 1
