"""Revisions: which numbers concern a run."""

import pytest

from tapgnn.baselines import TRIVIAL
from tapgnn.evaluation.harness import NAMES
from tapgnn.evaluation.questions import NAME
from tapgnn.evaluation.revisions import REVISIONS, revisions_of
from tapgnn.evaluation.runner import Run
from tapgnn.experiments.links import EXPERIMENT as LINKS


@pytest.mark.parametrize("method", LINKS.methods)
def test_every_run_has_the_numbers_of_the_evaluation_and_of_its_method(method):
    found = revisions_of(method, LINKS.settings(Run("fb-forum", method, 0)))
    assert found.items() <= REVISIONS.items()
    assert len(found) == 2
    assert ("tapgnn" in found) == (method == NAME or method not in NAMES)
    assert ("trivial" in found) == (method in TRIVIAL)


def test_a_method_of_the_caller_has_those_of_the_evaluation_alone():
    assert revisions_of("mine", {}) == {"evaluation": REVISIONS["evaluation"]}
