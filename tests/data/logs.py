"""Logs for the tests of readers and writers: put on disk, and compared as plain rows."""

import numpy as np


def put(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def table(events):
    """The events as rows of plain values, ids in place of rows."""
    ids = events.vocabulary.ids
    columns = [[ids[row] for row in events.src], [ids[row] for row in events.dst], events.time.tolist()]
    columns.append([None] * len(events) if events.labels is None else events.labels.tolist())
    more = [] if events.features is None else list(events.features.T.astype(float))
    more += list(events.columns.values())
    rest = [[None if cell != cell else cell for cell in column.tolist()] for column in more]
    columns.append(list(zip(*rest, strict=True)) if rest else [()] * len(events))
    return list(zip(*columns, strict=True))


def same(first, second):
    """Equal in every column, and in the rows and the order of the ids."""
    assert table(first) == table(second)
    assert first.vocabulary == second.vocabulary
    np.testing.assert_array_equal(first.src, second.src)
