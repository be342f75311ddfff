"""Protocols: found by name, and what each asks."""

import numpy as np
import pytest

from tapgnn.data.negatives import NEGATIVE_TYPES
from tapgnn.errors import ConfigError
from tapgnn.evaluation.batches import TESTS
from tapgnn.evaluation.harness import FORMS, measured
from tapgnn.evaluation.protocols import PROTOCOLS, RANKED, find_protocol
from tests.baselines.samples import EVERY, make

from .boards import integer_log


def test_a_protocol_is_found_by_its_name_and_an_unknown_one_is_refused():
    for name, protocol in PROTOCOLS.items():
        assert find_protocol(name) is protocol
    with pytest.raises(ConfigError, match="protocol 'fair' is not one of paper, strict, tgb, dyglib"):
        find_protocol("fair")


def test_the_paper_has_one_random_negative_and_the_strict_protocol_every_type():
    paper, strict = PROTOCOLS["paper"], PROTOCOLS["strict"]
    assert (paper.negatives, paper.ranked, paper.unseen) == (("random",), 0, False)
    assert (strict.negatives, strict.ranked, strict.unseen) == (NEGATIVE_TYPES, RANKED, True)


@pytest.mark.parametrize("name", ["paper", "strict"])
def test_a_comparison_keeps_the_negatives_and_needs_no_probabilities(name):
    protocol = PROTOCOLS[name]
    wider = protocol.for_any_method()
    assert (wider.split, wider.negatives, wider.unseen) == (protocol.split, protocol.negatives, protocol.unseen)
    assert (wider.ranked, wider.threshold) == (RANKED, "validation")


@pytest.mark.parametrize("name", ["tgb", "dyglib"])
def test_a_comparison_by_the_rules_of_a_board_changes_nothing(name):
    assert PROTOCOLS[name].for_any_method() is PROTOCOLS[name]


@pytest.mark.parametrize("lag", [0, 20])
@pytest.mark.parametrize("protocol", ["tgb", "dyglib"])
@pytest.mark.parametrize("method", EVERY)
def test_every_method_gives_every_figure_of_a_board(method, protocol, lag):
    rules = PROTOCOLS[protocol]
    questions = FORMS[rules.form](rules.split(integer_log(0, 240)), rules, seed=0, lag=lag)
    found = measured(make, method, questions)
    figures = ("mrr", "hits10") if protocol == "tgb" else [f"{part}_{kind}_ap" for part, kind in TESTS]
    for figure in figures:
        assert np.isfinite([found[figure], found[f"valid_{figure}"]]).all()
        assert 0.0 < found[figure] <= 1.0
