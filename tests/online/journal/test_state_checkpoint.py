"""Checkpoints in blocks: what changed is written, what is superseded goes, and any journal opens to the same bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapgnn.errors import JournalError
from tapgnn.online import Engine
from tapgnn.online.journal import state_checkpoint
from tapgnn.online.journal.journal_place import open_journal
from tapgnn.online.journal.state_rows import row_width
from tapgnn.online.journal.stored_blocks import GARBAGE, StoredBlocks

from ..live import quick_folder, saved_model
from .older_format import make_older


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few rows, so that a few nodes fill many."""
    monkeypatch.setattr(state_checkpoint, "BLOCK", 4_000)


def observe(engine, first, last, nodes=30, ttl_gap=0.0):
    for step in range(first, last):
        rng = np.random.default_rng(step)
        names = [f"n{number}" for number in rng.integers(0, nodes, 4)]
        engine.observe({"src": names[:2], "dst": names[2:], "time": [1e9 + step + ttl_gap] * 2}, "source", step)


def stored_rows(journal):
    """The number of rows in blocks, superseded ones included."""
    return sum(len(block.rows) for block in journal.blocks())


@settings(max_examples=20)
@given(data=st.data())
def test_stored_blocks_hold_the_newest_copy_of_every_row_and_little_else(data):
    """Against a plain dict of what is where, over any sequence of changes."""
    blocks, held, number, changed = StoredBlocks(), {}, 0, 0
    blocks.grow(41)
    for _ in range(data.draw(st.integers(1, 12))):
        rows = np.array(sorted(data.draw(st.sets(st.integers(0, 39), min_size=1, max_size=20))), dtype=np.int64)
        moved, dropped = blocks.superseded(rows)
        assert not set(moved.tolist()) & set(rows.tolist())
        assert len(moved) <= len(rows), "the work is bounded by what changed"
        blocks.drop(dropped)
        for gone in dropped:
            lost = held.pop(gone)
            kept = {row for row in lost if all(row not in newer for other, newer in held.items() if other > gone)}
            assert kept <= {*rows.tolist(), *moved.tolist()}, "nothing that is the newest goes"
        written = np.union1d(rows, moved)
        for start in range(0, len(written), 4):
            number = blocks.next_number
            blocks.add(number, written[start : start + 4])
            held[number] = set(written[start : start + 4].tolist())
        changed = len(written)
        newest = set().union(*held.values())
        assert set(np.flatnonzero(blocks.number[1:]).tolist()) == newest
        assert all(row in held[number] for row, number in enumerate(blocks.number[1:].tolist()) if number)
        # Whole blocks are emptied, so one of four rows may be left beyond the bound.
        assert sum(map(len, held.values())) <= (1 + GARBAGE) * len(newest) + changed + 4


@settings(max_examples=15)
@given(data=st.data())
def test_any_checkpoints_and_restarts_give_the_same_bits(data, tmp_path_factory):
    every = data.draw(st.integers(1, 7))
    stops = sorted(data.draw(st.sets(st.integers(1, 59), max_size=4)))
    older = data.draw(st.sampled_from([None, 1, 2]))
    policy = {"late": "buffer", "lateness": 2.0, "ttl": 12.0}
    with quick_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_checkpoint, "BLOCK", 4_000)
        for first, last in zip([0, *stops], [*stops, 60], strict=True):
            with Engine.open(saved_model(), f"{folder}/s.db", checkpoint_every=every, verify=True, **policy) as engine:
                observe(engine, first, last)
                digest = engine.state_digest()
            if older is not None:
                make_older(f"{folder}/s.db", older)
        with Engine.open(saved_model(), f"{folder}/s.db") as engine:
            assert engine.state_digest() == digest
        with Engine.open(saved_model(), f"{folder}/whole.db", **policy) as whole:
            observe(whole, 0, 60)
            assert whole.state_digest() == digest


def test_a_checkpoint_writes_what_changed_and_stays_small(quick_path, small_blocks):
    with Engine.open(saved_model(), quick_path / "s.db", checkpoint_every=10_000) as engine:
        journal, written = engine._journal, []
        write = journal.write_blocks

        def counted(blocks, gone):
            blocks = list(blocks)
            written.append(sum(len(block.rows) for block in blocks))
            write(blocks, gone)

        journal.write_blocks = counted
        observe(engine, 0, 300, nodes=200)
        engine.checkpoint()
        nodes = engine.status()["nodes"]
        assert written == [stored_rows(journal)]
        for step in range(300, 400, 2):
            observe(engine, step, step + 2, nodes=200)
            engine.checkpoint()
            assert written[-1] <= 2 * 10, "8 nodes and those held from before, and as many others at most"
            assert stored_rows(journal) <= (1 + GARBAGE) * nodes + 40


