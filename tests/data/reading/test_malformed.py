"""Malformed files: each gives one clear line that names the file."""

import pytest

from tapgnn import TapgnnError
from tapgnn.data import read_chunks, read_events
from tapgnn.errors import DataError
from tests.data.logs import put
from tests.data.reading.malformed import BAD, GOOD, LEGAL


def fails_with_one_line(path, **options):
    """The message of the one error; anything but a TapgnnError goes through and fails the test."""
    with pytest.raises(TapgnnError) as caught:
        read_events(path, **options)
    message = str(caught.value)
    assert isinstance(caught.value, DataError)
    assert "\n" not in message
    assert len(message) < 400
    assert path.name in message
    return message


def test_there_are_a_hundred_kinds():
    contents = {
        (name, content if isinstance(content, bytes) else content.encode()) for name, content, _ in BAD.values()
    }
    assert len(contents) == len(BAD) >= 100


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_file_is_one_line_that_names_it(tmp_path, case):
    name, content, says = BAD[case]
    path = put(tmp_path, name, content)
    assert says in fails_with_one_line(path)
    with pytest.raises(DataError):
        list(read_chunks(path, 1))


@pytest.mark.parametrize("case", LEGAL)
def test_a_strange_but_legal_file_is_read_fully(tmp_path, case):
    name, content, count = LEGAL[case]
    assert len(read_events(put(tmp_path, name, content))) == count


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "excel"}, "unknown format 'excel'"),
        ({"src": "nobody"}, "has no column 'nobody'; its columns are src, dst, time"),
        ({"label": "nobody"}, "has no column 'nobody'"),
        ({"features": ["f0", "f9"]}, "has no column 'f9'"),
        ({"src": "dst"}, "'dst' was given two roles"),
        ({"features": ["f0", "f0"]}, "'f0' was given two roles"),
        ({"header": False}, "line 1: time 'time' is not"),
        ({"format": "edges"}, "log.csv"),
    ],
)
def test_a_wrong_option_is_one_line_too(tmp_path, options, says):
    path = put(tmp_path, "log.csv", GOOD if "format" not in options else "1,2,3,4,5\n")
    assert says in fails_with_one_line(path, **options)


def test_a_missing_file_and_a_folder_are_one_line(tmp_path):
    for path in (tmp_path / "none.csv", tmp_path):
        assert "pass the path of a file" in fails_with_one_line(path)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path):
    assert "line 1: the line is too long" in fails_with_one_line(put(tmp_path, "log.jsonl", b"x" * (1 << 25)))
    open_quote = b'src,dst,time\n"' + b"a,b,1\n" * (1 << 22)
    assert "line 2: a quote is never closed" in fails_with_one_line(put(tmp_path, "log.csv", open_quote))
