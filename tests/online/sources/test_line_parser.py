"""Lines of a stream become columns of events."""

from tapgnn.online.sources.line_parser import LineParser


def test_features_may_stand_in_a_list_or_in_columns():
    listed = LineParser("x", "jsonl").parse([b'{"src":1,"dst":2,"time":3,"features":[0.5,2]}'], 1)
    apart = LineParser("x", "jsonl").parse([b'{"src":1,"dst":2,"time":3,"f0":0.5,"f1":2}'], 1)
    assert listed["features"].tolist() == apart["features"].tolist() == [[0.5, 2.0]]
