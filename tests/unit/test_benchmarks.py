"""The benchmark runner: fresh processes that take turns, one judge, no ratio for a worse answer, true memory.

The contestants here are tiny fakes in a registry of their own, so that every figure has a known answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.between import line_of, names_of, seconds_of  # noqa: E402
from benchmarks.case import Case, Contestant, Target, load, no_larger, register, select  # noqa: E402
from benchmarks.machine import THREAD_VARIABLES, describe, missing, thread_environment, versions  # noqa: E402
from benchmarks.runner import Outcome, run_case  # noqa: E402
from benchmarks.tables import cells, text_table, write  # noqa: E402

FAKES = """
import os, signal, time
import numpy as np
from benchmarks.case import Case, Contestant, Target, no_larger, register

def total(pause=0.0, wrong=0.0, megabytes=0):
    def run(data, threads):
        waste = np.ones(megabytes * 10**6 // 8)
        time.sleep(pause)
        return float(data["x"].sum()) + wrong
    return run

def crash(data, threads):
    raise ArithmeticError("two and two\\nmake five")

def die(data, threads):
    os.kill(os.getpid(), signal.SIGKILL)

def hang(data, threads):
    time.sleep(60)

def report_threads(data, threads):
    assert all(os.environ[name] == str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"))
    return float(threads)

def data():
    return {"x": np.random.default_rng(0).normal(size=5_000_000)}   # 40 MB

def error(data, result):
    return {"error": abs(result - float(data["x"].sum()))}

def case(name, ours, *peers, **more):
    more.setdefault("judge", error)
    register(Case(name=name, group="fakes", about="a sum", data=data, ours=ours, peers=peers,
                  not_worse=no_larger("error"), **more))

quick = Contestant("quick", total(0.02), ("numpy",))
slow = Contestant("slow", total(0.4, megabytes=100), ("numpy",))
wrong = Contestant("wrong", total(0.0, wrong=1.0), ("numpy",))
crashing = Contestant("crashing", crash, ("numpy",))
dying = Contestant("dying", die, ("numpy",))
absent = Contestant("absent", total(), ("numpy", "no_such_package_at_all"))

case("fast", quick, slow, crashing, dying, absent,
     targets=(Target(3), Target(10**6, ("slow",)), Target(2, ("absent",))))
case("worse", wrong, slow, targets=(Target(3),))
case("broken", crashing, quick, targets=(Target(1),))
case("hanging", Contestant("hanging", hang, ("numpy",)), quick)
case("greedy", Contestant("greedy", total(megabytes=100), ("numpy",)), memory_limit=50)
case("calls", Contestant("loop", total(0.01), ("numpy",)), calls=7, warmup=lambda data: {"x": data["x"][:2]})
case("threads", Contestant("threads", report_threads, ("numpy",)), judge=lambda data, x: {"error": x})
"""


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("registry")
    (folder / "fake_cases.py").write_text(FAKES)
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(folder))
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])))
    yield load("fake_cases")
    patch.undo()


def run(cases: dict[str, Case], name: str, repeats: int = 1, **more: object) -> Outcome:
    return run_case(cases[name], registry="fake_cases", threads=1, repeats=repeats, **more)


@pytest.fixture(scope="module")
def fast(fakes) -> Outcome:
    return run(fakes, "fast", repeats=2)


def test_the_ratio_is_the_peer_over_ours_and_targets_are_judged(fast):
    quick, slow = fast.rows[:2]
    assert quick.seconds >= 0.02
    assert slow.seconds >= 0.4
    assert slow.ratio == slow.seconds / quick.seconds
    assert [v.outcome for v in fast.verdicts] == ["met", "missed", "not measured"]
    assert [v.against for v in fast.verdicts] == ["slow", "slow", "absent"]
    assert fast.problems == [
        "fast: target 1e+06 against slow: missed",
        "fast: target 2 against absent: not measured",
    ]


def test_peers_that_crash_die_or_are_absent_are_shown_and_do_not_stop_the_others(fast):
    status = {row.contestant: row.status for row in fast.rows}
    assert status == {
        "quick": "ok",
        "slow": "ok",
        "crashing": "failed: ArithmeticError: two and two",
        "dying": "failed: process ended with signal 9: no message",
        "absent": "not installed",
    }
    shown = text_table(cells(fast.as_json()))
    assert "failed: ArithmeticError: two and two" in shown
    assert "not installed" in shown
    assert "≥ 3 met, ≥ 1e+06 missed" in shown


def test_runs_alternate_in_fresh_processes(fast):
    runs = [(r["began"], row.contestant, r["pid"]) for row in fast.rows for r in row.runs]
    assert [name for _, name, _ in sorted(runs)] == ["quick", "slow", "quick", "slow"]
    pids = [pid for _, _, pid in runs]
    assert len(set(pids)) == 4
    assert os.getpid() not in pids


def test_memory_is_what_the_work_took_beyond_the_data(fast):
    quick, slow = fast.rows[:2]
    assert quick.peak_mb < 5  # the 40 MB of data are not counted
    assert 98 < slow.peak_mb < 110  # it allocates 100 MB and gives them back before it ends


def test_no_ratio_is_shown_for_a_worse_answer(fakes):
    outcome = run(fakes, "worse")
    assert outcome.rows[1].ratio is None
    assert outcome.verdicts[0].outcome == "worse"
    assert outcome.problems == ["worse: the answer is worse than that of slow"]
    ours, peer = cells(outcome.as_json())
    assert ours[6] == "error 1"
    assert peer[3] == "worse"


def test_our_own_failure_is_a_problem(fakes):
    outcome = run(fakes, "broken")
    assert outcome.problems[0] == "broken: crashing: failed: ArithmeticError: two and two"
    assert outcome.verdicts[0].outcome == "not measured"


def test_a_run_that_does_not_end_is_stopped(fakes):
    outcome = run(fakes, "hanging", timeout=2.0)
    assert outcome.rows[0].status == "failed: no answer within 2 s"
    assert outcome.rows[1].seconds is not None


def test_a_memory_limit_is_respected(fakes):
    (problem,) = run(fakes, "greedy").problems
    assert problem.endswith("MB beyond the data, allowed 50")


def test_several_calls_count_by_their_median_and_warm_up_is_stated(fakes, tmp_path):
    outcome = run(fakes, "calls")
    assert 0.01 <= outcome.rows[0].seconds < 0.07  # one call, not the sum of seven
    write([outcome.as_json()], tmp_path)
    page = (tmp_path / "benchmarks.md").read_text()
    assert "median of 1 processes, 7 calls in each, after a warm-up call" in page


def test_every_contestant_gets_the_same_threads(fakes):
    outcome = run_case(fakes["threads"], registry="fake_cases", threads=3, repeats=1)
    assert outcome.rows[0].quality == {"error": 3.0}
    assert set(thread_environment(3).values()) == {"3"}
    assert set(thread_environment(3)) == set(THREAD_VARIABLES)


def test_a_run_of_some_cases_renews_only_their_entries(fast, fakes, tmp_path):
    other = run(fakes, "worse").as_json()
    write([fast.as_json(), other], tmp_path)
    first = json.loads((tmp_path / "benchmarks.json").read_text())["cases"]
    renewed = other | {"date": "1999-01-01", "machine": describe() | {"cpu": "abacus"}}
    write([renewed], tmp_path)
    second = json.loads((tmp_path / "benchmarks.json").read_text())["cases"]
    assert second["fast"] == first["fast"]
    assert second["worse"]["date"] == "1999-01-01"
    page = (tmp_path / "benchmarks.md").read_text()
    assert "setting A" in page
    assert "setting B" in page
    assert "- **B**: abacus" in page
    assert page.count("| fast |") == 5


def test_the_command_line(fakes, tmp_path):
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "benchmarks", "--registry", "fake_cases", *arguments]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)

    listing = command("--list", "--cases", "wor*,fast")
    assert [line.split()[0] for line in listing.stdout.splitlines()] == ["fast", "worse"]
    unknown = command("--cases", "nothing*")
    assert (unknown.returncode, unknown.stderr) == (
        2,
        "no case matches 'nothing*'. --list shows the names.\n",
    )
    zero = command("--threads", "0")
    assert (zero.returncode, zero.stderr) == (2, "--threads must be at least 1, got 0.\n")
    strict = command("--cases", "worse", "--repeats", "1", "--strict", "--out", str(tmp_path))
    assert strict.returncode == 1
    assert "! worse: the answer is worse than that of slow" in strict.stdout
    assert (tmp_path / "benchmarks.json").exists()
    quick = command("--cases", "worse", "--quick", "--out", str(tmp_path / "unused"))
    assert quick.returncode == 0
    assert not (tmp_path / "unused").exists()


def test_not_worse():
    law = no_larger("error", relative=0.1, floor=1e-3)
    assert law({"error": 1.1}, {"error": 1.0})
    assert not law({"error": 1.2}, {"error": 1.0})
    assert law({"error": 1e-3}, {"error": 0.0})
    assert not law({"error": np.nan}, {"error": 1.0})
    assert not law({"error": np.nan}, {"error": np.nan})
    assert law({"error": 5.0}, {"error": np.nan})
    assert law({"error": 5.0}, {"error": np.inf})
    assert not law({"error": np.nan}, {"error": np.inf})
    exact = no_larger("error")  # 0·∞ is no bound
    assert exact({"error": 0.0}, {"error": np.inf})
    named = no_larger("error", floor="rounding")
    assert named({"error": 1e-16, "rounding": 1e-15}, {"error": 0.0, "rounding": 1.0})
    assert not named({"error": 1e-14, "rounding": 1e-15}, {"error": 0.0, "rounding": 1.0})


def test_between_two_checkouts():
    """A checkout beside itself: the same cases, and a ratio with its spread for each."""
    line = line_of("case", [1.0, 2.0, 1.5], [3.0, 3.0, 3.3])
    assert line.split() == ["case", "1.5", "3", "2.00", "3.00", "33", "%"]
    if not (ROOT / ".venv/bin/python").exists():
        pytest.skip("no .venv in this checkout: make test makes one")
    assert {"kmeans-iris", "ami-5000"} <= names_of(ROOT)
    runs = seconds_of(load("benchmarks.cases")["kmeans-iris"], (ROOT, ROOT), 2, 1, 60.0)
    assert [len(one) for one in runs] == [2, 2]
    assert min(map(min, runs)) > 0


def test_cases_that_make_no_sense_are_refused(monkeypatch):
    monkeypatch.setattr("benchmarks.case._CASES", {})
    one = Contestant("one", lambda data, threads: 0, ())

    def case(**more: object) -> Case:
        plain = {"name": "c", "group": "g", "about": "", "data": dict, "ours": one, "peers": ()}
        return Case(**plain | {"judge": lambda d, r: {}, "not_worse": lambda a, b: True} | more)

    with pytest.raises(ValueError, match="contestants must have different names, got"):
        case(peers=(one,))
    with pytest.raises(ValueError, match=r"against \['nobody'\], which are no peers here"):
        case(targets=(Target(1, ("nobody",)),))
    with pytest.raises(ValueError, match="calls and repeats must be at least 1"):
        case(calls=0)
    register(case())
    with pytest.raises(ValueError, match="a case named 'c' is registered already"):
        register(case())


def test_the_registered_cases_are_complete_and_their_data_is_seeded():
    cases = load()
    assert {"gaussian-1e6x16", "ami-5000", "import", "cli-help"} <= set(cases)
    assert cases["gaussian-1e6x16"].targets == (Target(10),)
    assert cases["ami-5000"].targets == (Target(300),)
    assert [case.name for case in select(cases, "gaussian-1e6x2")] == ["gaussian-1e6x2"]
    first, second = (cases["gaussian-1e6x2"].data() for _ in range(2))
    assert all(np.array_equal(first[key], second[key]) for key in first)


def test_the_truth_of_the_cases_is_true():
    """The judges' own figures against formulas on data small enough to do by hand or by another road."""
    from sklearn.metrics import adjusted_mutual_info_score

    from benchmarks.cases.gaussian import errors, make
    from benchmarks.cases.metrics import true_ami

    rng = np.random.default_rng(5)
    for labels in (2, 7, 40):
        a, b = rng.integers(labels, size=(2, 300))
        assert true_ami(a, b) == pytest.approx(adjusted_mutual_info_score(a, b), abs=1e-11)
    data = make(2000, 3, "float64")
    exact = (data["X"].mean(axis=0), np.cov(data["X"].T, bias=True))
    found = errors(data, exact)
    assert found["mean error"] < 1e-13
    assert found["covariance error"] < 1e-13
    sd = np.sqrt(data["true_covariance"][0, 0])
    shifted = (exact[0] + [sd, 0, 0], exact[1])
    assert errors(data, shifted)["mean error"] == pytest.approx(1.0)


def test_what_the_figures_depend_on_is_reported():
    assert describe()["cores"] >= 1
    assert versions(["numpy.linalg", "sklearn"]).keys() == {"python", "numpy", "scikit-learn"}
    assert missing(["numpy", "no_such_package_at_all.inner", "sklearn.cluster"]) == ["no_such_package_at_all.inner"]
