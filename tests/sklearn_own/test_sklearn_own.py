"""knoll's classes pass scikit-learn's own tests, failures explained; and the runner sees what it should."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import knoll  # noqa: E402
from tests.sklearn_own.private import private_uses  # noqa: E402
from tests.sklearn_own.registry import REGISTRY, Replacement  # noqa: E402
from tests.sklearn_own.run import EXPECTED, Outcome, reasons_for, run  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("name", REGISTRY)
def test_knoll_instead_of_scikit_learn(name):
    assert hasattr(knoll, name)
    outcome = run(REGISTRY[name])
    assert outcome.counted, "no test constructs the class: the replacement does not work"
    assert outcome.problems(reasons_for(name)) == [], outcome.summary()


def test_every_table_of_reasons_belongs_to_a_class():
    for path in EXPECTED.glob("*.toml"):
        assert path.stem in REGISTRY
        assert all(reason.strip() for reason in reasons_for(path.stem).values()), path


# ---- the runner, proved with stand-ins of known behaviour --------------------------------------------------

STANDINS = """
import sklearn.cluster

class DBSCAN(sklearn.cluster.DBSCAN):
    '''Equal to scikit-learn's in all that can be seen.'''

class Shifted(sklearn.cluster.DBSCAN):
    '''Labels one too high.'''

    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.labels_ = self.labels_ + 1
        return self
"""


@pytest.fixture(scope="module")
def standins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("standins")
    (folder / "standins.py").write_text(STANDINS)
    return folder


def in_place(name: str, folder: Path) -> Outcome:
    return run(Replacement(f"standins:{name}", "sklearn.cluster:DBSCAN", REGISTRY["DBSCAN"].tests), paths=(folder,))


def test_an_equal_class_passes_everything_that_constructs_it(standins):
    outcome = in_place("DBSCAN", standins)
    assert len(outcome.counted) >= 10
    assert outcome.ids("passed") == list(outcome.counted)
    assert outcome.problems({}) == []
    assert "test_dbscan.py::test_pickle" in outcome.counted
    # The others are about the function dbscan() alone, which builds scikit-learn's own class.
    assert outcome.others >= 10
    assert "test_dbscan.py::test_boundaries" not in outcome.counted


INSIDE = """
import pytest
import sklearn.cluster
from sklearn.cluster import DBSCAN
from sklearn.cluster._dbscan import DBSCAN as SAME

