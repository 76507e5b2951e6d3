"""The pytest plugin: put our class where scikit-learn's test module looks for it, and watch each test.

The class is in place only while the test module is imported, so that scikit-learn's own code keeps its own
class. The module is imported once before, untouched, so that no part of scikit-learn is loaded for the first
time in that moment. (An import inside a test's body would see scikit-learn's class, and the test would not be
counted.) A test counts if it calls ``__init__`` of our class, or was given an instance of it as a parameter.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.sklearn_own.private import private_uses


def _resolve(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


class Replacement:
    """The plugin object: one replacement, and a record for every test."""

    def __init__(self, ours: str, theirs: str, report: Path) -> None:
        self.ours: type = _resolve(ours)
        self.theirs: type = _resolve(theirs)
        self.report = report
        self.private: dict[str, dict[str, list[str]]] = {}
        self.tests: dict[str, dict[str, Any]] = {}
        self.current: dict[str, Any] | None = None
        self._watch()

    def _watch(self) -> None:
        original = self.ours.__init__  # type: ignore[misc]

        @functools.wraps(original)  # scikit-learn reads the parameters from the signature
        def init(instance: Any, *arguments: Any, **options: Any) -> None:
            if self.current is not None:
                self.current["constructs"] = True
            original(instance, *arguments, **options)

        self.ours.__init__ = init  # type: ignore[misc]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Every attribute of a scikit-learn module that is their class is ours, for a while."""
        targets = [
            (module, name)
            for key, module in list(sys.modules.items())
            if key.partition(".")[0] == "sklearn"
            for name, value in list(vars(module).items())
            if value is self.theirs
        ]
        for module, name in targets:
            setattr(module, name, self.ours)
        try:
            yield
        finally:
            for module, name in targets:
                setattr(module, name, self.theirs)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        if not isinstance(collector, pytest.Module):
            return (yield)
        parts = collector.path.with_suffix("").parts
        if "sklearn" in parts:
            last = len(parts) - 1 - parts[::-1].index("sklearn")
            name = ".".join(parts[last:])
            importlib.import_module(name)
            del sys.modules[name]
        self.private[collector.path.name] = private_uses(collector.path.read_text(encoding="utf-8"))
        with self.in_place():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        file, inner = item.path.name, item.nodeid.partition("::")[2]
        spec = getattr(item, "callspec", None)
        values = list(spec.params.values()) if spec is not None else []
        self.current = {
            "constructs": any(isinstance(value, self.ours) for value in values),
            "private": self.private.get(file, {}).get(inner.partition("[")[0], []),
            "outcome": "passed",
            "message": "",
        }
        self.tests[f"{file}::{inner}"] = self.current
        try:
            return (yield)
        finally:
            self.current = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
        report = yield
        if self.current is not None and report.outcome != "passed":
            xfailed = hasattr(report, "wasxfail")
            self.current["outcome"] = "xfailed" if xfailed else report.outcome
            reason = call.excinfo.exconly() if call.excinfo is not None else "strict xfail passed"
            self.current["message"] = " ".join(reason.split())[:300]
        return report

    def pytest_sessionfinish(self) -> None:
        self.report.write_text(json.dumps(self.tests, indent=1), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Read the replacement from the environment that run.py sets."""
    ours, theirs, report = (os.environ[f"SKLEARN_OWN_{key}"] for key in ("OURS", "THEIRS", "REPORT"))
    config.pluginmanager.register(Replacement(ours, theirs, Path(report)), "sklearn-own-in-place")
