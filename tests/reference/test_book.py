"""The reference as a book: its names, its examples, its length, and the pages that speak of it."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

from knoll import reference

HERE = Path(__file__).parent
THEORY = HERE.parents[1] / "docs" / "theory"
BOXES = [
    "gaussian_mle",
    "em_gmm",
    "kmeans",
    "weighted_kernel_kmeans",
    "njw_spectral",
    "njw_spectral_graph",
    "dbscan_spectral",
    "dbscan_graph",
    "dbscan_climbing",
    "mean_shift",
]
OURS = [
    "dbscan_regions",
    "density_tree",
    "hdbscan",
    "genie",
    "tree_centers",
    "em_mixed",
    "kprototypes",
]  # of the paper's future work, and beyond
LINKAGES = ["ward", "average_linkage", "complete_linkage", "single_linkage"]  # one box, four costs
POSITIONAL = {
    "gaussian_mle": ["X"],
    "em_gmm": ["X", "pi", "mu", "Sigma"],
    "kmeans": ["X", "mu"],
    "weighted_kernel_kmeans": ["K", "labels", "w"],
    "njw_spectral": ["X", "k", "sigma"],
    "njw_spectral_graph": ["X", "k", "sigma"],
    "dbscan_spectral": ["X", "eps", "min_pts"],
    "dbscan_graph": ["X", "eps", "min_pts"],
    "dbscan_climbing": ["X", "eps", "min_pts"],
    "dbscan_regions": ["X", "eps", "min_pts", "cuts"],
    "mean_shift": ["X", "eps"],
    "density_tree": ["X", "min_pts"],
    "hdbscan": ["X", "min_pts", "min_cluster_size"],
    "genie": ["X", "min_pts", "gini"],
    "tree_centers": ["X", "min_pts", "power"],
    "kprototypes": ["X", "codes", "means", "modes", "gamma"],
    "em_mixed": ["X", "codes", "pi", "mu", "Sigma", "theta"],
    **{box: ["X"] for box in LINKAGES},
}
MODULES = [f"knoll.reference.{m.name}" for m in pkgutil.iter_modules(reference.__path__)]


def test_public_names():
    public = [n for n in reference.__all__ if not n.endswith("State")]
    others = ["column_type", "counted", "dbcv", "encode_mixed", "gower", "run", "silhouette"]
    assert sorted(public) == sorted([*BOXES, *OURS, *LINKAGES, *others])
    assert all(hasattr(reference, n) for n in reference.__all__)


@pytest.mark.parametrize("box", [*BOXES, *OURS, *LINKAGES])
def test_signatures_are_frozen(box):
    parameters = inspect.signature(getattr(reference, box)).parameters.values()
    assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == POSITIONAL[box]


@pytest.mark.parametrize("module", MODULES)
def test_examples(module):
    results = doctest.testmod(importlib.import_module(module))
    assert results.failed == 0


@pytest.mark.parametrize("box", [*BOXES, *OURS, *LINKAGES])
def test_a_box_has_an_example_and_is_short(box):
    assert ">>>" in getattr(reference, box).__doc__
    home, steps = ("linkage", "merge") if box in LINKAGES else (box, box)
    module = importlib.import_module(f"knoll.reference._{home}")
    body = inspect.getsource(getattr(module, f"_{steps}")).splitlines()
    assert len([line for line in body if line.strip()]) <= 40


def test_imports_stay_inside():
    allowed = {"numpy", "scipy", "knoll.exceptions", "knoll._typing"}
    for path in Path(reference.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module]
            for name in names:
                home = name.split(".")[0]
                assert name.startswith("knoll.reference") or name in allowed or home in allowed | {
                    "__future__", "collections", "contextvars", "datetime", "itertools", "math", "numbers", "re",
                    "typing",
                }, (path.name, name)  # fmt: skip


def errata_tests():
    found = set()
    for path in HERE.glob("test_errata_*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.add(f"tests/reference/{path.name}::{node.name}")
    return found


def test_errata_names_every_test_and_no_other():
    text = (THEORY / "errata.md").read_text(encoding="utf-8")
    named = set(re.findall(r"tests/reference/test_\w+\.py::\w+", text))
    assert named == errata_tests()


def test_errata_has_its_29_items_each_with_a_test():
    text = (THEORY / "errata.md").read_text(encoding="utf-8")
    items = re.split(r"^### (\d+)\. ", text, flags=re.MULTILINE)
    assert [int(i) for i in items[1::2]] == list(range(1, 30))
    for number, body in zip(items[1::2], items[2::2]):
        assert f"::test_{int(number):02d}_" in body, number


def test_every_equation_cited_in_the_reference_is_in_the_notation_page():
    known = set(re.findall(r"\b\d\.\d+\b", (THEORY / "notation.md").read_text(encoding="utf-8")))
    for path in Path(reference.__file__).parent.glob("*.py"):
        for cited in re.findall(r"eq\. ([\d., to]+)", path.read_text(encoding="utf-8")):
            for number in re.findall(r"\d\.\d+", cited):
                assert number in known, (path.name, number)
