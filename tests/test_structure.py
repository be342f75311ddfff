"""What must stay in one place (the recurrence, the choice of a backend, what a kernel is asked for), and the layout."""

import re
from pathlib import Path

import pytest

import tapgnn

ROOT = Path(tapgnn.__file__).parent
SOURCES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(ROOT.rglob("*.py"))}
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
KERNELS = "Adaptive|Attention|GCN|Mean|MeanWithSelf|Pool"
PLACES = {
    r"def advance\(": ["model/model.py"],
    r"\bdevice\.type\b|\bis_cuda\b|\bis_grad_enabled\(": ["model/backend.py"],
    rf"isinstance\([^)]*\b({KERNELS})\b": [],
}


@pytest.mark.parametrize("pattern", PLACES)
def test_it_stands_in_one_place(pattern):
    found = [name for name, text in SOURCES.items() if re.search(pattern, text) and not name.startswith("baselines/")]
    assert found == PLACES[pattern]


def test_no_two_classes_have_one_name():
    names = [name for text in SOURCES.values() for name in re.findall(r"^class (\w+)", text, re.MULTILINE)]
    assert sorted(names) == sorted(set(names))


def test_the_layout_names_every_module_and_package():
    layout = CONTRIBUTING.read_text().partition("    src/tapgnn/\n")[2].partition("    tests/ ")[0]
    modules = {path.name for path in ROOT.glob("*.py") if path.name != "__init__.py"}
    packages = {f"{path.parent.name}/" for path in ROOT.glob("*/__init__.py")}
    assert modules | packages == set(re.findall(r"^ {6}(\S+)", layout, re.MULTILINE))
