import re
import subprocess
import sys
from dataclasses import fields, replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.report import Report, render_report, sections, write_report
from tests.report import sample
from tests.report.document import Document

RUN = sample.run(queries=2000, sample=800, simulated=True)
PARTS = [field.name for field in fields(Report) if field.name != "title"]
NUMBERS = st.floats(-1e100, 1e100) | st.sampled_from([np.nan, np.inf, -np.inf])
SECTIONS = {
    "results": {"metrics", "labels"},
    "ranking": {"labels"},
    "steadiness": {"scores"},
    "training": {"history"},
    "map": {"embeddings"},
    "classification": {"classification"},
    "data": {"data"},
    "settings": {"settings"},
}


def emptied(names: set[str]) -> Report:
    """The run without some of its parts."""
    bare = Report(title=RUN.title)
    return replace(RUN, **{name: getattr(bare, name) for name in names})


def test_a_report_is_one_small_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = write_report(tmp_path / "new" / "report.html", sample.run(queries=200_000, sample=30_000, simulated=True))
    assert [found.name for found in path.parent.iterdir()] == ["report.html"]
    assert path.stat().st_size < 400_000


def test_the_same_report_gives_the_same_bytes() -> None:
    page = render_report(RUN)
    with matplotlib.rc_context({"font.size": 30, "axes.grid": False, "svg.fonttype": "path"}):
        assert page == render_report(sample.run(queries=2000, sample=800, simulated=True))


def test_nothing_but_writing_a_report_loads_matplotlib() -> None:
    program = "import sys, tapgnn.cli.results; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_page_asks_nothing_of_the_network() -> None:
    page = render_report(RUN)
    document = Document(page)
    assert not document.all("script") + document.all("iframe") + document.all("img")
    keys = ("src", "href", "xlink:href")
    addresses = [element.attributes[key] for element in document.all() for key in keys if key in element.attributes]
    assert all(address and address.startswith(("#", "data:")) for address in addresses)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_every_section_stands_once_and_is_named() -> None:
    document = Document(render_report(RUN))
    names = [element.attributes["id"] for element in document.all() if "id" in element.attributes]
    assert len(names) == len(set(names))
    assert set(SECTIONS) <= set(names)
    for section in document.all("section"):
        assert section.attributes["aria-labelledby"] in names
    assert {link.attributes["href"] for link in document.all("a")} == {f"#{name}" for name in SECTIONS}


