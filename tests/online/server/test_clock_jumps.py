"""A system clock that jumps by years: the state follows the times of events alone, only tokens follow the clock."""

import shutil
import signal
import struct
import subprocess
from pathlib import Path

import pytest

from tapgnn.errors import ServerError
from tapgnn.online import Client, Engine
from tests.cli.command import started, tapgnn

YEAR = 365 * 86_400
POLICY = {"ttl": 400.0, "checkpoint_every": 3, "late": "buffer", "lateness": 30.0}


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """Sets by how many seconds the clock of processes that are started now is wrong."""
    if shutil.which("cc") is None:
        pytest.skip("shifting the clock of a process needs a C compiler")
    library, shift = tmp_path / "shifted_clock.so", tmp_path / "shift"
    source = Path(__file__).with_name("shifted_clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    shift.write_bytes(bytes(8))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("CLOCK_SHIFT", str(shift))

    def jump(seconds):
        with shift.open("r+b") as stream:
            stream.write(struct.pack("l", seconds))

    return jump


def test_a_clock_that_jumps_changes_no_state_and_stops_nothing(model, rows, clock, tmp_path):
    place, tokens = tmp_path / "state.db", tmp_path / "tokens.json"
    lasting = tapgnn("token", "new", "--scope", "write", "--file", tokens).out.strip()
    ending = tapgnn("token", "new", "--scope", "write", "--file", tokens, "--expires", "12h").out.strip()
    options = [part for name, value in POLICY.items() for part in (f"--{name.replace('_', '-')}", value)]
    process = started("serve", model, "--journal", place, "--port", 0, "--tokens", tokens, *options)
    url, refused, positions = process.stdout.readline().split()[-1], [], []
    with Client(url, lasting, producer="till") as client, Client(url, ending, patience=0) as other:
        client.wait_until_ready()
        for step, years in enumerate((0, 10, -30, 0, 100)):
            clock(years * YEAR)
            for start in range(12 * step, 12 * step + 12, 2):
                client.observe(rows[start : start + 2])
            positions.append(client.model()["status"]["checkpoint"])
            try:
                other.model()
            except ServerError as error:
                refused.append((years, error.status))
            assert client.is_ready()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert positions == sorted(set(positions)), "checkpoints went on"
    assert refused == [(10, 401), (100, 401)], "a token ends by the clock, and is valid again when that goes back"
    with Engine.open(model, place) as served, Engine.open(model, tmp_path / "calm.db", **POLICY) as calm:
        for start in range(0, 60, 2):
            calm.observe(rows[start : start + 2], "till", start // 2)
        assert served.state_digest() == calm.state_digest()
        assert served.status()["nodes"] < 60, "some were forgotten meanwhile"
