"""Options of the training do what their names say."""

import numpy as np
import pytest
import torch

from tapgnn import Config, Events, Model
from tapgnn.errors import ConfigError
from tapgnn.model import PRESETS
from tapgnn.training.link_loss import ask_links, link_loss
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
    return LinkTraining(
        Model(config, log.vocabulary), train, valid, Settings(**{"epochs": 3, "chunk": 100, **settings})
    )


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
    run = training(chunk=400, **settings)
    run.model.train()
    next(run.steps())
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


def steps(gradient):
    """The losses of the chunks of an epoch that leaves the weights as they are, and the gradients of the last."""
    run = training({"head": "role-dot"}, gradient=gradient, learning_rate=1e-12)
    run.model.train()
    losses = [loss for _, loss in run.steps()]
    found = {name: tensor.grad.to_dense() for name, tensor in run.model.named_parameters() if tensor.grad is not None}
    return losses, found


def test_how_far_gradients_flow_changes_no_loss_and_all_chunks_are_the_whole_history():
    losses, found = zip(*map(steps, ("chunk", "2", "5", "full")), strict=True)
    for others in losses[1:]:
        np.testing.assert_allclose(others, losses[0], rtol=1e-4)
    reached = [int((grads["inputs.vectors.weight"] != 0).any(dim=1).sum()) for grads in found]
    assert reached[0] <= reached[1] <= reached[2] == reached[3]
    for name, grad in found[3].items():
        torch.testing.assert_close(found[2][name], grad, rtol=1e-4, atol=1e-6, msg=name)
    assert any(not torch.allclose(found[0][name], grad, rtol=1e-2, atol=1e-6) for name, grad in found[3].items())


@pytest.mark.parametrize("preset", ["adaptive", "paper"])
def test_full_gradients_of_the_chunks_add_up_to_those_of_one_pass_over_the_log(preset):
    """In float64, with the weights left as they are."""

    def run():
        model = {**PRESETS[preset], "width": 8, "dropout": 0.0, "head": "role-dot"}
        made = training(model, gradient="full", clip=1e9, negatives=2, chunk=100)
        made.model.double().train()
        return made

    def gradients(model):
        return {name: each.grad.to_dense() for name, each in model.named_parameters() if each.grad is not None}

    chunked, whole = run(), run()
    chunked.optimizers = []
    total = {}
    for _ in chunked.steps():
        for name, grad in gradients(chunked.model).items():
            total[name] = total.get(name, 0.0) + grad
    trace, _ = whole.model.advance(whole.train, whole.model.empty_state())
    done = 0
    for piece in whole.train.chunks(100):
        drawn = whole.negatives.draw(done, piece, whole.rng)
        queries = ask_links(whole.model, trace, piece, drawn)
        link_loss(whole.model, trace, queries, whole.settings.cold_weight).backward(retain_graph=True)
        done += len(piece)
    expected = gradients(whole.model)
    assert total.keys() == expected.keys()
    for name, grad in expected.items():
        torch.testing.assert_close(total[name], grad, rtol=1e-8, atol=1e-12, msg=name)
    assert float(expected["inputs.vectors.weight"].norm()) > 0


@pytest.mark.parametrize("gradient", ["all", "0", "-1", "", "2.5"])
def test_a_gradient_that_flows_nowhere_is_refused(gradient):
    with pytest.raises(ConfigError, match="gradient is chunk, full, or a number of chunks"):
        Settings(gradient=gradient)
