"""A disk that forgets on power loss: what SQLite wrote and did not sync is kept, lost, torn or out of order at random.

SQLite's files go through the system as ever. Beside them the disk keeps what the last sync of each made durable and the
writes since, so that `after_power_loss` can say at any moment what a machine would find. `broken` disks lose syncs.
"""

# SQLite's names.
# ruff: noqa: N802

import random
from pathlib import Path

import apsw

SECTOR = 512


class LossyDisk(apsw.VFS):
    """SQLite's default way to its files while the block of `with` lasts; `watch` is called before every change."""

    def __init__(self, broken=False):
        self.broken, self.durable, self.pending = broken, {}, {}
        self.syncs, self.watch = 0, lambda: None
        self.system = apsw.vfs_names()[0]
        super().__init__("lossy", self.system, makedefault=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.unregister()

    def xOpen(self, name, flags):
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return LossyFile(self, path, name, flags)

    def xDelete(self, name, sync):
        self.watch()
        super().xDelete(name, sync)
        self.durable.pop(name, None)
        self.pending.pop(name, None)

    def note(self, path, change):
        """A change that no sync has made durable yet: (offset, bytes) of a write, (size, None) of a cut."""
        self.pending.setdefault(path, []).append(change)

    def sync(self, path):
        """All changes to a file so far are durable."""
        self.syncs += 1
        if not self.broken:
            self.durable[path] = _applied(self.durable.get(path, b""), self.pending.pop(path, []))

    def after_power_loss(self, folder, seed):
        """Write the files that would be found into a folder: what is durable, and any part of what is not."""
        rng = random.Random(seed)
        for path in self.durable.keys() | self.pending.keys():
            kept = []
            chance = rng.choice([0.0, 0.5, 1.0])
            for offset, data in self.pending.get(path, []):
                if data is None:
                    kept += [(offset, None)] if rng.random() < chance else []
                    continue
                for start in range(0, len(data), SECTOR):
                    kept += [(offset + start, data[start : start + SECTOR])] if rng.random() < chance else []
            Path(folder, Path(path).name).write_bytes(_applied(self.durable.get(path, b""), kept))


class LossyFile(apsw.VFSFile):
    """A file of the disk."""

    def __init__(self, disk, path, name, flags):
        self.disk, self.path = disk, path
        super().__init__(disk.system, name, flags)

    def xWrite(self, data, offset):
        self.disk.watch()
        super().xWrite(data, offset)
        self.disk.note(self.path, (offset, bytes(data)))

    def xTruncate(self, size):
        self.disk.watch()
        super().xTruncate(size)
        self.disk.note(self.path, (size, None))

    def xSync(self, flags):
        self.disk.watch()
        super().xSync(flags)
        self.disk.sync(self.path)


def _applied(content, changes):
    found = bytearray(content)
    for offset, data in changes:
        if data is None:
            del found[offset:]
            continue
        found.extend(b"\0" * (offset - len(found)))
        found[offset : offset + len(data)] = data
    return bytes(found)