def test_a_page_can_be_read_without_seeing_it() -> None:
    document = Document(render_report(RUN))
    assert document.all("html")[0].attributes["lang"] == "en"
    levels = [int(element.tag[1]) for element in document.all() if re.fullmatch("h[1-6]", element.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for chart in document.all("svg"):
        assert chart.attributes.get("aria-hidden") == "true" or len(chart.attributes["aria-label"] or "") > 20
    for table in document.all("table"):
        assert table.all("caption")[0].text
        assert all(head.attributes["scope"] in ("row", "col") for head in table.all("th"))


def test_all_that_is_written_by_others_is_escaped() -> None:
    page = render_report(sample.awkward())
    document = Document(page)
    allowed = {element.tag for element in Document(render_report(RUN)).all()}
    assert {element.tag for element in document.all()} <= allowed
    assert "<script>alert('title')</script>" in document.all("h1")[0].text
    assert "</details><script>alert(2)</script>" in document.all("details")[0].text
    for words in ("<u>odd</u>", "<u>value</u>", "baseline number 9 with a long name & <b>markup</b>", "<em> 1.0000"):
        assert any(words in element.text for element in document.all("main")), words


def test_unusable_numbers_leave_a_note_and_never_an_error() -> None:
    notes = [e.text for e in Document(render_report(sample.awkward())).all("p") if e.attributes.get("class") == "note"]
    reasons = (
        "400 of its scores are NaN",
        "3 scores for 400",
        "probabilities from 0 to 1",
        "0 positives",
        "one positive",
    )
    for reason in reasons:
        assert any(reason in note for note in notes), reason


@pytest.mark.parametrize("name", SECTIONS)
def test_what_is_empty_is_left_out(name: str) -> None:
    document = Document(render_report(emptied(SECTIONS[name])))
    assert document.find(name) is None


def test_a_bare_report_is_still_a_page() -> None:
    document = Document(render_report(Report(title="nothing yet")))
    assert document.all("h1")[0].text == "nothing yet"
    assert not document.all("section")


@given(names=st.sets(st.sampled_from(PARTS)))
def test_any_part_may_be_missing(names: set[str]) -> None:
    Document(render_report(emptied(names)))


@given(
    labels=st.lists(st.sampled_from([0, 1, 2]), max_size=6),
    scores=st.lists(NUMBERS, max_size=6),
    times=st.lists(NUMBERS | st.floats(1e9, 2e9), max_size=6),
    measure=st.none() | NUMBERS,
    rows=st.integers(0, 4),
)
def test_any_numbers_give_a_page(
    labels: list[int], scores: list[float], times: list[float], measure: float | None, rows: int
) -> None:
    report = Report(
        title="odd",
        metrics={"tapgnn": {"auc_mean": measure}, "recency": {"auc_mean": 0.9, "seconds": measure}},  # type: ignore[dict-item]
        history=[
            {"seed": 0, "epoch": value, "loss": measure, "metric": "auc", "validation": measure} for value in times
        ],
        labels=np.array(labels),
        scores=np.array(scores),
        times=np.array(times),
        baseline_scores={"recency": np.array(times)},
        embeddings=np.array(times * 2)[: len(times)].reshape(-1, 1).repeat(rows, axis=1),
        embedding_times=np.array(scores),
        data={"events": measure, "end": measure, "start": 0},
        classification={"labels": np.array(labels), "scores": np.array(times), "auc": measure},
    )
    Document(render_report(report))


@pytest.mark.parametrize(
    ("own", "spread", "other", "state", "words"),
    [
        (0.968, 0.002, 0.933, "ahead", "0.035 above the best trivial baseline, recency"),
        (0.9925, 0.001, 0.9921, "level", "0.0004 is within the standard deviation over seeds"),
        (0.90002, 0.0, 0.9, "level", "On par with the best trivial baseline, recency"),
        (0.9, 0.0, 0.9, "level", "On par with the best trivial baseline, recency"),
        (0.871, 0.004, 0.912, "behind", "0.041 below the best trivial baseline, recency"),
    ],
)
def test_the_headline_says_how_good_and_against_what(
    own: float, spread: float, other: float, state: str, words: str
) -> None:
    table = {
        "tapgnn": {"auc_mean": own, "auc_std": spread},
        "popularity": {"auc_mean": 0.8},
        "recency": {"auc_mean": other, "auc_std": 0.0},
    }
    page = Document(render_report(Report(title="headline", metrics=table)))
    verdict = next(e for e in page.all("p") if (e.attributes.get("class") or "").startswith("verdict"))
    assert words in verdict.text
    assert verdict.attributes["class"] == f"verdict {state}"


def test_without_a_table_the_headline_is_the_auc_of_the_scores() -> None:
    report = Report(title="scores only", labels=np.array([0, 1, 1, 0]), scores=np.array([0.1, 0.9, 0.8, 0.85]))
    page = Document(render_report(report))
    text = " ".join(element.text for element in page.all("section"))
    assert "0.750" in text
    assert "No baseline to compare with" in text


def test_only_simulated_data_is_called_simulated() -> None:
    assert 'class="badge">simulated data<' in render_report(RUN)
    assert 'class="badge"' not in render_report(replace(RUN, simulated=False))


def test_results_on_validation_events_are_never_called_a_test() -> None:
    page = Document(render_report(replace(RUN, period="validation", classification=None)))
    text = " ".join(element.text for element in page.all("main"))
    assert "Validation AUC 0.9" in text
    assert not re.search(r"\btest\b", text, re.IGNORECASE)


def test_the_best_of_a_column_is_bold() -> None:
    table = {"tapgnn": {"auc_mean": 0.9, "seconds": 9.0}, "recency": {"auc_mean": 0.95, "seconds": 1.0}}
    page = Document(render_report(Report(title="bold", metrics=table)))
    assert [e.text for e in page.all("td") if e.attributes.get("class") == "strong"] == ["0.9500"]


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def test_every_colour_can_be_read_on_light_and_on_dark() -> None:
    style = files("tapgnn.report").joinpath("style.css").read_text(encoding="utf-8")
    themes = [
        dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\n *\}", style, re.S)
    ]
    assert len(themes) == 2
    assert themes[0].keys() == themes[1].keys()
    for theme in themes:
        for text in ("ink", "soft", "own"):
            assert contrast(theme[text], theme["card"]) >= 4.5, text
            assert contrast(theme[text], theme["page"]) >= 4.5, text
        for verdict in ("good", "fair", "bad"):
            assert contrast(theme[verdict], theme[f"{verdict}-back"]) >= 4.5, verdict
        for mark in [name for name in theme if name.startswith("tone-")] + ["best", "edge"]:
            assert contrast(theme[mark], theme["card"]) >= 3.0, mark
        for shade in [name for name in theme if name.startswith("shade-")]:
            assert contrast(theme[shade], theme["card"]) >= 2.7, shade


def test_negative_types_have_a_table_of_their_own() -> None:
    marks = {"auc_mean": 0.9, "hits10_mean": 0.8, "transductive_auc_mean": 0.95, "inductive_negatives_auc_mean": 0.6}
    page = Document(render_report(Report(title="strict", metrics={"tapgnn": marks, "recency": {"auc_mean": 0.8}})))
    tables = {table.all("caption")[0].text: table for table in page.all("table")}
    heads = {name: [head.text for head in table.all("th")] for name, table in tables.items()}
    assert {"AUC", "Hits@10"} <= set(heads["Results on the test period"])
    assert "AUC, seen nodes" not in heads["Results on the test period"]
    assert {"AUC, seen nodes", "AUC, inductive negatives"} <= set(heads["Results by node and negative type"])
    assert page.find("negative-types") is not None


def test_classification_leads_with_alert_budgets_and_the_methods_beside_it() -> None:
    text = render_report(RUN)
    assert re.findall(r'<section id="([a-z-]+)"', text)[0] == "classification"
    assert "0.1% of events" in text
    assert "gradient-boosted trees on the row" in text


def test_the_loss_has_one_point_for_each_epoch_and_is_its_mean():
    points = [(0.5, 4.0), (1.0, 2.0), (1.5, 3.0), (2.0, 1.0)]
    history = [{"seed": 0, "epoch": epoch, "loss": loss, "metric": "auc", "validation": 0.5} for epoch, loss in points]
    assert sections._by_epoch(*np.array(points).T).tolist() == [[1.0, 2.0], [3.0, 2.0]]
    page = render_report(Report(title="two epochs", history=history))
    assert "Training loss, 1 seed, last value 2.000." in page


def test_maps_by_role_and_label_tell_the_nodes_and_no_id_becomes_markup():
    rng = np.random.default_rng(0)
    names = [f"a{place}" for place in range(39)] + ['<img src=x onerror="alert(1)">']
    page = render_report(
        Report(
            title="map",
            embeddings=rng.normal(size=(40, 3)),
            embedding_times=np.arange(40.0),
            embedding_names=names,
            embedding_labels=np.array([1, 0] * 20),
            embedding_roles=np.repeat([0, 1], 20),
        )
    )
    assert "Map of embeddings by role: sources (20), destinations (20)." in page
    # The label of an event is shown at its source.
    assert "Map of embeddings by label: other events (10), positive events (10)." in page
    assert "<title>a7</title>" in page
    assert "<img" not in page
