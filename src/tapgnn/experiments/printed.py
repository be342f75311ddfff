"""What the paper prints: Zheng et al., IEEE TKDE 2023, means over its five runs.

In the rows of JODIE for soc-wiki-elec and ia-slashdot-reply-dir it repeats the four numbers of soc-sign-bitcoinotc and
ia-escorts-dynamic, digit by digit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LINK_DATASETS = (
    "fb-forum",
    "soc-sign-bitcoinotc",
    "ia-escorts-dynamic",
    "ia-movielens-user2tags-10m",
    "soc-wiki-elec",
    "ia-slashdot-reply-dir",
)
# Future link prediction: AUC and accuracy by data set, in the order above.
_LINKS = """
node2vec        .823 .744  .774 .708  .839 .769  .756 .696  .508 .512  .800 .723
graphsage       .724 .636  .734 .651  .847 .691  .800 .710  .577 .563  .782 .644
graphsage-star  .826 .750  .858 .803  .888 .824  .864 .793  .889 .831  .571 .497
ctdne           .817 .745  .836 .778  .898 .825  .796 .728  .606 .558  .851 .782
htne            .715 .668  .639 .611  .810 .749  .736 .694  .535 .536  .691 .660
tnode           .795 .716  .793 .724  .872 .801  .793 .713  .613 .566  .804 .731
tgat            .878 .794  .896 .823  .941 .874  .884 .820  .869 .820  .805 .676
tdgnn           .744 .689  .648 .314  .765 .746  .670 .648  .503 .370  .777 .664
jodie           .815 .767  .912 .848  .942 .855  .862 .775  .912 .848  .942 .855
tgn             .889 .783  .942 .863  .941 .870  .921 .841  .769 .705  .896 .807
tap-gnn         .909 .828  .960 .872  .964 .879  .913 .835  .989 .978  .980 .944
tap-gnn-direct  .889 .818  .965 .857  .966 .900  .923 .836  .989 .978  .982 .954
"""


def printed_links() -> dict[str, dict[str, dict[str, float]]]:
    """By method, data set and metric (auc, accuracy).

    >>> printed_links()["tap-gnn"]["fb-forum"]
    {'auc': 0.909, 'accuracy': 0.828}
    """
    return _by_method(_LINKS, LINK_DATASETS, ("auc", "accuracy"))


def _by_method(text: str, datasets: Sequence[str], metrics: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """A line for each method, whose numbers are the metrics of one data set after the other."""
    found = {}
    for method, *words in map(str.split, text.strip().splitlines()):
        numbers = np.array(words, dtype=float).reshape(-1, len(metrics)).tolist()
        found[method] = dict(zip(datasets, (dict(zip(metrics, cell, strict=True)) for cell in numbers), strict=True))
    return found


# Statistics of the data sets (K: thousands, M: millions, B: billions): nodes, events, repetition in %, density,
# greatest degree, mean degree, days; and |E^T| with its ratio to |E|.
_DATA = """
fb-forum                    899    33.7K   20.8  0.08    1.8K   37.51  164.49   9.9M  296
soc-sign-bitcoinotc         5.8K   35.5K   0.0   0.002   1.2K   6.05   1903.27  4.7M  134
ia-escorts-dynamic          10K    50.6K   10.9  0.009   616    5.01   2232.00  2.6M  51
ia-movielens-user2tags-10m  17K    95.5K   19.9  0.0007  6.0K   5.8    1108.97  64M   671
soc-wiki-elec               7.1K   107.0K  0.2   0.004   1.3K   15.04  1378.84  17M   164
ia-slashdot-reply-dir       51K    140.7K  4.2   0.0001  3.3K   2.76   977.36   13M   94
wikipedia                   9.2K   157.4K  79.1  0.0036  1.9K   57.64  29.77    39M   253
reddit                      10.9K  672.4K  61.4  0.011   58.7K  61.22  31.00    5.7B  8537
"""
_UNITS = {"K": 1e3, "M": 1e6, "B": 1e9}
DATA_COLUMNS = (
    "nodes",
    "events",
    "repetition",
    "density",
    "degree_max",
    "degree_mean",
    "timespan_days",
    "links",
    "ratio",
)


def printed_data() -> dict[str, dict[str, float]]:
    """By data set and statistic.

    >>> printed_data()["fb-forum"]["links"]
    9900000.0
    """
    found = {}
    for dataset, *words in map(str.split, _DATA.strip().splitlines()):
        numbers = [float(word.rstrip("KMB")) * _UNITS.get(word[-1], 1.0) for word in words]
        found[dataset] = dict(zip(DATA_COLUMNS, numbers, strict=True))
    return found


# Dynamic node classification: AUC on Wikipedia and Reddit.
_NODES = """
graphsage-star  .824 .612
ctdne           .759 .594
tgat            .837 .656
jodie           .832 .599
tgn             .878 .671
paper           .855 .663
"""


def printed_nodes() -> dict[str, dict[str, dict[str, float]]]:
    """By method, data set and metric.

    >>> printed_nodes()["paper"]["reddit"]
    {'auc': 0.663}
    """
    return _by_method(_NODES, ("wikipedia", "reddit"), ("auc",))


# Milliseconds a batch on Wikipedia, by what is varied, method and value.
PRINTED_LATENCY: dict[str, dict[str, dict[float, float]]] = {
    "batch": {
        "tgat": {100: 32.6, 200: 49.7, 300: 68.7, 400: 110.2, 500: 113.9},
        "paper": {100: 11.0, 200: 12.5, 300: 13.8, 400: 15.1, 500: 16.3},
    },
    "layers": {"tgat": {1: 5.6, 2: 49.7, 3: 934.7}, "paper": {1: 5.6, 2: 12.5, 3: 13.8}},
}
