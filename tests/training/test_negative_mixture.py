"""The mixture of negatives: what is drawn is what its odds are corrected for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.data.negatives import training_sampler
from tapgnn.training.negative_mixture import NegativeMixture

from ..streams import streams


def mixture(log, **shares):
    return NegativeMixture(log, training_sampler(log), 1, **{"met_share": 0.5, "historical_share": 0.5, **shares})


def partners_before(log, event):
    """Whom the source of an event had met in earlier rows of the log, either way."""
    source, earlier = log.src[event], slice(0, event)
    return set(log.dst[earlier][log.src[earlier] == source]) | set(log.src[earlier][log.dst[earlier] == source])


@given(streams(), st.integers(0, 5))
def test_known_destinations_and_events_of_the_past_are_of_the_past(log, seed):
    if len(np.unique(np.concatenate([log.src, log.dst]))) < 2:
        return
    # Between two instants.
    negatives, half = mixture(log), int(np.searchsorted(log.time, log.time[len(log) // 2]))
    piece = log.slice(half, len(log))
    drawn = negatives.draw(half, piece, np.random.default_rng(seed))
    assert (drawn.dst[:, 0] != piece.dst).all()
    for row in range(len(piece)):
        met = partners_before(log, half + row)
        if not drawn.uniform[row, 0]:
            assert drawn.dst[row, 0] in met
    past = set(zip(log.src[:half].tolist(), log.dst[:half].tolist(), strict=True))
    assert set(zip(drawn.old_src.tolist(), drawn.old_dst.tolist(), strict=True)) <= past
    assert len(np.unique(drawn.old_row)) == len(drawn.old_row) == (round(0.25 * len(piece)) if half else 0)


@given(streams())
def test_the_odds_are_corrected_by_the_density_of_what_is_drawn(log):
    if len(np.unique(np.concatenate([log.src, log.dst]))) < 2:
        return
    negatives = mixture(log)
    drawn = negatives.draw(0, log, np.random.default_rng(0))
    pool = len(negatives.sampler.pool)
    for row in range(len(log)):
        met = partners_before(log, row)
        share = 0.5 if met else 0.0
        for place, dst in enumerate((log.dst[row], drawn.dst[row, 0])):
            # A random destination that happens to be known counts as random.
            known = dst in met if place == 0 else not drawn.uniform[row, 0]
            density = (1 - share) / pool + (share / len(met) if known else 0.0)
            assert drawn.shift[place, row] == pytest.approx(np.log(pool * density), abs=1e-12)


@given(streams())
def test_without_shares_all_negatives_are_random_and_nothing_is_corrected(log):
    if len(np.unique(np.concatenate([log.src, log.dst]))) < 2:
        return
    drawn = mixture(log, met_share=0.0, historical_share=0.0).draw(0, log, np.random.default_rng(0))
    assert drawn.uniform.all()
    assert not drawn.shift.any()
    assert not len(drawn.old_src)
