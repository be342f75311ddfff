"""Training: it learns, repeats itself bit for bit, resumes to the same bits, and keeps the best when interrupted."""

import itertools
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Config, Events, Model
from tapgnn.baselines.lag import visible
from tapgnn.compiled import parallel
from tapgnn.data.negatives import NegativeSampler, rng_for
from tapgnn.errors import ConfigError, ModelFileError
from tapgnn.evaluation.metrics import auc
from tapgnn.threads import set_threads
from tapgnn.training import link_prediction
from tapgnn.training.checkpoint import load_checkpoint, save_checkpoint
from tapgnn.training.link_loss import ask_links, link_loss
from tapgnn.training.link_prediction import LinkTraining, Settings
from tapgnn.training.negative_mixture import DrawnNegatives
from tapgnn.training.stream_scoring import ask_along, represent_along, score_along
from tapgnn.training.validation import Validation

from ..streams import streams, tiny_model

ROOT = Path(__file__).parents[2]
# A learning rate below the digits of a weight: no epoch is better than the first, on any machine.
UNMOVED = 1e-12


def habits(size=1_500, seed=0):
    """A log in which everyone keeps returning to two of thirty places."""
    rng = np.random.default_rng(seed)
    favourites = rng.integers(20, 50, (20, 2))
    src = rng.integers(0, 20, size)
    dst = favourites[src, rng.integers(0, 2, size)]
    return Events.from_arrays(src, dst, np.arange(size, dtype=float))


def training(epochs=2, log=None, **changes):
    log = habits() if log is None else log
    train, valid = log.slice(0, 1_200), log.slice(1_200, 1_500)
    settings = Settings(**{"epochs": epochs, "chunk": 200, "validations": 2, **changes})
    torch.manual_seed(settings.seed)
    model = Model(Config.preset("adaptive", width=16).fitted_to(train), log.vocabulary)
    return LinkTraining(model, train, valid, settings)


def weights(run):
    return {name: tensor.clone() for name, tensor in run.model.state_dict().items()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_training_learns_what_repeats():
    run = training(epochs=3)
    history = run.run()
    assert history.best > 0.95
    assert [point["epoch"] for point in history.points] == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert history.points[-1]["loss"] < history.points[0]["loss"]


def test_the_best_weights_are_restored():
    run = training(epochs=3, learning_rate=0.05)
    history = run.run()
    again = run.validation.measure(run.model)
    assert again == max(point["validation"] for point in history.points) == history.best


def test_a_seed_repeats_a_run_whether_its_loops_are_compiled_anew_or_loaded(tmp_path):
    """Two copies of one loop may add up in another order; which one a process takes must not depend on its past."""
    code = (
        "from tests.training.test_link_prediction import training, weights\n"
        "run = training(); run.run()\n"
        "print(*(tensor.double().sum().item().hex() for tensor in weights(run).values()))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    compiled, loaded = (
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, capture_output=True).stdout
        for _ in range(2)
    )
    assert compiled == loaded


def test_a_seed_repeats_a_run_bit_for_bit_and_another_does_not():
    runs = [training(seed=seed) for seed in (7, 7, 8)]
    points = [[point["validation"] for point in run.run().points] for run in runs]
    assert points[0] == points[1]
    assert same(weights(runs[0]), weights(runs[1]))
    assert not same(weights(runs[0]), weights(runs[2]))


def test_a_resumed_training_ends_in_the_bits_of_an_uninterrupted_one(tmp_path):
    whole = training(epochs=3)
    whole.run()
    first = training(epochs=1)
    first.run(after_epoch=lambda run: save_checkpoint(run, tmp_path))
    second = training(epochs=3)
    load_checkpoint(second, tmp_path)
    second.run()
    assert same(weights(whole), weights(second))
    aucs = [[point["validation"] for point in run.history.points] for run in (whole, second)]
    assert aucs[0] == aucs[1]


