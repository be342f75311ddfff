"""Power loss: every acknowledged batch was synced, whatever of the unsynced writes reached the disk."""

import random
import shutil

import numpy as np
import pytest

from tapgnn.errors import JournalError
from tapgnn.online import Engine
from tapgnn.online.journal import sqlite, state_checkpoint

from ..live import saved_model
from .lossy_disk import LossyDisk

POLICY = {"late": "buffer", "lateness": 2.0, "ttl": 40.0}


def batch(step):
    rng = np.random.default_rng(step)
    src, dst = rng.integers(0, 12, (2, 3)).tolist()
    return {"src": src, "dst": dst, "time": (1e9 + step + rng.choice([-1.5, 0.0, 0.5], 3)).tolist()}


class Machine:
    """An engine on a lossy disk, and the power losses at random moments of its life.

    `digests` are those after each acknowledgement; a loss remembers how many there were.
    """

    def __init__(self, folder, disk, losses, seed):
        self.folder, self.disk, self.losses, self.rng = folder, disk, losses, random.Random(seed)
        self.digests, self.seen = [], []

    def maybe_lose_power(self, chance):
        if len(self.seen) < self.losses and self.rng.random() < chance:
            place = self.folder / f"loss{len(self.seen)}"
            place.mkdir()
            self.disk.after_power_loss(place, len(self.seen))
            # Nobody syncs this one: it may be older or as new as it gets.
            head = self.folder / "s.db-head"
            if head.exists() and self.rng.random() < 0.5:
                shutil.copy(head, place)
            self.seen.append((place, len(self.digests)))

    def live(self, steps):
        with Engine.open(saved_model(), self.folder / "s.db", checkpoint_every=4, **POLICY) as engine:
            self.disk.watch = lambda: self.maybe_lose_power(0.05)
            self.digests.append(engine.state_digest())
            for step in range(steps):
                engine.observe(batch(step), "source", step)
                self.digests.append(engine.state_digest())
                self.maybe_lose_power(0.3)
                if step % 17 == 16:
                    engine.erase(step % 12)
                    self.digests.append(engine.state_digest())
            self.disk.watch = lambda: None

    def lost(self):
        """What was acknowledged and is not there after a loss, or is there in another state."""
        found = []
        for place, acknowledged in self.seen:
            try:
                with Engine.open(saved_model(), place / "s.db", verify=True, **POLICY) as engine:
                    digest = engine.state_digest()
            except JournalError as error:
                found.append(str(error))
                continue
            # What was under way at that moment may have happened or not.
            if acknowledged and digest not in self.digests[acknowledged - 1 : acknowledged + 1]:
                found.append(f"the state after {acknowledged} acknowledgements is another one")
        return found


@pytest.fixture
def machine(quick_path, monkeypatch, request):
    monkeypatch.setattr(state_checkpoint, "BLOCK", 4_000)
    with LossyDisk(broken=getattr(request, "param", False)) as disk:
        yield Machine(quick_path, disk, losses=60, seed=0)


def test_power_loss_at_any_moment_loses_nothing_that_was_acknowledged(machine):
    machine.live(60)
    assert len(machine.seen) == 60
    assert machine.lost() == []


def test_every_acknowledged_batch_was_synced(machine):
    with Engine.open(saved_model(), machine.folder / "s.db", checkpoint_every=4, **POLICY) as engine:
        for step in range(40):
            before = machine.disk.syncs
            engine.observe(batch(step), "source", step)
            assert machine.disk.syncs > before
            assert not machine.disk.pending.get(f"{machine.folder}/s.db-wal")


@pytest.mark.parametrize("machine", [True], indirect=True)
def test_a_disk_that_loses_syncs_is_caught(machine):
    """The control: with a sync that does nothing, the same losses lose batches."""
    machine.live(60)
    assert len(machine.lost()) > 20


def test_a_journal_that_does_not_sync_is_caught(machine, monkeypatch):
    """The other control: the library without its setting."""
    unsynced = tuple(text.replace("synchronous = FULL", "synchronous = OFF") for text in sqlite._SETTINGS)
    assert unsynced != sqlite._SETTINGS
    monkeypatch.setattr(sqlite, "_SETTINGS", unsynced)
    machine.live(60)
    assert len(machine.lost()) > 20
