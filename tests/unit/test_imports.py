"""Imports between packages follow one table, there is no cycle, and importing knoll stays light.

The table is below and in CONTRIBUTING.md, which a test keeps equal to it. Imports are read from the source with
``ast``. Imports inside functions count as much as those at the top, and so do ``from knoll import Name``,
``knoll.Name`` and ``import_module("knoll.name")``; only what stands under ``if TYPE_CHECKING:`` is left out, since it
never runs.
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

# The modules of other families that a family may import.
FAMILIES: dict[str, tuple[str, ...]] = {
    "gaussian": (),
    "kmeans": (),
    "density": (),
    "hierarchy": ("density.reachability",),
    "mixture": ("gaussian.covariance", "gaussian.moments", "gaussian.steps", "kmeans.lloyd"),
    "spectral": ("kmeans.assignment", "kmeans.lloyd"),
    "kernel_kmeans": ("kmeans.lloyd", "spectral.eigen"),
}
# From the bottom up: a package may import from its own layer (but families by the table above) and from lower ones.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("_core",),
    ("exceptions", "_typing"),
    ("_format", "_schema", "_system"),
    ("validation",),
    ("base", "_common"),
    ("engines",),
    ("kernels", "neighbors"),
    ("metrics", "scales"),
    tuple(FAMILIES),
    ("registry",),
    ("tables", "tuning", "models"),
    ("blocks",),
    ("relations", "explanation"),
    ("comparison",),
    ("plots",),
    ("report",),
    ("explorer",),
    ("cli", "__main__"),
)
ALONE = ("datasets", "reference")  # these import exceptions and _typing only
USERS_OF_ALONE = ("relations", "comparison", "plots", "report", "explorer", "cli")
# What a result does for people is loaded from above when it is called, and by these modules alone.
LATE: dict[str, tuple[str, ...]] = {"comparison.result": ("plots.scatter", "report.comparison", "explorer.hosts")}
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
PACKAGES = {*LAYER, *ALONE}


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
    """The file that is meant: knoll.Gaussian lives in knoll.gaussian, _common.loop.iterate in _common.loop."""
    parts = name.split(".")
    if parts[1] in knoll._HOME:
        return str(knoll._HOME[parts[1]])
    if parts[-1] == "*":  # computed when it runs
        return name
    files = (".".join(parts[:length]) for length in range(len(parts), 1, -1))
    nearest = next((file for file in files if file in FILES), None)
    own = parts[1].startswith("__")  # such as knoll.__version__
    return nearest or ("knoll" if own else f"knoll.{parts[1]}")


def package(module: str) -> str:
    return module.split(".")[1]


IMPORTS = {
    module: runtime_imports(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")
    for module, path in FILES.items()
}


def breach(module: str, target: str) -> str | None:
    """Why a module may not import another, or None."""
    here, there = package(module), package(target)
    if here == there or target.removeprefix("knoll.") in LATE.get(module.removeprefix("knoll."), ()):
        return None
    if there not in PACKAGES:
        return f"{there} is not in the table"
    if here in ALONE:
        return None if there in LAYERS[1] else f"{here} imports exceptions and _typing only"
    if there in ALONE:
        return None if here in USERS_OF_ALONE else f"{here} may not import {there}"
    if here in FAMILIES and there in FAMILIES:
        allowed = target.removeprefix("knoll.") in FAMILIES[here]
        return None if allowed else f"{here} may import {FAMILIES[here] or 'nothing'} of the other families"
    return None if LAYER[there] <= LAYER[here] else f"{there} is above {here}"


def test_every_file_is_in_the_table():
    assert [name for name in FILES if name != "knoll" and package(name) not in PACKAGES] == []


def test_imports_follow_the_table():
    breaches = [
        f"{module} imports {target}: {reason}"
        for module, targets in IMPORTS.items()
        if module != "knoll"
        for target in sorted(targets)
        if (reason := breach(module, target))
    ]
    assert breaches == []


def test_the_table_lists_nothing_that_is_not_imported():
    used = {target.removeprefix("knoll.") for module in IMPORTS if module != "knoll" for target in IMPORTS[module]}
    listed = [name for names in (*FAMILIES.values(), *LATE.values()) for name in names]
    assert [name for name in listed if name not in used] == []


def table() -> str:
    """The table as CONTRIBUTING.md prints it."""
    rows = ["| layer | packages |", "|---|---|"]
    rows += [f"| {number} | {', '.join(f'`{name}`' for name in names)} |" for number, names in enumerate(LAYERS)]
    rows += ["", "| family | may import of other families |", "|---|---|"]
    for family, names in FAMILIES.items():
        rows.append(f"| `{family}` | {', '.join(f'`{name}`' for name in names) or '–'} |")
    rows += ["", "| module | may import from above, when it is called |", "|---|---|"]
    rows += [f"| `{module}` | {', '.join(f'`{name}`' for name in names)} |" for module, names in LATE.items()]
    return "\n".join(rows)


def test_contributing_prints_the_table():
    assert table() in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_types_of_arrays_are_named_in_one_module():
    named = re.compile(r"^\w+ = NDArray\[", re.MULTILINE)
    assert [name for name, path in FILES.items() if named.search(path.read_text("utf-8"))] == ["knoll._typing"]


def test_there_is_no_cycle():
    graph = {
        module: {
            target
            for target in targets
            if target in FILES
            and target != module
            and target.removeprefix("knoll.") not in LATE.get(module.removeprefix("knoll."), ())
        }
        for module, targets in IMPORTS.items()
        if module != "knoll"
    }
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_package_itself_imports_nothing_when_it_is_imported():
    assert IMPORTS["knoll"] <= {"knoll.*"}


def test_each_rule_can_be_broken():
    """Each rule is seen to fail, so that the tests above are known to be able to."""
    assert breach("knoll.kmeans.lloyd", "knoll._common.loop") is None
    assert breach("knoll.plots.points", "knoll.metrics") is None
    assert breach("knoll.spectral.labels", "knoll.kmeans.lloyd") is None
    assert breach("knoll._common.loop", "knoll.kmeans.lloyd") == "kmeans is above _common"
    assert "of the other families" in str(breach("knoll.spectral.labels", "knoll.kmeans.estimator"))
    assert "may import nothing" in str(breach("knoll.kmeans.lloyd", "knoll.spectral.eigen"))
    assert breach("knoll.metrics", "knoll.validation") is None
    assert breach("knoll.metrics", "knoll.kmeans") == "kmeans is above metrics"
    assert breach("knoll.datasets", "knoll.validation") == "datasets imports exceptions and _typing only"
    assert breach("knoll.kmeans.lloyd", "knoll.reference") == "kmeans may not import reference"
    assert breach("knoll.kmeans.lloyd", "knoll.attic") == "attic is not in the table"
    assert breach("knoll.comparison.result", "knoll.report.comparison") is None
    assert breach("knoll.comparison.engine", "knoll.report.comparison") == "report is above comparison"
    source = """
