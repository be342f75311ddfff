"""docs/results.md and the table of the README: they say what the files in results/ hold, and nothing else."""

import csv
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tapgnn.baselines import TRIVIAL
from tapgnn.evaluation.revisions import REVISIONS

ROOT = Path(__file__).parent.parent


def module(path):
    """A script of the project."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


page, record = module(ROOT / "docs" / "results_page.py"), module(ROOT / "benchmarks" / "record.py")


def test_the_page_is_that_of_the_stored_results():
    assert (ROOT / "docs" / "results.md").read_text() == page.render(), "run 'make page', and commit the page"


def test_the_table_of_the_readme_is_that_of_the_stored_results():
    with (ROOT / "results" / "links" / "links-auc.csv").open() as file:
        stored = list(csv.DictReader(file))
    expected = {}
    for name in {row["column"] for row in stored}:
        rows = {row["method"]: row for row in stored if row["column"] == name}
        model, best = rows["tapgnn"], max((rows[rule] for rule in TRIVIAL), key=lambda row: float(row["mean"]))
        printed = max(float(row["printed"]) for row in rows.values() if row["printed"])
        ours, trivial = f"**{float(model['mean']):.4f}** ± {float(model['std']):.4f}", f"{float(best['mean']):.4f}"
        expected[name] = [ours, f"{trivial} ({best['method']})", f"{printed:.3f}"]
    table = re.search(r"^\| data set \| tapgnn .*\n\|[-|]+\n((?:\|.*\n)+)", (ROOT / "README.md").read_text(), re.M)[1]
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert {name: cells for name, *cells in shown} == expected


def test_a_changed_number_changes_the_page(tmp_path):
    shutil.copytree(ROOT / "results", tmp_path / "results", ignore=shutil.ignore_patterns("runs"))
    assert page.render(tmp_path / "results") == page.render()
    path = tmp_path / "results" / "links" / "links.json"
    values = json.loads(path.read_text())
    values["tables"]["links-auc"]["rows"]["recency"]["fb-forum"]["mean"] = 0.123456
    path.write_text(json.dumps(values))
    assert "0.1235" in page.render(tmp_path / "results")
    assert page.render(tmp_path / "results") != page.render()


def test_the_page_names_the_methods_with_runs_of_older_code(tmp_path):
    shutil.copytree(ROOT / "results", tmp_path / "results", ignore=shutil.ignore_patterns("runs"))
    path = tmp_path / "results" / "links" / "links.json"
    values = json.loads(path.read_text())
    values["revisions"] = {"recency": {"trivial": -1}, "tgn": {"memory": REVISIONS["memory"]}, "jodie": {"memory": -1}}
    path.write_text(json.dumps(values))
    assert "Of older code, whose results may differ: recency, jodie.\n" in page.render(tmp_path / "results")


def test_sections_without_results_are_left_out_and_their_commands_listed(tmp_path):
    text = page.render(tmp_path)
    named = set(re.findall(r"- `(?:tapgnn reproduce|python benchmarks/record\.py) ([a-z0-9-]+)", text))
    assert re.findall("^## .*", text, re.M) == ["## What can be run besides"]
    assert {"links", "nodes", "latency", "direct", "map", "beyond", "data", "kernels"} <= named
    assert {"scan", "forward", "threads", "training", "memory", "online", "server", "dyglib"} <= named
    assert {"newcomer", "startup", "tgb-lag-0"} <= named
    assert not re.search(r"\d\.\d{3}", text)


def test_every_figure_and_every_link_of_the_page_is_there():
    text = (ROOT / "docs" / "results.md").read_text()
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (ROOT / "docs" / target).is_file(), target


def test_a_benchmark_is_kept_with_its_command_its_machine_and_what_it_printed(tmp_path):
    (tmp_path / "print.py").write_text('print("words"); print(\'{"a": 1}\'); print(\'{"a": 2}\')')
    record.record("print", f"python {tmp_path / 'print.py'}", tmp_path / "benchmarks")
    found = page.Benchmark(tmp_path, "print")
    assert found.lines == [{"a": 1}, {"a": 2}]
    assert found.last == {"a": 2}
    assert f"`python {tmp_path / 'print.py'}`" in found.about
    assert found.values["cpu"] in found.about
    assert set(found.values) == {"command", "output", "cpu", "cores", "versions", "date", "seconds"}


def test_a_benchmark_that_fails_leaves_the_file_of_before(tmp_path):
    (tmp_path / "fail.py").write_text("raise SystemExit(3)")
    with pytest.raises(subprocess.CalledProcessError):
        record.record("fail", f"python {tmp_path / 'fail.py'}", tmp_path / "benchmarks")
    assert not (tmp_path / "benchmarks").exists()


# What a benchmark prints, as the page reads it.
PRINTED = {
    "scan": {"scan_vs_copy": 1.2, "cumsum_vs_scan": 20, "scan_backward_vs_copy": 1.1, "rows": 300_000, "width": 128}
    | {"cumsum_backward_vs_scan_backward": 30, "threads": 2},
    "forward": {
        "events": [10_000, 1_000_000],
        "events_per_s": [84_853, 162_181],
        "time_growth": 0.5,
        "memory_growth": 1,
    },
    "training": {"vs_tgn": 15.8, "vs_tgn_small_chunks": 10.7, "vs_published_scheme": 102, "chunk": 4096, "width": 100}
    | {"auc_tapgnn": 0.98, "auc_tgn": 0.9, "epochs": 2},
    "memory": {"peak_gb": 2.72, "read_peak_gb": 1.5, "bytes_per_node": 3_743},
    "threads": dict.fromkeys(("advance", "train", "train_small"), 1.6)
    | {"events_per_s": {name: [94_000, 145_000] for name in ("advance", "train", "train_small")}},
    "online": {"event_us": dict.fromkeys(("plain", "features", "classifier", "table", "table_rows"), 47.1)}
    | dict.fromkeys(("event_vs_tgn", "event_vs_tgn_features", "event_vs_tgn_table", "latency_growth"), 9.1)
    | {"batch_vs_tgat_2": 42.3, "batch_vs_tgat_3": 532, "width": 128, "batch": 200},
    "server": {
        "durable_events_per_s": 87_479,
        "table_events_per_s": {"JSON": 52_305},
        "batch": 200,
        "events": 10_000_000,
    }
    | {"score_p50_ms": 1.9, "score_p95_ms": 3.3, "score_p99_ms": 4.6, "memory_growth": 0.0007}
    | {"nodes": [1_000_000], "stop_s": 4.1, "open_s": 7.9},
    "newcomer": {"benchmark": "newcomer", "total_s": 142.5, "seconds": {}},
    "startup": {"benchmark": "startup", "tapgnn --help": {"wall_s": 0.31, "processor_s": 0.229}},
    "tgb-lag-0": {"mrr_mean": 0.8354, "mrr_std": 0.0004, "valid_mrr_mean": 0.8513}
    | {"baselines": {"recency": {"mrr_mean": 0.1571, "valid_mrr_mean": 0.1399}}},
    "classification-wikipedia": {"log": "wikipedia", "positives": 217, "test_auc_mean": 0.908, "test_ap_mean": 0.025}
    | {"test_auc_std": 0.001, "test_auc_error_mean": 0.02, "trees, counts: test_auc, test_ap": [0.898, 0.03]},
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_benchmark_is_a_section_with_its_numbers(name, tmp_path):
    about = {"command": record.COMMANDS[name], "cpu": "a processor", "cores": 2, "date": "2026-11-19", "seconds": 1.0}
    path = tmp_path / "benchmarks" / f"{name}.json"
    path.parent.mkdir()
    path.write_text(json.dumps({**about, "output": [PRINTED[name]], "versions": {"torch": "2", "numba": "0"}}))
    text = page.render(tmp_path)
    assert f"`{record.COMMANDS[name]}`, 2026-11-19, 2 cores (a processor)" in text

    def numbers(value):
        if isinstance(value, dict | list):
            return [each for item in (value.values() if isinstance(value, dict) else value) for each in numbers(item)]
        return [] if isinstance(value, str) else [value]

    shown = {float(text.replace(",", "")) for text in re.findall(r"\d[\d,]*\.?\d*", text) if text.strip(",")}
    for number in numbers(PRINTED[name]):
        assert float(number) in shown, number


def test_the_script_writes_the_page(tmp_path):
    for name in ("docs", "results"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("runs"))
    (tmp_path / "docs" / "results.md").unlink()
    subprocess.run([sys.executable, tmp_path / "docs" / "results_page.py"], check=True)
    assert (tmp_path / "docs" / "results.md").read_text() == page.render()
