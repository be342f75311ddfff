"""Journals as earlier versions left them: format 2 had a row for each node, format 1 no answers either."""

import json
import zlib

import numpy as np

from tapgnn.online.journal.journal_place import open_journal

_NODES = "CREATE TABLE nodes (place {} PRIMARY KEY, id TEXT, data {} NOT NULL, checksum {} NOT NULL)"


def make_older(place, version):
    """Turn a closed journal into one of an earlier format."""
    journal = open_journal(place)
    newest = {}
    for block in journal.blocks():
        for row in block.gone.tolist():
            newest.pop(row, None)
        newest |= {
            row: (name, data) for row, name, data in zip(block.rows.tolist(), block.ids, block.data, strict=True)
        }
    with journal.transaction():
        journal.run("DROP TABLE blocks")
        journal.run(_NODES.format(journal.integer, journal.blob, journal.integer))
        if version < 2:
            journal.run("DROP TABLE answers")
        metadata = journal.metadata()
        if "checkpoint" in metadata:
            del metadata["checkpoint"]["blocks"]
        journal._write_metadata({**metadata, "format": version})
        for row, (name, data) in newest.items():
            text = None if name is None else json.dumps(name)
            packed = np.asarray(data).tobytes()
            checksum = zlib.crc32(packed, zlib.crc32(f"{row} {text}".encode()))
            journal.run("INSERT INTO nodes VALUES (?, ?, ?, ?)", (row, text, packed, checksum))
    journal.close()
