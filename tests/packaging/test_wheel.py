"""The wheel: what is in it, what it asks for, and that a typed program can be written against it."""

import re
import subprocess
import sys
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

import tapgnn

ROOT = Path(__file__).parents[2]
# What only extras may bring: web servers, clusters, libraries of other methods.
EXTRA = {"fastapi", "uvicorn", "starlette", "httpx", "apsw", "ray", "torch-geometric", "gensim", "psycopg", "mlflow"}
# What is compiled on the machine where it runs.
MADE = {".nbi", ".nbc", ".pyc"}
CONSUMER = """
from tapgnn import TAPGNN, Events
from tapgnn.data import read_events

def best(path: str) -> float:
    log: Events = read_events(path)
    model: TAPGNN = TAPGNN(epochs=1).fit(log)
    return model.rank("a", k=1)[0][1] if len(log) else 0.0

reveal_type(Events.from_arrays([1], [2], [3.0]))
wrong: int = TAPGNN()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    build = f"import hatchling.build; print(hatchling.build.build_wheel({str(folder)!r}))"
    made = subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True, text=True)
    return folder / made.stdout.split()[-1]


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as content:
        name = next(name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(content.read(name).decode())


def test_the_bare_wheel_asks_for_no_server_no_cluster_and_no_other_method(metadata):
    bare = [each for each in metadata.get_all("Requires-Dist") if "extra ==" not in each]
    names = {re.match(r"[\w.-]+", each)[0].lower() for each in bare}
    assert {"torch", "numpy", "numba", "polars"} <= names
    assert not names & EXTRA


def test_the_wheel_holds_the_package_alone_with_its_types_and_its_pages(wheel):
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"tapgnn"}
    assert "tapgnn/py.typed" in names
    sources = [path for path in (ROOT / "src/tapgnn").rglob("*") if path.is_file() and path.suffix not in MADE]
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in sources}
    assert wanted <= set(names)
    assert not [name for name in names if Path(name).suffix in MADE]


def test_every_version_that_is_named_is_the_same(metadata):
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert metadata["Version"] == tapgnn.__version__ == cited[1]


def test_every_dependency_is_pinned_and_has_a_lowest_version_that_was_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    pins, lowest = (dict(pinned(ROOT / name)) for name in ("constraints.txt", "constraints-lowest.txt"))
    for each in (*project["dependencies"], *(one for extra in extras.values() for one in extra)):
        name = canonical(re.match(r"[\w.-]+", each)[0])
        assert name == "tapgnn" or name in pins, each
    for each in (*project["dependencies"], *extras["serve"]):
        name, bound = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)", each).groups()
        if name != "torch":
            assert same(lowest[canonical(name)], bound), each


def pinned(path):
    for line in path.read_text().splitlines():
        if "==" in line and not line.startswith("#"):
            name, version = line.split("==")
            yield canonical(name), version


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def same(version, bound):
    """Whether a version is the first one of a bound: 1.20.0 of 1.20."""
    return re.fullmatch(rf"{re.escape(bound)}(\.0)*", version) is not None


def test_a_typed_program_is_checked_against_the_installed_package(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (packages,) = (tmp_path / "env/lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(packages)
    # Its dependencies are those of this environment, without the tapgnn that is installed there.
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(ours))
    (tmp_path / "consumer.py").write_text(CONSUMER)
    python = str(tmp_path / "env/bin/python")
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "consumer.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    told = done.stdout.splitlines()
    assert [line.split(": ", 1)[1] for line in told[:-1]] == [
        'note: Revealed type is "tapgnn.events.Events"',
        'error: Incompatible types in assignment (expression has type "TAPGNN", variable has type "int")  [assignment]',
    ], done.stdout
