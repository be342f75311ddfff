"""Chunks: those of a file are those of its events, in memory that the file does not set."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tapgnn
from tapgnn import Events, Vocabulary
from tapgnn.data import read_chunks, read_events, write_events
from tapgnn.data.reading import formats, text_blocks
from tapgnn.errors import DataError
from tests.data.logs import put, same
from tests.streams import streams


@given(
    events=streams(max_events=60, features=1), size=st.integers(1, 70), ending=st.sampled_from(["csv", "jsonl", "pq"])
)
def test_chunks_of_a_file_are_the_chunks_of_its_events(tmp_path_factory, events, size, ending):
    path = tmp_path_factory.mktemp("chunks") / f"log.{'parquet' if ending == 'pq' else ending}"
    write_events(events, path)
    names = Vocabulary()
    with pytest.MonkeyPatch.context() as patch:  # many batches, so that instants run over their borders
        patch.setattr(text_blocks, "BLOCK", 64)
        patch.setattr(formats, "BATCH_ROWS", 5)
        chunks = list(read_chunks(path, size, vocabulary=names))
    expected = list(read_events(path).chunks(size))
    assert [len(chunk) for chunk in chunks] == [len(chunk) for chunk in expected]
    for chunk, other in zip(chunks, expected, strict=True):
        assert chunk.vocabulary is names
        same(chunk, other)


@pytest.mark.parametrize("rows", [5, 2000])
def test_an_unsorted_file_cannot_be_read_in_chunks(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(text_blocks, "BLOCK", 1024)
    log = "src,dst,time\n" + "".join(f"a,b,{row}\n" for row in range(rows)) + "a,b,1.5\n"
    with pytest.raises(DataError, match=rf"^log.csv line {rows + 2}: time 1.5 comes after .*sort it"):
        list(read_chunks(put(tmp_path, "log.csv", log), 3))
    assert len(read_events(tmp_path / "log.csv")) == rows + 1


def test_a_wrong_file_or_size_is_an_error_before_the_first_chunk(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_chunks(tmp_path / "none.csv", 10)
    with pytest.raises(DataError, match="at least one event"):
        read_chunks(put(tmp_path, "log.csv", "a,b,1\n"), 0)


# A process of its own: getrusage would carry over the peak of the test process, and a reader in it reuse freed memory.
# The package is an empty shell there, since its front page loads the models, which take far longer than the reading.
MEMORY = """
import sys, types
from pathlib import Path

sys.modules["tapgnn"] = shell = types.ModuleType("tapgnn")
shell.__path__ = [sys.argv[1]]
from tapgnn.data import read_chunks
from tapgnn.data.reading import formats, text_blocks

text_blocks.BLOCK, formats.BATCH_ROWS = 1 << 18, 1 << 14
for path in sys.argv[2:]:
    count = sum(len(chunk) for chunk in read_chunks(path, 10_000))
    print(count, Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_memory_of_chunks_is_bounded_by_the_chunk_not_by_the_file(tmp_path, ending):
    sizes = (75_000, 600_000)
    paths = [tmp_path / f"log{rows}.{ending}" for rows in sizes]
    number = np.arange(sizes[-1])
    log = Events.from_arrays(number % 1000, number % 777, number)
    for rows, path in zip(sizes, paths, strict=True):
        write_events(log.slice(0, rows), path)
    command = [sys.executable, "-c", MEMORY, Path(tapgnn.__file__).parent, *paths]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    counts, peaks = zip(*(map(int, line.split()) for line in result.stdout.splitlines()), strict=True)
    assert counts == sizes
    assert peaks[1] - peaks[0] < 12_000, "eight times the events may not need 12 MB more"
