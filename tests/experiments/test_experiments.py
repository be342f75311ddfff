"""Every experiment: its runs are valid, and its tables and figures are those of its runs, complete or not."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from tapgnn.errors import ConfigError
from tapgnn.evaluation.runner import Run
from tapgnn.experiments import EXPERIMENTS, find_experiment
from tapgnn.experiments.data import LINKS as LINKS_COLUMNS
from tapgnn.experiments.data import STATISTICS
from tapgnn.experiments.data import perform as describe_data
from tapgnn.experiments.experiment import FinishedRun
from tapgnn.experiments.links import EXPERIMENT as LINKS
from tapgnn.experiments.links import best_kernel, margins
from tapgnn.experiments.printed import DATA_COLUMNS, LINK_DATASETS, printed_data, printed_links
from tapgnn.experiments.tables import ResultTable, Value
from tapgnn.model import Config

every_experiment = pytest.mark.parametrize("name", EXPERIMENTS)
# Those whose tables are of an AUC by method and data set.
TRAINED = ("links", "kernels", "ablation", "sensitivity", "nodes", "beyond")


def drawn(name, rng):
    """What a run of an experiment may have found: no training is needed to make a table."""
    auc = float(rng.uniform(0.5, 1.0))
    if name == "data":
        return {key: auc for key, *_ in (*STATISTICS, *LINKS_COLUMNS)}
    if name == "latency":
        return {"tgat": 100 * auc, "paper": 9 * auc, "tapgnn": 3 * auc, "events": 5_000, "threads": 1}
    if name == "direct":
        points = [{"step": step, "loss": 1 / step, "auc": auc if step == 2 else None} for step in (1, 2, 3)]
        return {"points": points, "auc": auc, "us_per_event": 50.0, "memory_mb": 300.0}
    if name == "map":
        return {"same_quantile": auc, "points": rng.normal(size=(20, 2)).tolist(), "quantile": [0, 1, 2, 3, 4] * 4}
    direct = {"alternatives": {"direct": {"auc": auc, "accuracy": auc - 0.1}}}
    return {"auc": auc, "accuracy": auc - 0.1, "details": {"selection_auc": auc}, "columns": 0, **direct}


def finished(experiment, runs):
    """Runs with numbers drawn by place."""
    rng = np.random.default_rng(0)
    return [FinishedRun(run, drawn(experiment.name, rng)) for run in runs]


@every_experiment
def test_a_name_finds_its_experiment(name):
    assert find_experiment(name).name == name


def test_an_unknown_name_is_an_error_that_lists_them():
    with pytest.raises(ConfigError, match="the experiments are data, links"):
        find_experiment("table-1")


@every_experiment
def test_the_settings_of_every_method_are_resolved(name):
    experiment = find_experiment(name)
    for method in experiment.methods:
        settings = experiment.settings(Run(experiment.datasets[0], method, 3))
        assert json.loads(json.dumps(settings)).keys() == settings.keys()
        if "model" in settings:
            assert Config.from_dict(settings["model"]).to_dict() == settings["model"]
            assert settings["training"]["seed"] == 3


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("seeds", [1, 2])
def test_tables_and_figures_hold_the_numbers_of_the_runs(name, seeds):
    experiment = find_experiment(name)
    runs = finished(experiment, experiment.runs(seeds=seeds))
    numbers = {
        (label, column): cell.mean
        for table in experiment.tables(runs)
        for label, cells in table.rows
        for column, cell in zip(table.header[1:], cells, strict=True)
        if table.name == "links-auc" or not table.name.startswith("links-")
    }
    for method in experiment.methods:
        for dataset in experiment.datasets:
            own = [each.found["auc"] for each in runs if (each.run.method, each.run.dataset) == (method, dataset)]
            assert numbers[method, dataset] == pytest.approx(np.mean(own))


@every_experiment
def test_figures_are_drawn_alike_from_the_same_runs(name):
    experiment = find_experiment(name)
    runs = finished(experiment, experiment.runs(seeds=2))
    for figure in experiment.figures(runs):
        text = figure.drawn("svg")
        ElementTree.fromstring(text)
        assert text == figure.drawn("svg")
        assert figure.drawn("png").startswith(b"\x89PNG")


@every_experiment
def test_tables_and_figures_of_a_part_or_of_no_runs_are_made(name):
    experiment = find_experiment(name)
    for methods in ((), experiment.methods[-1:]):
        runs = finished(experiment, experiment.runs(methods=methods, seeds=1)[:1] if methods else [])
        for table in experiment.tables(runs):
            assert table.markdown().startswith("| ")
            assert ResultTable.from_plain(table.name, json.loads(json.dumps(table.plain()))) == table
        for figure in experiment.figures(runs):
            assert figure.drawn("svg")


def test_the_row_of_the_paper_is_its_preset_with_the_kernel_that_is_best_on_validation():
    runs = [
        FinishedRun(Run("fb-forum", method, seed), {"auc": test, "accuracy": test, "details": {"selection_auc": valid}})
        for method, valid, test in (("paper-gcn", 0.8, 0.9), ("paper-pool", 0.9, 0.7), ("tapgnn", 0.99, 0.99))
        for seed in range(2)
    ]
    assert best_kernel(runs, "fb-forum") == "paper-pool"
    (row,) = [cells for label, cells in LINKS.tables(runs)[0].rows if label == "tap-gnn"]
    assert row[0] == Value.of([0.7, 0.7], 0.909)
    assert "fb-forum pool" in LINKS.tables(runs)[0].note


def test_direct_aggregation_is_a_row_of_its_own_with_the_runs_of_the_chosen_kernel():
    runs = finished(LINKS, LINKS.runs(["fb-forum"], ["paper-gcn", "paper-mean"], 2))
    chosen = best_kernel(runs, "fb-forum")
    rows = dict(LINKS.tables(runs)[0].rows)
    own = [each.found["alternatives"]["direct"]["auc"] for each in runs if each.run.method == chosen]
    assert rows["tap-gnn-direct"][0] == Value.of(own, 0.889)
    assert "their AUC is the same in every digit" in LINKS.tables(runs)[0].note


def test_margins_pair_the_seeds_of_the_default_with_those_of_the_best_other():
    def found(method, seed, auc):
        return FinishedRun(Run("fb-forum", method, seed), {"auc": auc, "accuracy": auc})

    runs = [found("tapgnn", 0, 0.9), found("tapgnn", 1, 0.8), found("tgn", 0, 0.85), found("tgn", 1, 0.82)]
    runs += [found("recency", 0, 0.7), found("recency", 1, 0.99), found("recency", 2, 0.99)]
    ((dataset, cells),) = margins(runs).rows
    assert (dataset, cells[2], cells[4]) == ("fb-forum", "recency", "1 of 2")
    assert cells[3].mean == pytest.approx((0.2 - 0.19) / 2)
    assert margins(runs[2:]).rows == []


def test_every_printed_number_stands_beside_ours():
    assert set(printed_data()) == set(find_experiment("data").datasets)
    assert all(list(row) == list(DATA_COLUMNS) for row in printed_data().values())
    for by_dataset in printed_links().values():
        assert tuple(by_dataset) == LINK_DATASETS
        assert all(0.3 < number < 1 for metrics in by_dataset.values() for number in metrics.values())
    runs = finished(LINKS, LINKS.runs(seeds=1))
    shown = dict(LINKS.tables(runs)[0].rows)
    for method, by_dataset in printed_links().items():
        if method in shown:
            assert [cell.printed for cell in shown[method]] == [row["auc"] for row in by_dataset.values()]


def test_statistics_of_a_real_log_stand_beside_those_of_the_paper(data_folder, monkeypatch):
    monkeypatch.setenv("TAPGNN_DATA", str(data_folder))
    run = Run("fb-forum", "statistics", 0)
    statistics, links = find_experiment("data").tables([FinishedRun(run, describe_data(run))])
    (_, cells), (_, sizes) = statistics.rows[0], links.rows[0]
    for cell in (*cells, *sizes):
        if cell.printed is not None:
            assert cell.mean == pytest.approx(cell.printed, rel=0.05)
    assert "9,990,803 [9,900,000]" in links.markdown()
