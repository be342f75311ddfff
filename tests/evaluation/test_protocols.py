"""Protocols: found by name, and what each asks."""

import pytest

from tapgnn.data.negatives import KINDS
from tapgnn.errors import ConfigError
from tapgnn.evaluation.protocols import PROTOCOLS, RANKED, find_protocol


def test_a_protocol_is_found_by_its_name_and_an_unknown_one_is_refused():
    for name, protocol in PROTOCOLS.items():
        assert find_protocol(name) is protocol
    with pytest.raises(ConfigError, match="protocol 'fair' is not one of paper, strict, tgb, dyglib"):
        find_protocol("fair")


def test_the_paper_has_one_random_negative_and_the_strict_protocol_every_type():
    paper, strict = PROTOCOLS["paper"], PROTOCOLS["strict"]
    assert (paper.negatives, paper.ranked, paper.unseen) == (("random",), 0, False)
    assert (strict.negatives, strict.ranked, strict.unseen) == (KINDS, RANKED, True)


@pytest.mark.parametrize("name", ["paper", "strict"])
def test_a_comparison_keeps_the_negatives_and_needs_no_probabilities(name):
    protocol = PROTOCOLS[name]
    wider = protocol.for_any_method()
    assert (wider.split, wider.negatives, wider.unseen) == (protocol.split, protocol.negatives, protocol.unseen)
    assert (wider.ranked, wider.threshold) == (RANKED, "validation")


@pytest.mark.parametrize("name", ["tgb", "dyglib"])
def test_a_comparison_by_the_rules_of_a_board_changes_nothing(name):
    assert PROTOCOLS[name].for_any_method() is PROTOCOLS[name]