def test_throughput_leaves_out_the_step_that_compiles(monkeypatch):
    """The clock strikes before and after a step: the first takes 1,000 seconds, all others take one."""
    strikes = itertools.chain([0.0, 1_000.0], itertools.count(1_001.0))
    monkeypatch.setattr(link_prediction, "time", SimpleNamespace(perf_counter=lambda: next(strikes)))
    run, seen = training(), []
    history = run.run(lambda progress: seen.append(progress.events_per_s))
    assert seen == [None] + [200.0] * 11
    assert history.events_per_s == 200.0
    assert [point["events_per_s"] for point in history.points] == [200.0] * 4


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="no checkpoint"):
        load_checkpoint(training(), tmp_path)
    save_checkpoint(training(), tmp_path)
    with pytest.raises(ModelFileError, match="other data or settings"):
        load_checkpoint(training(chunk=100), tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"broken")
    with pytest.raises(ModelFileError, match="has invalid content"):
        load_checkpoint(training(), tmp_path)


def test_an_interrupted_training_keeps_the_best_so_far():
    run = training(epochs=5)

    def interrupt(progress):
        if progress.epoch == 1 and progress.validation is not None:
            raise KeyboardInterrupt

    history = run.run(listener=interrupt)
    assert history.interrupted
    assert len(history.points) == 3
    assert run.validation.measure(run.model) == history.best


def test_training_stops_when_patience_is_over():
    run = training(epochs=50, patience=1, learning_rate=UNMOVED)
    history = run.run()
    assert len(history.points) < 100
    stale = len(history.points) - 1 - int(np.argmax([point["validation"] for point in history.points]))
    assert stale >= 2


def test_patience_is_counted_in_epochs_however_few_validations_an_epoch_has_room_for():
    history = training(epochs=50, patience=2, validations=10, chunk=10_000, learning_rate=UNMOVED).run()
    assert [point["epoch"] for point in history.points] == [1.0, 2.0, 3.0, 4.0]


def test_a_bad_start_does_not_end_a_training():
    """The second and third epochs are worse than the first, and the fourth is the best."""
    run, found = training(epochs=9, patience=2, validations=1), iter([0.8, 0.5, 0.6, 0.9, 0.7, 0.7])
    run.validation = SimpleNamespace(measure=lambda model: next(found))
    history = run.run()
    assert (history.best, history.best_epoch, history.points[-1]["epoch"]) == (0.9, 4.0, 6.0)


def test_a_training_that_diverges_says_so():
    with pytest.raises(ConfigError, match="lower the learning rate, which is inf"):
        training(learning_rate=np.inf).run()


def test_without_validation_events_the_last_weights_are_kept():
    log = habits()
    runs = [training(epochs=3, log=log, patience=1) for _ in range(2)]
    runs[0].validation = Validation(runs[0].train, log.slice(0, 0), runs[0].sampler, "auc", seed=0)
    last = []
    runs[1].run(after_epoch=lambda run: last.append(weights(run)))
    history = runs[0].run()
    assert history.best_epoch == 3
    assert np.isnan(history.best)
    assert same(weights(runs[0]), last[-1])


def test_a_node_that_training_never_met_has_the_unknown_vector():
    log = Events.from_arrays([*np.arange(1_499) % 20, 77], [*(20 + np.arange(1_499) % 3), 20], np.arange(1_500.0))
    run = training(log=log)
    run.run()
    table = run.model.inputs.vectors.weight
    unseen = log.vocabulary.rows([77])[0] + 1
    assert bool(table[0].any())
    assert torch.equal(table[unseen], table[0])
    assert not torch.equal(table[1], table[0])


def test_a_step_touches_only_the_vectors_of_its_chunk():
    run = training(chunk=1)
    before = run.model.inputs.vectors.weight.detach().clone()
    chunk = run.train.slice(0, 1)
    run.model.train()
    assert next(run.steps())[0] == len(chunk)
    moved = (run.model.inputs.vectors.weight.detach() != before).any(dim=1).nonzero().flatten().tolist()
    assert set(moved) <= {0, int(chunk.src[0]) + 1, int(chunk.dst[0]) + 1} | {
        row + 1 for row in run.negatives.draw(0, chunk, rng_for(0, "training")).dst.ravel()
    }


