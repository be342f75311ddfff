"""Facts of events: what they say is what a look at the whole log says."""

import numpy as np
import pytest
import torch
from hypothesis import given

from tapgnn import Events, Vocabulary
from tapgnn.model.features.event_facts import fact_names
from tapgnn.model.features.statistics_encoder import COUNT_FLOOR

from ...streams import streams, tiny_model

NAN = np.nan


def facts_of_end(log, node, time, model):
    """The columns of one end by their definitions, from events strictly before a time."""
    config, rate = model.config, model.count_rate
    log = log.between(-np.inf, time)
    seen = np.searchsorted(log.time, log.time, side="right")
    own = [np.flatnonzero(ends == node) for ends in (log.src, log.dst)]
    both = np.sort(np.concatenate(own))
    groups = [*own, both]
    columns = [np.log1p((time - log.time[rows[-1]]) / config.unit) if len(rows) else NAN for rows in groups]
    columns += [np.log1p(len(log) - seen[rows[-1]]) if len(rows) else NAN for rows in groups]
    columns += [np.log1p(len(rows)) for rows in own]
    for half in range(len(rate)):
        kept = np.exp(-rate[half] * (len(log) - seen))
        columns += [np.log(kept[rows].sum() + COUNT_FLOOR) for rows in own]
    met, new, recent = set(), np.zeros(2), np.zeros(len(rate))
    for instant in np.unique(log.time[both]):
        # An instant has no order within: who was met in both roles was met as source.
        for role, event in [(side, row) for side in (0, 1) for row in own[side] if log.time[row] == instant]:
            theirs = (log.dst, log.src)[role]
            if theirs[event] not in met:
                met.add(theirs[event])
                new[role] += 1
                recent += np.exp(-rate * (len(log) - seen[event]))
    columns += [*np.log1p(new), *np.log(recent + COUNT_FLOOR)]
    if not len(both):
        return [*columns, NAN, NAN]
    age, began = (time - log.time[both[0]]) / config.unit, seen[both[0]]
    return [*columns, np.log1p(age), np.log1p(len(log) - began)]


@given(streams())
def test_the_facts_of_both_ends_follow_their_definitions(log):
    model = tiny_model(vocabulary=log.vocabulary)
    names = model.description["facts"]
    with torch.no_grad():
        trace, _ = model.advance(log, model.empty_state())
        rows = model.describe_events(trace, log.src, log.dst, log.time).numpy()[:, : len(names)]
    width = sum(name.startswith("source_") for name in names)
    for row, event in zip(rows, log_rows(log), strict=True):
        for end, node in enumerate(event[:2]):
            wanted = facts_of_end(log, node, event[2], model)
            np.testing.assert_allclose(row[end * width : (end + 1) * width], wanted, atol=1e-9)
        met = bool((((log.src == event[0]) & (log.dst == event[1])) & (log.time < event[2])).any())
        met |= bool((((log.src == event[1]) & (log.dst == event[0])) & (log.time < event[2])).any())
        assert row[names.index("pair_met")] == met


def log_rows(log):
    return zip(log.src.tolist(), log.dst.tolist(), log.time.tolist(), strict=True)


@pytest.mark.parametrize(("rates", "slots"), [(0, 0), (2, 0), (0, 3), (5, 16)])
def test_every_column_has_a_name_of_its_own(rates, slots):
    names = fact_names(rates, slots)
    assert len(set(names)) == len(names)
    options = {"half_lives": (0.5,) * rates, "partners": slots}
    model = tiny_model(vocabulary=Vocabulary(["a", "b"]), **options)
    log = Events.from_arrays(["a"], ["b"], [1.0], vocabulary=model.vocabulary)
    with torch.no_grad():
        rows = model.describe_events(model.empty_state(), log.src, log.dst, log.time)
    assert rows.shape == (1, sum(map(len, model.description.values())))
    assert len(names) == len(model.description["facts"])


@torch.no_grad()
def test_two_nodes_that_nobody_knows_have_counts_of_zero_and_everything_else_missing():
    model = tiny_model()
    row = model.describe_events(model.empty_state(), [-1], [-1], [1.0])[0].numpy()
    for name, value in zip(model.description["facts"], row, strict=False):
        if "recent" in name or "new_partners" in name:
            assert value == pytest.approx(np.log(COUNT_FLOOR))
        elif "count" in name or "partners" in name or name == "pair_met":
            assert value == 0
        else:
            assert np.isnan(value), name
