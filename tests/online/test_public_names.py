"""The public names of the live side, and what importing them costs."""

import subprocess
import sys

import tapgnn.online


def test_every_public_name_is_there_and_no_other():
    assert dir(tapgnn.online) == ["Client", "Engine", "Outcome", "Receipt", "Request", "migrate"]
    for name in dir(tapgnn.online):
        assert getattr(tapgnn.online, name).__name__ == name
    assert not hasattr(tapgnn.online, "Writer")


def test_a_client_does_not_wait_for_torch_or_the_server():
    heavy = "{'torch', 'numba', 'apsw', 'fastapi', 'httpx', 'pyarrow'}"
    program = f"import sys; from tapgnn.online import Client; print({heavy} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
