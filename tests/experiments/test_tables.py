"""Tables of results: the same numbers in every form."""

import csv
import io

from tapgnn.experiments.tables import NOTHING, ResultTable, Value

TABLE = ResultTable(
    "links",
    "Links, AUC",
    ("method", "fb-forum", "wiki_elec"),
    [
        ("jodie", (Value.of([0.94, 0.96], 0.815), Value.of([0.5]))),
        ("tap & gnn", (Value.of([0.93]), Value.of([]))),
    ],
    best="max",
    note="100 % measured.",
)


def test_markdown_has_mean_deviation_and_what_the_paper_prints_the_best_in_bold():
    assert TABLE.markdown() == (
        "| method | fb-forum | wiki_elec |\n"
        "| --- | --- | --- |\n"
        "| jodie | **0.9500** ± 0.0141 [0.815] | **0.5000** |\n"
        f"| tap & gnn | 0.9300 | {NOTHING} |\n"
        "\n"
        "100 % measured.\n"
    )


def test_a_cell_without_runs_has_a_dash_and_what_the_paper_prints_and_a_bar_is_no_border():
    table = ResultTable("t", "T", ("|E|", "a|b"), [("x", (Value.of([], 0.5),))])
    assert table.markdown().splitlines() == [r"| \|E\| | a\|b |", "| --- | --- |", f"| x | {NOTHING} [0.5] |"]


def test_latex_escapes_names_and_keeps_its_own_marks():
    text = TABLE.latex()
    assert r"jodie & \textbf{0.9500} $\pm$ 0.0141 [0.815] & \textbf{0.5000} \\" in text
    assert rf"tap \& gnn & 0.9300 & {NOTHING} \\" in text
    assert r"\caption{Links, AUC. 100 \% measured.}" in text
    assert r"wiki\_elec \\" in text
    assert text.count("{") == text.count("}")


def test_csv_has_one_line_a_number():
    rows = [*csv.DictReader(io.StringIO(TABLE.csv()))]
    assert [(row["method"], row["column"]) for row in rows][:2] == [("jodie", "fb-forum"), ("jodie", "wiki_elec")]
    assert float(rows[0]["mean"]) == 0.95
    assert (rows[0]["runs"], rows[0]["printed"]) == ("2", "0.815")
    assert (rows[3]["mean"], rows[3]["runs"]) == ("", "0")


def test_plain_values_hold_what_the_csv_holds():
    rows = TABLE.plain()["rows"]
    assert rows["jodie"]["fb-forum"]["printed"] == 0.815
    assert rows["tap & gnn"]["wiki_elec"]["mean"] is None
    assert TABLE.plain()["note"] == "100 % measured."


def test_the_least_number_is_bold_where_less_is_better():
    table = ResultTable(
        "t", "T", ("method", "ms"), [("a", (Value(2.0),)), ("b", (Value(1.0),)), ("c", ("none",))], "min"
    )
    assert "| b | **1.0000** |" in table.markdown()
    assert "| c | none |" in table.markdown()