def plain_negatives(dst):
    """Drawn from all candidates, without events of the past."""
    nothing = np.empty(0, dtype=np.int64)
    return DrawnNegatives(
        dst, np.zeros((1 + dst.shape[1], len(dst))), np.ones(dst.shape, dtype=bool), *[nothing] * 3, 0.0
    )


def loss_of(model, trace, events, drawn, cold_weight):
    return float(link_loss(model, trace, ask_links(model, trace, events, drawn), cold_weight).detach())


def test_a_destination_without_history_counts_only_by_its_weight_and_a_source_without_one_does():
    log = Events.from_arrays([0, 0, 5], [1, 2, 1], [1.0, 2.0, 3.0])
    model = tiny_model(vocabulary=log.vocabulary, head="dot")
    trace, _ = model.advance(log, model.empty_state())

    def loss(row, negative, cold):
        drawn = plain_negatives(log.vocabulary.known_rows(np.array([negative]))[:, None])
        return loss_of(model, trace, log.slice(row, row + 1), drawn, cold)

    assert loss(0, 2, 0.0) == loss(1, 5, 0.0) == 0.0
    assert loss(0, 2, 1.0) > 0.0
    # The new source, of which both destinations are known.
    assert loss(2, 2, 0.0) > 0.0


def test_the_loss_of_several_negatives_is_the_mean_of_their_losses():
    log = habits(400)
    model = tiny_model(vocabulary=log.vocabulary, span=400.0, origin=0.0)
    state = model.advance(log.slice(0, 300), model.empty_state())[1]
    chunk = log.slice(300, 350)
    trace, _ = model.advance(chunk, state)
    drawn = NegativeSampler(log).draw(chunk.src, chunk.dst, np.random.default_rng(0), 3)
    together, *apart = (
        loss_of(model, trace, chunk, plain_negatives(rows), 1.0) for rows in (drawn, *drawn.T[:, :, None])
    )
    assert together == pytest.approx(np.mean(apart), rel=1e-6)


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_scores_along_a_stream_do_not_depend_on_the_chunks(chunk):
    log = habits(60)
    model = tiny_model(vocabulary=log.vocabulary, span=60.0, origin=0.0)
    rng = np.random.default_rng(0)
    time = rng.choice(np.append(log.time, 100.0), 40)
    src, dst = rng.integers(0, len(log.vocabulary), (2, 40))
    scores, state = score_along(model, model.empty_state(), log, src, dst, time, chunk)
    for row in range(40):
        before = log.between(-np.inf, time[row])
        _, live = model.advance(before, model.empty_state())
        one = model.score(live, src[[row]], dst[[row]], time[[row]])
        assert scores[row] == pytest.approx(float(one.detach()), abs=1e-9)
    z, _ = represent_along(model, model.empty_state(), log, src, time, chunk)
    assert z.shape == (40, 8)
    assert state.clock == 59.0


@given(streams(), st.sampled_from([0, 1, 2, 3, 7]))
def test_with_a_lag_a_query_sees_what_the_test_will_show_it(log, lag):
    model = tiny_model(vocabulary=log.vocabulary)
    trace, _ = model.advance(log, model.empty_state())
    trace.lag = lag
    with torch.no_grad():
        found = model.score(trace, log.src, log.dst, log.time)
        for row, seen in enumerate(visible(log.time, log.time, lag)):
            state = model.empty_state()
            state.admit(model.vocabulary)
            if seen:
                _, state = model.advance(log.slice(0, int(seen)), state)
            one = model.score(state, log.src[[row]], log.dst[[row]], log.time[[row]])
            torch.testing.assert_close(one, found[[row]], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("lag", "chunk", "gradient"), [(0, 16, "chunk"), (7, 16, "chunk"), (7, 16, "2"), (60, 16, "full")]
)
def test_every_chunk_of_a_training_counts_its_batches_as_the_test_does(lag, chunk, gradient, monkeypatch):
    seen = []

    def watched(model, trace, piece, drawn):
        seen.append(trace.past(piece.src, piece.time).seen)
        return ask_links(model, trace, piece, drawn)

    monkeypatch.setattr(link_prediction, "ask_links", watched)
    run = training(epochs=1, lag=lag, chunk=100, gradient=gradient)
    run.run()
    time = run.train.time
    assert np.array_equal(np.concatenate(seen), visible(time, time, lag))


