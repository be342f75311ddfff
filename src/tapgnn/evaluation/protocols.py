"""Protocols: where a log is cut, which negatives an event is compared with, and where accuracy has its threshold.

paper    what was run for the paper: cut at 70 % and 85 % of the distinct times, events with unseen nodes dropped;
         one random negative per event
strict   cut by events, nothing dropped; random, historical and inductive negatives, events with and without
         unseen nodes apart (inductive, transductive), and MRR and hits@10 over 20 random negatives
tgb      the Temporal Graph Benchmark: cut at quantiles of time, every event ranked among all possible destinations
dyglib   the library DyGLib: the same cuts, a tenth of the nodes hidden from training, negatives that replace both
         ends, AUC and AP by batches of 200
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from tapgnn.data.negatives import NEGATIVE_TYPES, NegativeType
from tapgnn.data.splits import Split, split_hiding_nodes, split_paper, split_quantiles, split_strict
from tapgnn.errors import ConfigError
from tapgnn.events import Events

ProtocolName = Literal["paper", "strict", "tgb", "dyglib"]
RANKED = 20


@dataclass(frozen=True)
class Protocol:
    """The rules of a test.

    form        'pairs': test events and single negatives, in one list; 'ranking': every event among all candidates;
                'batches': averages over batches; the last two have results on the validation events as well
    main        the metric that methods are compared by
    negatives   the types of negatives, one negative of each per event
    ranked      random negatives per event for MRR and hits@10; 0 for none
    unseen      whether events with unseen nodes have an AUC of their own
    threshold   'validation': accuracy of every method is that at the threshold which is best on the validation events;
                'probability': of methods that give a probability it is that at 0.5
    labels_from what a classifier of event labels is given: facts of the events, or representations ('paper')
    """

    split: Callable[[Events], Split]
    negatives: tuple[NegativeType, ...] = ("random",)
    ranked: int = 0
    unseen: bool = False
    threshold: Literal["probability", "validation"] = "probability"
    labels_from: Literal["facts", "paper"] = "facts"
    form: Literal["pairs", "ranking", "batches"] = "pairs"
    main: str = "auc"

    def for_any_method(self) -> Protocol:
        """The same questions; for pairs with MRR in any case, and an accuracy that does not need probabilities."""
        return replace(self, ranked=RANKED, threshold="validation") if self.form == "pairs" else self


PROTOCOLS: dict[str, Protocol] = {
    "paper": Protocol(split_paper, labels_from="paper"),
    "strict": Protocol(split_strict, NEGATIVE_TYPES, RANKED, unseen=True),
    "tgb": Protocol(split_quantiles, form="ranking", main="mrr"),
    "dyglib": Protocol(split_hiding_nodes, NEGATIVE_TYPES, form="batches", main="transductive_random_ap"),
}


def find_protocol(name: str) -> Protocol:
    """The protocol of this name; an unknown one is an error that lists them."""
    if name not in PROTOCOLS:
        raise ConfigError(f"protocol {name!r} is not one of {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]