def test_constructs(): assert DBSCAN().eps == 0.5
def test_private(): assert SAME()._get_param_names()
def test_private_fails(): DBSCAN()._no_such_name
def test_constructs_nothing(): pass
def test_scikit_learn_keeps_its_own(): assert DBSCAN() and sklearn.cluster.DBSCAN is not DBSCAN is SAME
@pytest.mark.parametrize("cls", [DBSCAN])
def test_class(cls): assert cls.__module__ == "standins" and cls()
@pytest.mark.parametrize("model", [DBSCAN()])
def test_instance(model): assert model.eps == 0.5
@pytest.mark.xfail
def test_xfailed(): assert DBSCAN() is None
@pytest.fixture
def model(): return DBSCAN()
def test_fixture(model): assert model.eps == 0.5
"""


def test_what_is_counted_and_what_is_listed_apart(standins, tmp_path):
    (tmp_path / "test_inside.py").write_text(INSIDE)
    own = Replacement("standins:DBSCAN", "sklearn.cluster:DBSCAN", ("test_inside",))
    outcome = run(own, paths=(standins, tmp_path))
    names = {test.partition("::")[2]: record["outcome"] for test, record in outcome.counted.items()}
    assert names == {
        "test_constructs": "passed",
        "test_scikit_learn_keeps_its_own": "passed",
        "test_class[DBSCAN]": "passed",
        "test_instance[model0]": "passed",
        "test_xfailed": "xfailed",
        "test_fixture": "passed",
    }
    apart = {test: (record["outcome"], record["private"]) for test, record in outcome.private.items()}
    assert apart == {
        "test_inside.py::test_private": ("passed", ["._get_param_names"]),
        "test_inside.py::test_private_fails": ("failed", ["._no_such_name"]),
    }
    assert outcome.others == 1
    assert outcome.problems({}) == []  # a test of scikit-learn's inside is shown, not held against us
    assert outcome.summary() == (
        "6 tests construct the class: 5 passed, 1 xfailed; apart, 2 also use private names (1 pass); "
        "1 others never construct it"
    )


def test_a_broken_class_is_caught_and_its_failures_can_be_explained(standins):
    outcome = in_place("Shifted", standins)
    failed = outcome.ids("failed")
    assert failed
    assert set(failed) < set(outcome.counted)  # those that look at no labels still pass
    assert "without a reason: AssertionError" in outcome.problems({})[0]
    assert outcome.problems(dict.fromkeys(failed, "labels begin at one")) == []


def test_pytest_that_cannot_run_is_an_error(tmp_path):
    replacement = Replacement("sklearn.cluster:DBSCAN", "sklearn.cluster:DBSCAN", ("sklearn.no_such_test",))
    with pytest.raises(RuntimeError, match="pytest ended with 4"):
        run(replacement)


def test_reasons_are_checked_both_ways():
    def record(outcome: str) -> dict[str, str]:
        return {"outcome": outcome, "message": "AssertionError: 1 == 2"}

    outcome = Outcome(
        counted={"t.py::a": record("passed"), "t.py::b[1]": record("failed"), "t.py::b[2]": record("failed")}
    )
    assert outcome.problems({"t.py::b": "why"}) == []
    assert outcome.problems({"t.py::b[1]": "why"}) == ["t.py::b[2]: fails without a reason: AssertionError: 1 == 2"]
    assert outcome.problems({"t.py::b": "why", "t.py::a": "why"}) == [
        "t.py::a: passes, but a reason is given why it fails; take the reason out"
    ]
    assert outcome.problems({"t.py::b": "why", "t.py::gone": "why"}) == [
        "t.py::gone: has a reason, but no such test constructs the class"
    ]
    outcome.counted["t.py::b[2]"] = record("passed")
    assert len(outcome.problems({"t.py::b": "why"})) == 1


def test_private_use_is_seen_through_helpers_fixtures_constants_and_strings():
    source = textwrap.dedent(
        """
        import sklearn
        from sklearn.cluster import KMeans
        from sklearn.cluster._kmeans import _labels_inertia
        from sklearn.datasets._samples_generator import make_blobs
        from sklearn.utils._testing import assert_allclose

        TABLE = [_labels_inertia]

        @pytest.fixture
        def prepared():
            return _labels_inertia

        def helper(model):
            return model._n_threads

        def test_public(): assert_allclose(KMeans().fit(make_blobs()[0]).__class__, 0)
        def test_name(): _labels_inertia()
        def test_attribute(): KMeans()._init_centroids()
        def test_helper(): helper(KMeans())
        def test_fixture(prepared): KMeans()
        @pytest.mark.parametrize("f", TABLE)
        def test_constant(f): KMeans()
        def test_string(monkeypatch): monkeypatch.setattr("sklearn.cluster._kmeans.lloyd", None)
        def test_module(): sklearn.cluster._kmeans
        def test_inner():
            from sklearn.mixture._gaussian_mixture import _estimate_log_gaussian_prob
        class TestGroup:
            def test_method(self): KMeans()._tol
        """
    )
    uses = private_uses(source)
    inertia = ["sklearn.cluster._kmeans._labels_inertia"]
    assert uses == {
        "prepared": inertia,
        "helper": ["._n_threads"],
        "test_public": [],
        "test_name": inertia,
        "test_attribute": ["._init_centroids"],
        "test_helper": ["._n_threads"],
        "test_fixture": inertia,
        "test_constant": inertia,
        "test_string": ["sklearn.cluster._kmeans"],
        "test_module": ["._kmeans"],
        "test_inner": ["sklearn.mixture._gaussian_mixture._estimate_log_gaussian_prob"],
        "TestGroup::test_method": ["._tol"],
    }


@pytest.mark.parametrize("name", REGISTRY)
def test_the_registry_points_at_what_scikit_learn_ships(name):
    module, _, attribute = REGISTRY[name].theirs.partition(":")
    assert hasattr(importlib.import_module(module), attribute)
    uses: dict[str, list[str]] = {}
    for tests in REGISTRY[name].tests:
        spec = importlib.util.find_spec(tests)
        assert spec is not None, f"scikit-learn ships no {tests}"
        uses |= private_uses(Path(str(spec.origin)).read_text(encoding="utf-8"))
    public = [test for test, found in uses.items() if test.startswith("test_") and not found]
    assert len(public) >= 8, "nearly all tests look private: the analysis went wrong"


def test_the_command_names_an_unknown_class():
    command = [sys.executable, "-m", "tests.sklearn_own", "KMedians"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("KMedians is not in the registry; it holds KMeans,")