@pytest.mark.parametrize("lag", [0, 7, 60])
def test_a_stream_with_a_lag_counts_its_batches_from_its_start_whatever_the_chunk(lag):
    log = habits(150)
    model, seen = tiny_model(vocabulary=log.vocabulary), np.empty(150)

    def answer(where, rows):
        return torch.from_numpy(model.past(where, log.src[rows], log.time[rows]).seen)

    ask_along(model, model.empty_state(), log, log.time, answer, seen, chunk=20, lag=lag)
    assert np.array_equal(seen, visible(log.time, log.time, lag))


def test_the_question_for_the_event_doubts_pairs_whose_source_is_silent():
    rng = np.random.default_rng(0)
    size = 1_500
    # Four of twenty sources are active at a time, and take turns; their destinations are always busy.
    src = (4 * (np.arange(size) // 100) + rng.integers(0, 4, size)) % 20
    log = Events.from_arrays(src, 20 + src % 4, np.arange(size, dtype=float))
    run = training(epochs=4, log=log)
    run.run()
    old = rng.integers(1_200, size=300)
    ends = np.concatenate([run.valid.src, log.src[old]]), np.concatenate([run.valid.dst, log.dst[old]])
    areas = {}
    for question in ("destination", "event"):
        state = run.model.empty_state()
        _, state = run.model.advance(run.train, state)
        times = np.tile(run.valid.time, 2)
        scores, _ = score_along(run.model, state, run.valid, *ends, times, question=question)
        areas[question] = auc(np.repeat([1, 0], 300), scores)
    assert areas["event"] > max(0.8, areas["destination"] + 0.01)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"cold_weight": 2.0}, "cold_weight must lie"),
        ({"met_share": 1.0}, "met_share must lie"),
        ({"select": "loss"}, "select must be one of auc, ap, mrr, not 'loss'"),
    ],
)
def test_wrong_settings_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        Settings(**changes)


@pytest.mark.parametrize("changes", [{}, {"kernel": "attention", "partners": 0}], ids=["adaptive", "attention"])
def test_the_number_of_threads_changes_no_bit(changes, monkeypatch):
    """Embeddings and state after `advance` in chunks, gradients, and what is learned."""
    monkeypatch.setattr(parallel, "PARALLEL_FROM", 0)
    rng = np.random.default_rng(0)
    log = Events.from_arrays(rng.zipf(1.6, 4_000) % 300, 300 + rng.zipf(1.6, 4_000) % 200, np.arange(4_000) // 3)
    found = []
    try:
        for count in (1, 2, 3, 6):
            set_threads(count)
            torch.manual_seed(0)
            model = Model(Config.preset("adaptive", width=16, **changes).fitted_to(log), log.vocabulary)
            state = model.empty_state()
            with torch.no_grad():
                for piece in log.chunks(1_500):
                    trace, state = model.advance(piece, state)
            trace, _ = model.advance(log, model.empty_state())
            trace.embedding.square().sum().backward()
            grads = [tensor.grad.to_dense() for tensor in model.parameters() if tensor.grad is not None]
            LinkTraining(model, log.slice(0, 3_000), log.slice(3_000, 4_000), Settings(epochs=1, chunk=700)).run()
            found.append([trace.embedding.detach(), *state.arenas(), state.sums, *grads, *model.state_dict().values()])
    finally:
        set_threads(1)
    for others in found[1:]:
        assert all(map(torch.equal, found[0], others))
