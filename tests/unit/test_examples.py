"""Every script of examples/ runs anywhere with warnings as errors; one of them alone, as a newcomer would run it."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from knoll import relations

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def run(script: Path, folder: Path, *args: str) -> str:
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    command = [sys.executable, "-W", "error", str(script), *args]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_examples():
    assert EXAMPLES


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_prints_and_saves_nothing(script, tmp_path, monkeypatch, capsys):
    """In this process: what takes longest is to import the libraries once more."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()
    assert list(tmp_path.iterdir()) == []


def test_an_example_runs_alone(tmp_path):
    (script,) = (path for path in EXAMPLES if path.stem == "kmeans")
    assert run(script, tmp_path).strip()
    assert list(tmp_path.iterdir()) == []


def test_every_relation_has_an_example():
    stems = {path.stem for path in EXAMPLES}
    assert {f"relation_{relation.name.replace('-', '_')}" for relation in relations.all()} <= stems


def test_the_gaussian_draws_on_request(tmp_path):
    (script,) = (path for path in EXAMPLES if path.stem == "gaussian")
    assert "drawn in picture.png" in run(script, tmp_path, "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
