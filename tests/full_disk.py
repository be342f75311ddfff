"""A disk of its own that is full after so many bytes: a file system in memory, which only root can make."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder, size):
    """Mount a file system of `size` bytes on a folder until the block ends; skips the test where that is refused."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("a small disk needs root on Linux")
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
