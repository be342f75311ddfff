"""Report: one self-contained HTML page that says how good a model is, and against what.

    content.py    Report: everything the page is made of, as plain numbers and arrays
    numbers.py    numbers, times and names as people read them
    curves.py     ROC, precision-recall, principal components: arrays in, arrays out
    axes.py       one chart: two axes and what is drawn between them, as inline SVG
    figures.py    the charts of the page
    headline.py   the model against the best baseline, in numbers and in words
    layout.py     the parts of a page: tables, legends, sections
    tables.py     the sections that are tables
    sections.py   the sections with charts, and the order of them all
    page.py       the sections in page.html with style.css, written as one file

The same Report always gives the same bytes. The page has no script and asks nothing of the network.
"""

from tapgnn.report.content import Report
from tapgnn.report.page import render_report, write_report

__all__ = ["Report", "render_report", "write_report"]
