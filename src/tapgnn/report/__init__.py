"""Report: one self-contained HTML page about the accuracy of a model compared with baselines.

    content.py    Report: the content of the page, as plain numbers and arrays
    numbers.py    formatting of numbers, times and names
    curves.py     ROC, precision-recall, principal components: arrays in, arrays out
    charts.py     a chart: drawn by matplotlib, written as inline SVG in the colours of the page
    figures.py    the charts of the page
    headline.py   the model against the best baseline, in numbers and in words
    layout.py     the parts of a page: tables, legends, sections
    tables.py     the sections with tables
    sections.py   the sections with charts, and the order of all sections
    page.py       the page from page.html and style.css, written as one file

The same Report always gives the same bytes. The page has no scripts and makes no network requests.
"""

from tapgnn.report.content import Report
from tapgnn.report.page import render_report, write_report

__all__ = ["Report", "render_report", "write_report"]
