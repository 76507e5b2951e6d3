"""Run scikit-learn's tests with our class in place, sort them, and compare with what is expected.

``expected/<Class>.toml`` holds one table, ``[reasons]``: test id → why it fails. An id without its
``[parameters]`` stands for all variants that count, and then all of them must fail. A failure without a
reason, a reason whose test passes, and a reason for a test that does not exist are all problems.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.sklearn_own.registry import Replacement

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).parent / "expected"


@dataclass
class Outcome:
    """What became of the tests that construct the class."""

    counted: dict[str, dict[str, Any]] = field(default_factory=dict)  # public tests: id -> record
    private: dict[str, dict[str, Any]] = field(default_factory=dict)  # those that use private names
    others: int = 0  # tests of the modules that never construct the class

    def ids(self, outcome: str) -> list[str]:
        """Counted tests with this outcome: passed, failed, skipped, xfailed."""
        return [test for test, record in self.counted.items() if record["outcome"] == outcome]

    def problems(self, reasons: dict[str, str]) -> list[str]:
        """What disagrees with the table of reasons."""
        found, explained = [], set()
        for key in reasons:
            meant = [test for test in self.counted if test == key or test.partition("[")[0] == key]
            explained.update(meant)
            if not meant:
                found.append(f"{key}: has a reason, but no such test constructs the class")
            found += [
                f"{test}: passes, but a reason is given why it fails; take the reason out"
                for test in meant
                if self.counted[test]["outcome"] == "passed"
            ]
        found += [
            f"{test}: fails without a reason: {self.counted[test]['message']}"
            for test in self.ids("failed")
            if test not in explained
        ]
        return found

    def summary(self) -> str:
        """One line of counts."""
        public = ", ".join(f"{len(self.ids(o))} {o}" for o in ("passed", "failed", "skipped", "xfailed") if self.ids(o))
        passed = sum(record["outcome"] == "passed" for record in self.private.values())
        return (
            f"{len(self.counted)} tests construct the class: {public or 'none'}; apart, {len(self.private)} "
            f"also use private names ({passed} pass); {self.others} others never construct it"
        )


def reasons_for(name: str, folder: Path = EXPECTED) -> dict[str, str]:
    """The table of reasons of a class; empty if the class has no file."""
    path = folder / f"{name}.toml"
    return dict(tomllib.loads(path.read_text(encoding="utf-8"))["reasons"]) if path.exists() else {}


def run(replacement: Replacement, *, paths: tuple[Path, ...] = ()) -> Outcome:
    """Start pytest on scikit-learn's test modules in a process of its own; ``paths`` join its search path."""
    with tempfile.TemporaryDirectory(prefix="sklearn-own-") as folder:
        report = Path(folder, "report.json")
        Path(folder, "pytest.ini").write_text("[pytest]\n")  # our own options do not apply to their tests
        inherited = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        search = [str(ROOT), *map(str, paths), *map(os.path.abspath, inherited)]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(search),
            "SKLEARN_RUN_FLOAT32_TESTS": "1",  # scikit-learn skips them by default
            "SKLEARN_OWN_OURS": replacement.ours,
            "SKLEARN_OWN_THEIRS": replacement.theirs,
            "SKLEARN_OWN_REPORT": str(report),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "--rootdir", folder]
        command += [
            "-p",
            "tests.sklearn_own.plugin",
            "-p",
            "no:cacheprovider",
            "--pyargs",
            *replacement.tests,
        ]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1) or not report.exists():  # 1: some tests failed; else none could run
            raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        tests = json.loads(report.read_text(encoding="utf-8"))
    outcome = Outcome()
    for test, record in tests.items():
        if not record["constructs"]:
            outcome.others += 1
        elif record["private"]:
            outcome.private[test] = record
        else:
            outcome.counted[test] = record
    return outcome
