"""The front end in one file: below its size, without what the policy forbids, and what the sources give."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "src/knoll/explorer/web"
TOOLS = ROOT / "build/node/node_modules/.bin"


def test_the_bundle_is_small_and_needs_no_eval():
    script = (WEB / "explorer.js").read_text(encoding="utf-8")
    assert len(script.encode()) <= 120_000
    for word in ("eval(", "new Function", "innerHTML", "document.write", "http://", "https://", "WebSocket"):
        assert word not in script.replace("http://www.w3.org/2000/svg", ""), word


def test_the_bundle_is_that_of_the_sources(tmp_path):
    if not (TOOLS / "esbuild").exists():
        pytest.skip("esbuild is not installed: scripts/bundle-explorer.sh fetches it")
    script = ROOT / "scripts/bundle-explorer.sh"
    subprocess.run([script, tmp_path / "explorer.js"], check=True, env=os.environ, timeout=120)
    assert (tmp_path / "explorer.js").read_bytes() == (WEB / "explorer.js").read_bytes()


def test_the_types_of_the_sources_hold():
    if not (TOOLS / "tsc").exists():
        pytest.skip("tsc is not installed: scripts/bundle-explorer.sh fetches it")
    found = subprocess.run(
        [TOOLS / "tsc", "-p", WEB / "source/tsconfig.json"], capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 0, found.stdout
