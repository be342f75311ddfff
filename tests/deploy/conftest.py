"""The files of deploy/, and a server to compare them with."""

from pathlib import Path

import pytest
import yaml

from tests.online.conftest import fitted, model, rows, server  # noqa: F401

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="session")
def dockerfile():
    """The instructions of the Dockerfile, each with its continued lines, without comments."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    return [line.split(maxsplit=1) for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line]


@pytest.fixture(scope="session")
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


@pytest.fixture(scope="session")
def unit():
    """The settings of the systemd unit, those that are given."""
    lines = [line for line in (DEPLOY / "tapgnn.service").read_text().splitlines() if "=" in line and line[0] != "#"]
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture(scope="session")
def kubernetes():
    """The container in the pod."""
    objects = {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
    (container,) = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return container
