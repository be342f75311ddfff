"""map: t-SNE of a thousand destinations at five quantiles of the time span (Section 4.4, visualization).

From each quantile on, the destinations of the next 200 events are represented just after their event; the map is by
scikit-learn (perplexity 30, started from the principal components). Beside the picture, a number: of the ten nearest
representations of a point, the share that is of the same quantile; 0.2 says that time leaves no trace in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.evaluation.harness import TAPGNNMethod
from tapgnn.evaluation.runner import Run
from tapgnn.events import Events, Ints
from tapgnn.experiments.experiment import Experiment, FinishedRun
from tapgnn.experiments.figures import ResultFigure, Scatter
from tapgnn.experiments.link_training import RULES, LinkRuns, metric_table, read_log
from tapgnn.experiments.tables import ResultTable
from tapgnn.training.stream_scoring import represent_along

QUANTILES, EACH, NEIGHBOURS = (0.0, 0.2, 0.4, 0.6, 0.8), 200, 10
TRAINING = LinkRuns({"paper": {"preset": "paper"}})


def perform(run: Run) -> dict[str, Any]:
    """Train the preset, represent the destinations, and draw them on a plane."""
    from sklearn.manifold import TSNE

    events = read_log(run)
    split = RULES.split(events)
    method = TAPGNNMethod(run.seed, **TRAINING.variants[run.method])
    method.fit(split.train, split.valid)
    rows, quantile = choose(events)
    log, model = method.encoded(events), method.model
    after = np.nextafter(log.time[rows], np.inf)
    z, _ = represent_along(model, model.empty_state(), log, log.dst[rows], after)
    plane = TSNE(perplexity=min(30, len(rows) // 4), init="pca", random_state=run.seed).fit_transform(z)
    return {
        "same_quantile": neighbours_of_same_quantile(z, quantile),
        "points": np.round(plane.astype(float), 2).tolist(),
        "quantile": quantile.tolist(),
    }


def choose(events: Events, each: int = EACH) -> tuple[Ints, Ints]:
    """Rows [n] of the events from each quantile of the time span on, and which of the quantiles it is [n].

    >>> choose(Events.from_arrays([0] * 10, [1] * 10, range(10)), 2)[0]
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    start, end = events.time[0], events.time[-1]
    first = np.searchsorted(events.time, start + (end - start) * np.array(QUANTILES))
    places = np.minimum(first, len(events) - each)[:, None] + np.arange(each)
    return places.ravel(), np.repeat(np.arange(len(QUANTILES)), each)


def neighbours_of_same_quantile(z: NDArray[np.float32], quantile: Ints) -> float:
    """The share of the nearest representations of all points that are of the same quantile."""
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(z).kneighbors(return_distance=False)
    return float((quantile[nearest] == quantile[:, None]).mean())


def tables(finished: Sequence[FinishedRun]) -> list[ResultTable]:
    """How many of the nearest representations are of the same quantile."""
    title = "Nearest representations of the same quantile, share"
    note = f"Of the {NEIGHBOURS} nearest of each; {1 / len(QUANTILES):g} where time leaves no trace."
    return [metric_table(finished, "same_quantile", "map", title, EXPERIMENT.datasets, note=note)]


def figures(finished: Sequence[FinishedRun]) -> list[ResultFigure]:
    """A map for each data set, of the first seed."""
    shown = {each.run.dataset: each for each in reversed(finished)}
    panels = [
        Scatter(dataset, each.found["points"], each.found["quantile"], [f"{quantile:g}" for quantile in QUANTILES])
        for dataset, each in sorted(shown.items(), key=lambda item: EXPERIMENT.datasets.index(item[0]))
    ]
    return [ResultFigure("map", panels, "quantile of time")] if panels else []


EXPERIMENT = Experiment(
    name="map",
    title="Representations along time",
    datasets=("soc-sign-bitcoinotc", "ia-escorts-dynamic", "soc-wiki-elec"),
    methods=("paper",),
    perform=perform,
    tables=tables,
    settings=TRAINING.settings,
    figures=figures,
    seeds=1,
)
