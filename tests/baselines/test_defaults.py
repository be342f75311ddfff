"""Defaults: a method of the table has the settings that it was published with."""

from __future__ import annotations

from typing import Any

import pytest

from tapgnn.baselines import METHODS
from tapgnn.baselines.memory.dyrep import DyRepNetwork
from tapgnn.baselines.memory.tgn import TGNNetwork
from tapgnn.training.link_prediction import Settings

SKIP_GRAM = {"walks": 10, "length": 80, "window": 10, "negatives": 5, "epochs": 1, "width": 128}
NAMED: dict[str, dict[str, Any]] = {
    "recency": {"role": "any"},
    "recency-destination": {"role": "destination"},
    "popularity": {},
    "edgebank": {"window": None},
    "pair-recency": {"both_ways": False},
    "pair-recency-both": {"both_ways": True},
    "pair-count": {},
    "pair-then-node": {},
    "local-global": {},
    "node2vec": SKIP_GRAM,
    "graphsage": {"samples": (25, 10), "walks": 50, "length": 5, "negatives": 20, "head": "best"},
    "graphsage-star": {"layers": 2, "neighbours": 20},
    "ctdne": {**SKIP_GRAM, "shortest": 10},
    "htne": {"histories": (10, 20, 30), "negatives": 5},
    "tnode": {"divisions": (8, 32, 128), "length": 80, "window": 10, "negatives": 5},
    "tgat": {"layers": 2, "heads": 2, "neighbours": 20},
    "tdgnn": {"layers": 2, "neighbours": 20},
    "graphmixer": {"layers": 2, "neighbours": 20},
    "dygformer": {"layers": 2, "heads": 2, "neighbours": 31},
    "tpnet": {"layers": 1, "neighbours": 20, "steps": 2, "dimensions": 10.0},
    "jodie": {},
    "tgn": {"heads": 2},
    "dyrep": {},
}
LEARNERS = ("graphsage-star", "tgat", "tdgnn", "graphmixer", "dygformer", "tpnet", "jodie", "tgn", "dyrep")


@pytest.mark.parametrize("name", list(METHODS))
def test_a_method_has_the_settings_that_it_is_known_by(name: str) -> None:
    method = METHODS[name](seed=0)
    assert {key: getattr(method, key) for key in NAMED[name]} == NAMED[name]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_validates_as_often_and_has_the_patience_of_tapgnn(name: str) -> None:
    method: Any = METHODS[name](seed=0)
    assert (method.validations, method.patience) == (Settings().validations, Settings().patience)


def test_node2vec_tries_the_values_of_the_reference_for_p_and_q() -> None:
    method: Any = METHODS["node2vec"](seed=0)
    assert set(method.grid) <= {0.25, 0.5, 1.0, 2.0, 4.0}
    assert 1.0 in method.grid


def test_tgn_and_dyrep_read_ten_neighbours() -> None:
    assert (TGNNetwork.query_neighbours, DyRepNetwork.message_neighbours) == (10, 10)
