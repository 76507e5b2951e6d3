"""Imports go one way through the house, every file knows its room, and the doors stay light.

The law is read from the source with ``ast``. Imports inside functions count as much as those at the top, and
so do ``from knoll import Name``, ``knoll.Name`` and ``import_module("knoll.name")``; only what stands under
``if TYPE_CHECKING:`` is left out, since it never runs.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import knoll

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "knoll"

# From the ground up: a room may import from its own level and from those listed before it.
LEVELS = (
    ("_core",),
    ("exceptions", "validation", "threads", "memory", "schema", "base", "build"),
    ("kernels", "kernel_matrix", "covariance", "places", "seeding", "scales"),
    ("steps",),
    ("gaussian", "gaussian_mixture", "kmeans", "kernel_kmeans", "spectral", "dbscan", "mean_shift"),
    ("tuning", "models"),
    ("relations",),
    ("comparison",),
    ("plots",),
    ("report",),
    ("cli", "__main__"),
)
ESTIMATORS = LEVELS[4]  # these never import each other, only steps
BESIDE = ("metrics", "datasets", "reference")  # these import exceptions alone
USERS_OF_BESIDE = ("relations", "comparison", "plots", "report", "cli")
LEVEL = {room: number for number, rooms in enumerate(LEVELS) for room in rooms}
ROOMS = {*LEVEL, *BESIDE}


def module_name(path: Path) -> str:
    parts = ("knoll", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def is_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in {getattr(test, "id", None), getattr(test, "attr", None)}


def running(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that can run."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and is_type_checking(child.test):
            for otherwise in child.orelse:
                yield from running(otherwise)
        else:
            yield from running(child)


def runtime_imports(source: str, module: str, is_package: bool) -> set[str]:
    """Full names, below knoll, of what the source imports when it runs."""
    found: set[str] = set()
    aliases = set()  # names under which the package itself is known
    nodes = list(running(ast.parse(source)))
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.add(alias.name)
                if alias.name == "knoll" or (alias.name.startswith("knoll.") and alias.asname is None):
                    aliases.add(alias.asname or "knoll")
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, *filter(None, [node.module])])
            found.update(f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func) and node.args:
            if isinstance(node.args[0], ast.Constant):
                found.add(str(node.args[0].value))
            elif "knoll" in ast.unparse(node.args[0]):
                found.add(re.sub(r"\{.*", "*", ast.unparse(node.args[0]).strip("f'\"")))
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            found.add(f"knoll.{node.attr}")
    return {resolved(name) for name in found if name.startswith("knoll.")} - {"knoll"}


def resolved(name: str) -> str:
    """The file that is meant: knoll.Gaussian lives in knoll.gaussian, steps.loop.iterate in steps.loop."""
    parts = name.split(".")
    if parts[1] in knoll._HOME:
        return str(knoll._HOME[parts[1]])
    if parts[-1] == "*":  # computed when it runs
        return name
    files = (".".join(parts[:length]) for length in range(len(parts), 1, -1))
    nearest = next((file for file in files if file in FILES), None)
    door = parts[1].startswith("__")  # such as knoll.__version__
    return nearest or ("knoll" if door else f"knoll.{parts[1]}")


def room(module: str) -> str:
    return module.split(".")[1]


IMPORTS = {
    module: runtime_imports(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")
    for module, path in FILES.items()
}


def breach(here: str, there: str) -> str | None:
    """Why a file in room ``here`` may not import from room ``there``, or None."""
    if here == there:
        return None
    if there not in ROOMS:
        return f"{there} is no room of the house"
    if here in BESIDE:
        return None if there == "exceptions" else f"{here} stands beside and imports exceptions alone"
    if there in BESIDE:
        return None if here in USERS_OF_BESIDE else f"{here} may not lean on {there}"
    if here in ESTIMATORS and there in ESTIMATORS:
        return "estimators never import each other"
    return None if LEVEL[there] <= LEVEL[here] else f"{there} lies above {here}"


def test_every_file_has_a_room():
    strangers = [name for name in FILES if name != "knoll" and room(name) not in ROOMS]
    assert strangers == [], "put them into LEVELS or BESIDE"


def test_imports_go_one_way():
    breaches = [
        f"{module} imports {target}: {reason}"
        for module, targets in IMPORTS.items()
        if module != "knoll"
        for target in sorted(targets)
        if (reason := breach(room(module), room(target)))
    ]
    assert breaches == []


def test_no_file_imports_itself_by_a_detour():
    graph = {
        module: {target for target in targets if target in FILES and target != module}
        for module, targets in IMPORTS.items()
        if module != "knoll"
    }
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_public_door_imports_no_room_by_itself():
    assert IMPORTS["knoll"] <= {"knoll.*"}


def test_the_law_can_be_broken():
    """Each rule is seen to bite, so that the tests above are known to be able to fail."""
    assert breach("kmeans", "steps") is None
    assert breach("plots", "metrics") is None
    assert breach("steps", "kmeans") == "kmeans lies above steps"
    assert breach("spectral", "kmeans") == "estimators never import each other"
    assert breach("metrics", "validation") == "metrics stands beside and imports exceptions alone"
    assert breach("kmeans", "reference") == "kmeans may not lean on reference"
    assert breach("kmeans", "attic") == "attic is no room of the house"
    source = """
import importlib, knoll, knoll.metrics as m
from typing import TYPE_CHECKING
from . import exceptions
from .steps.loop import iterate
if TYPE_CHECKING:
    from knoll.report import page
else:
    from knoll import threads
def inner():
    from knoll import Gaussian
    importlib.import_module("knoll.cli")
    importlib.import_module(f"knoll.{name}")
    return knoll.show_build, knoll.__version__
"""
    assert runtime_imports(source, "knoll.kmeans", is_package=False) == {
        "knoll.metrics",
        "knoll.exceptions",
        "knoll.steps.loop",
        "knoll.threads",
        "knoll.gaussian",
        "knoll.cli",
        "knoll.*",
        "knoll.build",
    }


def test_the_core_knows_no_python():
    files = [p for folder in ("include", "src", "tests") for p in (ROOT / "core" / folder).rglob("*.*")]
    assert len(files) > 10
    mention = re.compile(r"Python\.h|nanobind|pybind|PyObject")
    assert [str(p) for p in files if mention.search(p.read_text(encoding="utf-8"))] == []


# ---- what is loaded when a door is opened ---------------------------------------------------------------

HEAVY = ("numpy", "scipy", "sklearn", "matplotlib", "pandas", "joblib", "knoll._core")
HELP = "import sys; sys.argv = ['knoll', '--help']; from knoll.cli import main; assert main() == 0"


@pytest.mark.parametrize(
    "code", ["import knoll", "import knoll; dir(knoll); knoll.__version__", "import knoll.cli", HELP]
)
def test_the_doors_are_light(code):
    ask = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert "knoll" in loaded
    assert loaded.isdisjoint(HEAVY)