import importlib, knoll, knoll.metrics as m
from typing import TYPE_CHECKING
from . import lloyd
from .._common.loop import iterate
if TYPE_CHECKING:
    from knoll.report import page
else:
    from knoll import scales
def inner():
    from knoll import Gaussian
    importlib.import_module("knoll.cli")
    importlib.import_module(f"knoll.{name}")
    return knoll.show_build, knoll.__version__
"""
    assert runtime_imports(source, "knoll.kmeans.estimator", is_package=False) == {
        "knoll.metrics",
        "knoll.kmeans.lloyd",
        "knoll._common.loop",
        "knoll.scales",
        "knoll.gaussian",
        "knoll.cli",
        "knoll.*",
        "knoll._system",
    }


def test_one_module_takes_numbers_apart():
    """Extreme numbers are brought near one by `_common/rescale.py`, and by no family in a way of its own."""
    users = {name for name, path in FILES.items() if re.search(r"\b(ldexp|frexp)\b", path.read_text(encoding="utf-8"))}
    assert users == {"knoll._common.rescale"}


def test_the_core_knows_no_python():
    files = [p for p in (ROOT / "core").rglob("*.*") if "bindings" not in p.parts]
    assert len(files) > 10
    mention = re.compile(r"Python\.h|nanobind|pybind|PyObject")
    assert [str(p) for p in files if mention.search(p.read_text(encoding="utf-8"))] == []


# ---- what an import loads --------------------------------------------------------------------------------

HEAVY = ("numpy", "scipy", "sklearn", "matplotlib", "pandas", "joblib", "knoll._core")
HELP = "import sys; sys.argv = ['knoll', '--help']; from knoll.cli import main; assert main() == 0"


@pytest.mark.parametrize(
    "code", ["import knoll", "import knoll; dir(knoll); knoll.__version__", "import knoll.cli", HELP]
)
def test_imports_are_light(code):
    listing = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert "knoll" in loaded
    assert loaded.isdisjoint(HEAVY)
