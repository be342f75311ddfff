"""Why an event is risky: signed shares that add up to the log-odds, faithful to what moves them."""

import numpy as np
import pytest
import torch

from tapgnn import Events
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.model import FactClassifier
from tapgnn.online.explain.event_window import Window
from tapgnn.online.explain.link_explanation import find_sides
from tapgnn.online.explain.risk_explanation import (
    DESTINATION,
    PAIR,
    SOURCE,
    _all_subsets,
    _sampled_orders,
    description_parts,
    explain_risk,
    share_out,
)

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
    sides = find_sides(model, state, window, names[0], names[1], state.clock + 5.0, None)
    return model, classifier, fitted, sides, encoded.features[:1], state


def test_the_shares_and_the_base_add_up_to_the_log_odds_that_are_served(judged):
    model, classifier, fitted, sides, features, state = judged
    found = explain_risk(model, classifier, fitted, sides, features)
    assert found.base + sum(part.share for part in found.parts) == pytest.approx(found.logit, abs=1e-9)
    rows = model.vocabulary.rows([found.src]), model.vocabulary.rows([found.dst])
    with torch.no_grad():
        served = model.classify(state, classifier, *rows, [found.time], features)
    assert float(served) == pytest.approx(found.logit, abs=1e-6)
    assert found.risk == pytest.approx(1 / (1 + np.exp(-found.logit)))
    assert {part.name for part in found.parts} == {SOURCE, DESTINATION, PAIR, *fitted.schema.columns}
    assert abs(found.parts[0].share) == max(abs(part.share) for part in found.parts)


def test_making_what_is_named_first_typical_moves_the_log_odds_more_than_as_much_at_random(judged):
    model, classifier, fitted, *_ = judged
    rng = np.random.default_rng(3)
    parts = description_parts(model, list(fitted.encoder.numbers), list(fitted.encoder.categories))
    names = [name for group in model.description.values() for name in group]
    size = classifier.low.shape[1] + 1
    log = fitted.encode(table(rng, 60, len(fitted.encoder.numbers)))
    state = model.empty_state()
    log = Events(log.src, log.dst, log.time, log.features, vocabulary=model.vocabulary)
    trace, _ = model.advance(log, state)
    rows = model.describe_events(trace, log.src, log.dst, log.time, log.features).detach()[30:]
    named, random = [], []
    for row in rows.split(1):
        logit, _, found = share_out(classifier, row, parts, names)
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
