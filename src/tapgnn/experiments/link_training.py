"""Link training: the runs of future link prediction that several experiments share.

Everything is as in `tapgnn compare --protocol paper`, without its ranking: for every seed all methods get the same test
events with one negative each; accuracy is taken at the threshold that is best on the validation events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tapgnn.baselines import Method
from tapgnn.data.datasets.registry import load_dataset
from tapgnn.evaluation.harness import TAPGNNMethod, make_method, measured
from tapgnn.evaluation.protocols import PROTOCOLS
from tapgnn.evaluation.questions import NAME, Questions
from tapgnn.evaluation.runner import Run
from tapgnn.events import Events
from tapgnn.experiments.direct_aggregation import WithDirectAggregation
from tapgnn.experiments.experiment import QUICK_EVENTS, Experiment, FinishedRun
from tapgnn.experiments.figures import ResultFigure, lines_figure
from tapgnn.experiments.printed import LINK_DATASETS
from tapgnn.experiments.tables import ResultTable, Value

# Below tables whose numbers the paper draws.
DRAWN = "The paper shows these numbers in a figure, without printing them."
# The rules of the paper, with an accuracy for methods that give no probabilities.
RULES = replace(PROTOCOLS["paper"], threshold="validation")


@dataclass(frozen=True)
class LinkRuns:
    """Methods by name, TAP-GNN with other parameters than its defaults among them.

    directly: those of them that also aggregate directly, with the weights of seed 0: the scores are the same, at many
    times the cost.
    """

    variants: Mapping[str, Mapping[str, Any]]
    directly: Collection[str] = ()

    def perform(self, run: Run) -> dict[str, Any]:
        """Train and test one method."""
        questions = Questions(RULES.split(read_log(run)), RULES, run.seed)

        def make(name: str, seed: int) -> Method:
            if name in self.variants:
                kind = WithDirectAggregation if name in self.directly and seed == 0 else TAPGNNMethod
                return kind(seed, **self.variants[name])
            return make_method(name, seed, questions.window)

        return measured(make, run.method, questions)

    def settings(self, run: Run) -> dict[str, Any]:
        """The model and the training, where it is TAP-GNN."""
        if run.method != NAME and run.method not in self.variants:
            return {}
        estimator = TAPGNNMethod(run.seed, **self.variants.get(run.method, {})).estimator
        return {"model": estimator.config().to_dict(), "training": asdict(estimator.settings())}


def read_log(run: Run, quick_events: int = QUICK_EVENTS) -> Events:
    """The events of the data set of a run."""
    events = load_dataset(run.dataset)
    return events.slice(0, quick_events) if run.quick else events


def metric_table(
    finished: Sequence[FinishedRun],
    metric: str,
    name: str,
    title: str,
    datasets: Sequence[str],
    printed: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None,
    note: str = "",
) -> ResultTable:
    """A metric of the test by method and data set, in the order of the runs; methods without a run are left out."""
    found: dict[str, dict[str, list[float]]] = {}
    for each in finished:
        found.setdefault(each.run.method, {}).setdefault(each.run.dataset, []).append(each.found[metric])
    rows = []
    for method, by_dataset in found.items():
        known = (printed or {}).get(method, {})
        cells = [Value.of(by_dataset.get(dataset, []), known.get(dataset, {}).get(metric)) for dataset in datasets]
        rows.append((method, tuple(cells)))
    return ResultTable(name, title, ("method", *datasets), rows, best="max", note=note)


def variants_experiment(
    name: str, title: str, runs: LinkRuns, methods: Sequence[str], note: str = "", runs_of: str = ""
) -> Experiment:
    """Test AUC of variants of TAP-GNN on the six data sets, as a table and as a line for each variant."""

    def tables(finished: Sequence[FinishedRun]) -> list[ResultTable]:
        return [metric_table(finished, "auc", name, f"{title}, AUC", LINK_DATASETS, note=note)]

    def figures(finished: Sequence[FinishedRun]) -> list[ResultFigure]:
        return [lines_figure(name, tables(finished)[0])]

    run, settings = runs.perform, runs.settings
    return Experiment(name, title, LINK_DATASETS, tuple(methods), run, tables, settings, figures, runs_of=runs_of)
