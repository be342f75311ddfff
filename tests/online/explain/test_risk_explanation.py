"""Why an event is risky: signed shares that add up to the log-odds, faithful to what moves them."""

import numpy as np
import pytest
import torch

from tapgnn import Events, Vocabulary
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.model import FactClassifier
from tapgnn.online.explain.event_window import Window
from tapgnn.online.explain.known_facts import DESTINATION, PAIR, SOURCE, description_parts, known_facts
from tapgnn.online.explain.moment import Moment
from tapgnn.online.explain.risk_explanation import _all_subsets, _sampled_orders, explain_risk, share_out

from ...streams import tiny_model


def table(rng, size, columns):
    cells = {
        f"n{place}": np.where(rng.random(size) < 0.1, np.nan, rng.lognormal(size=size)) for place in range(columns)
    }
    cells["channel"] = rng.choice(np.array(["ecom", "pos", None], dtype=object), size)
    ends = rng.integers(0, 12, (2, size))
    return Events.from_arrays(*ends, np.arange(size) + 1e9, columns=cells)


@pytest.fixture(params=[1, 12])
def judged(request):
    """A model, a classifier with weights drawn at random, and an event after a log, with few or many columns."""
    rng = np.random.default_rng(0)
    log = table(rng, 300, request.param)
    fitted = FittedSchema.fit(log)
    numbers, categories = fitted.encoder.widths
    model = tiny_model(
        vocabulary=log.vocabulary, time_width=0, edge_features=numbers, edge_categories=categories, span=300.0
    )
    encoded = fitted.encode(log)
    trace, state = model.advance(encoded, model.empty_state())
    window = Window(model, 200)
    window.record(encoded, trace)
    described = model.describe_events(trace, encoded.src, encoded.dst, encoded.time, encoded.features)
    torch.manual_seed(1)
    classifier = FactClassifier(np.arange(described.shape[1]), members=2, hidden=6, second=4).double().eval()
    classifier.fit_pieces(described.detach().numpy().astype(np.float32))
    torch.nn.init.normal_(classifier.additive)
    torch.nn.init.normal_(classifier.first)
    names = log.vocabulary.ids
    moment = Moment.of(model, state, names[0], names[1], state.clock + 5.0, encoded.features[:1])
    return model, classifier, fitted, moment, moment.history(window), state


def test_the_shares_and_the_base_add_up_to_the_log_odds_that_are_served(judged):
    model, classifier, fitted, moment, history, state = judged
    found = explain_risk(model, classifier, fitted, moment, history, {"n0": 3.5})
    assert found.base + sum(part.share for part in found.parts) == pytest.approx(found.logit, abs=1e-9)
    rows = model.vocabulary.rows([found.src]), model.vocabulary.rows([found.dst])
    with torch.no_grad():
        served = model.classify(state, classifier, *rows, [found.time], moment.features)
    assert float(served) == pytest.approx(found.logit, abs=1e-6)
    assert found.risk == pytest.approx(1 / (1 + np.exp(-found.logit)))
    assert {part.name for part in found.parts} == {SOURCE, DESTINATION, PAIR, *fitted.schema.columns}
    assert {part.name: part.value for part in found.parts}["n0"] == 3.5
    assert abs(found.parts[0].share) == max(abs(part.share) for part in found.parts)


def test_making_what_is_named_first_typical_moves_the_log_odds_more_than_as_much_at_random(judged):
    model, classifier, fitted, *_ = judged
    rng = np.random.default_rng(3)
    parts = description_parts(model, list(fitted.encoder.numbers), list(fitted.encoder.categories))
    facts, size = known_facts(model), classifier.low.shape[1] + 1
    log = fitted.encode(table(rng, 60, len(fitted.encoder.numbers)))
    state = model.empty_state()
    log = Events(log.src, log.dst, log.time, log.features, vocabulary=model.vocabulary)
    trace, _ = model.advance(log, state)
    rows = model.describe_events(trace, log.src, log.dst, log.time, log.features).detach()[30:]
    named, random = [], []
    for row in rows.split(1):
        logit, _, found = share_out(classifier, row, parts, facts)
        for chosen, moved in ((found[0].name, named), (rng.choice(list(parts)), random)):
            encoded = classifier.encode(row)
            places = [place * size + offset for place in parts[chosen] for offset in range(size)]
            encoded[:, places] = classifier.typical[places]
            without = float((classifier.members(encoded).mean() + classifier.shift).detach())
            moved.append(abs(logit - without))
    assert np.mean(named) > 1.2 * np.mean(random)


def test_a_sample_of_orders_comes_close_to_all_subsets_and_adds_up_exactly():
    weight = torch.from_numpy(np.random.default_rng(2).normal(size=(8, 8)))

    def logits(known):
        rows = known.double()
        return ((rows @ weight) * rows).sum(dim=1) + torch.sin(rows.sum(dim=1))

    exact, sampled = _all_subsets(logits, 8), _sampled_orders(logits, 8)
    whole = float(logits(torch.ones(1, 8, dtype=torch.bool)) - logits(torch.zeros(1, 8, dtype=torch.bool)))
    assert exact.sum() == pytest.approx(whole)
    assert sampled.sum() == pytest.approx(whole)
    np.testing.assert_allclose(sampled, exact, atol=0.3)


@pytest.mark.parametrize("partners", [2, 16])
def test_leaving_an_event_out_says_what_a_log_with_an_event_of_strangers_in_its_place_would_have_said(partners):
    # One layer: what third nodes had learnt from the event stays. The strangers keep the clock of events.
    rng = np.random.default_rng(4)
    size = 40
    ends = rng.integers(0, 5, (2, size))
    time = np.cumsum(rng.choice([0.0, 1.0, 2.0], size)) + 1e9
    changes = {"layers": 1, "sketch_steps": 1, "sketch_half_lives": ()}
    vocabulary = Vocabulary(range(7))
    model = tiny_model(vocabulary=vocabulary, partners=partners, **changes)
    log = Events.from_arrays(*ends, time, vocabulary=vocabulary)

    def risk_after(events):
        _, state = model.advance(events, model.empty_state())
        return float(model.classify(state, classifier, [0], [1], [when], None).detach())

    trace, state = model.advance(log, model.empty_state())
    when = state.clock + 1.5
    window = Window(model, 100)
    window.record(log, trace)
    described = model.describe_events(trace, log.src, log.dst, log.time).detach()
    classifier = FactClassifier(np.arange(described.shape[1]), members=2, hidden=6, second=4).double().eval()
    classifier.fit_pieces(described.numpy().astype(np.float32))
    torch.nn.init.normal_(classifier.additive)
    moment = Moment.of(model, state, 0, 1, when)
    table = FittedSchema.fit(log)
    found = explain_risk(model, classifier, table, moment, moment.history(window), {}, limit=100)
    expected = []
    for row in np.flatnonzero((ends < 2).any(axis=0)):
        changed = ends.copy()
        changed[:, row] = 5, 6
        other = Events.from_arrays(*changed, time, vocabulary=vocabulary)
        expected.append(found.logit - risk_after(other))
    if partners == 16:
        assert all(cause.exact for cause in found.causes)
        np.testing.assert_allclose(sorted(cause.effect for cause in found.causes), sorted(expected), atol=1e-5)
    assert np.isfinite([cause.effect for cause in found.causes]).all()
    assert len(found.causes) == len(expected)
