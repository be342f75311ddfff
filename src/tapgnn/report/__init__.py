"""Report: one self-contained HTML page about the accuracy of a model compared with baselines.

The same Report always gives the same bytes. The page has no scripts and makes no network requests.
"""

from tapgnn.report.content import Report
from tapgnn.report.page import render_report, write_report

__all__ = ["Report", "render_report", "write_report"]
