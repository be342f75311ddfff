"""Options of the training do what their names say."""

import numpy as np
import pytest
import torch

from tapgnn import Config, Events, Model
from tapgnn.training.link_prediction import LinkTraining, Settings
from tapgnn.training.stream_scoring import score_along


def random_log(size=600):
    rng = np.random.default_rng(0)
    return Events.from_arrays(rng.integers(0, 20, size), rng.integers(20, 40, size), np.arange(size, dtype=float))


def training(model=None, **settings):
    log = random_log()
    train, valid = log.slice(0, 500), log.slice(500, 600)
    torch.manual_seed(0)
    config = Config.preset("adaptive", **{"width": 8, "identity_dropout": 0.0, **(model or {})}).fitted_to(train)
    return LinkTraining(Model(config, log.vocabulary), train, valid, Settings(epochs=3, chunk=100, **settings))


def length(tensors):
    return float(torch.sqrt(sum((tensor.detach() ** 2).sum() for tensor in tensors)))


def matrices(run):
    """Weights that nothing but the loss keeps from shrinking; biases and gains start at 0 and 1."""
    return [tensor for tensor in run.dense if tensor.dim() > 1]


def last_weights(run):
    """The weights after the last epoch, which need not be the best."""
    kept = []
    run.run(after_epoch=lambda done: kept.append([tensor.detach().clone() for tensor in matrices(done)]))
    return kept[-1]


def test_weight_decay_shortens_the_weights():
    free, decayed = (length(last_weights(training(weight_decay=decay, learning_rate=0.03))) for decay in (0.0, 1.0))
    assert decayed < 0.8 * free


def first_gradient(**settings):
    run = training(**settings)
    run.model.train()
    piece = next(run.train.chunks(400))
    run._step(piece, run.model.empty_state())
    return length(tensor.grad for tensor in run.dense if tensor.grad is not None)


def test_no_gradient_is_longer_than_the_clip_and_a_short_one_is_left_alone():
    free = first_gradient(clip=1e9)
    assert free > 0
    assert first_gradient(clip=free / 10) == pytest.approx(free / 10, rel=1e-4)
    assert first_gradient(clip=free * 10) == pytest.approx(free, rel=1e-6)


def losses(**model):
    return [point["loss"] for point in training(model).run().points]


def test_dropout_changes_the_training_and_never_an_answer():
    assert losses(dropout=0.0) == losses(dropout=0.0) != losses(dropout=0.5)
    assert losses(identity_dropout=0.0) != losses(identity_dropout=0.5)
    run = training({"dropout": 0.5, "identity_dropout": 0.5})
    run.run()
    log = run.valid
    first, again = (
        score_along(run.model, run.model.empty_state(), log, log.src, log.dst, log.time)[0] for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)


def test_dropout_leaves_channels_out_while_training_alone():
    run = training({"dropout": 0.5})
    piece = next(run.train.chunks(200))

    def represented():
        with torch.no_grad():
            trace, _ = run.model.advance(piece, run.model.empty_state())
            return run.model.query(trace, piece.src, piece.time)

    run.model.train()
    assert not torch.equal(represented(), represented())
    run.model.eval()
    assert torch.equal(represented(), represented())