def test_a_checkpoint_is_due_before_it_grows_large(quick_path, monkeypatch):
    with Engine.open(saved_model(), quick_path / "s.db") as engine:
        width, live = row_width(engine._live.state), engine._live
        monkeypatch.setattr(state_checkpoint, "MOST_BYTES", 50 * width)
        for step in range(40):
            engine.observe(
                {"src": [f"a{step}"] * 9, "dst": [f"b{step} {n}" for n in range(9)], "time": [1e9 + step] * 9}
            )
            assert np.count_nonzero(live.changed) < 50
        assert engine.status()["checkpoint"] > 30


def test_ids_are_written_with_their_rows_only(quick_path, small_blocks):
    with Engine.open(saved_model(), quick_path / "s.db", checkpoint_every=10_000) as engine:
        observe(engine, 0, 100, nodes=60)
        engine.checkpoint()
        before = engine._journal.block_numbers()
        engine.observe(("n1", "brand new", 2e9))
        engine.observe(("n1", "n2", 2e9 + 1))
        engine.checkpoint()
        fresh = [block for block in engine._journal.blocks() if block.number not in before]
        assert "brand new" in {name for block in fresh for name in block.ids}
        assert sum(len(block.ids) for block in fresh) < 20
        assert engine._journal.metadata()["checkpoint"].keys().isdisjoint({"ids", "names"})


@pytest.mark.parametrize("lost", ["first", "last"])
def test_a_missing_block_is_found_out(quick_path, small_blocks, lost):
    """Also where older copies of its rows are still there."""
    with Engine.open(saved_model(), quick_path / "s.db", checkpoint_every=3) as engine:
        observe(engine, 0, 60)
    journal = open_journal(quick_path / "s.db")
    numbers = journal.block_numbers()
    journal.run("DELETE FROM blocks WHERE number = ?", (numbers[0 if lost == "first" else -1],))
    journal.close()
    with pytest.raises(JournalError, match=rf"blocks and has \d+ in {len(numbers) - 1};.*'tapgnn migrate'"):
        Engine.open(saved_model(), quick_path / "s.db")


@pytest.mark.parametrize("version", [1, 2])
def test_a_checkpoint_of_an_earlier_format_is_read_and_the_next_one_is_of_this(place, version):
    with Engine.open(saved_model(), place, checkpoint_every=5) as engine:
        observe(engine, 0, 33)
        digest = engine.state_digest()
    make_older(place, version)
    with Engine.open(saved_model(), place, verify=True) as engine:
        assert engine.state_digest() == digest
    journal = open_journal(place)
    assert journal.metadata()["format"] == version, "reading changes nothing"
    journal.close()
    with Engine.open(saved_model(), place) as engine:
        observe(engine, 33, 40)
        assert engine._journal.metadata()["format"] == 2, "a record needs no blocks"
        digest = engine.state_digest()
    with Engine.open(saved_model(), place, verify=True) as engine:
        assert engine._journal.metadata()["format"] == 3
        assert engine.state_digest() == digest
        assert engine.erase("n3") > 0
        digest = engine.state_digest()
    with Engine.open(saved_model(), place, verify=True) as engine:
        assert engine.state_digest() == digest


def test_a_trimmed_journal_of_an_earlier_format_keeps_its_state(place):
    with Engine.open(saved_model(), place) as engine:
        observe(engine, 0, 40)
        engine.trim(30)
        digest = engine.state_digest()
    make_older(place, 2)
    with Engine.open(saved_model(), place) as engine:
        assert engine.state_digest() == digest
        engine.trim(35)
    with Engine.open(saved_model(), place, verify=True) as engine:
        assert engine.state_digest() == digest


def test_a_damaged_row_of_an_earlier_format_is_named(place):
    with Engine.open(saved_model(), place) as engine:
        observe(engine, 0, 20)
    make_older(place, 2)
    journal = open_journal(place)
    journal.run("UPDATE nodes SET data = ? WHERE place = 4", (b"\0" * 8,))
    journal.close()
    with pytest.raises(JournalError, match="row 4 of its checkpoint is damaged"):
        Engine.open(saved_model(), place)
