"""The source distribution builds a wheel, and the wheel works where the source was never seen.

One test, since its stages depend on each other and the build is the slow part. What knoll depends on is not
downloaded again: the fresh environment looks into the running one for it, after its own packages.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SMOKE = Path(__file__).with_name("smoke.py")


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run, insist on success, return what was printed; no PYTHONPATH shines through."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")} | variables
    environment.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", "2")
    done = subprocess.run(
        [str(arg) for arg in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def build(form: str, source: Path, out: Path) -> Path:
    """Build with what is installed here where that suffices, else in build's own isolated environment."""
    here = all(importlib.util.find_spec(tool) for tool in ("scikit_build_core", "nanobind"))
    isolation = ["--no-isolation"] if here else []
    run(
        sys.executable,
        "-m",
        "build",
        f"--{form}",
        *isolation,
        "--outdir",
        out,
        source,
        cwd=out,
        CCACHE_BASEDIR=str(source),
    )
    (made,) = out.glob({"sdist": "*.tar.gz", "wheel": "*.whl"}[form])
    return made


def check_sdist(names: set[str]) -> None:
    inner = {name.partition("/")[2] for name in names}
    assert {"pyproject.toml", "CMakeLists.txt", "LICENSE", "README.md", "src/knoll/py.typed"} <= inner
    assert any(name.startswith("core/common/") for name in inner)
    unwanted = {".venv", "build", ".git", ".ci", "demo", "dist", "__pycache__", ".mypy_cache", ".ruff_cache"}
    assert {name for name in inner if unwanted.intersection(name.split("/"))} == set()
    assert {name for name in inner if name.endswith((".so", ".o", ".pyc"))} == set()


def check_wheel(names: set[str]) -> None:
    (info,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
    assert {name.partition("/")[0] for name in names} == {"knoll", info}
    assert {"knoll/__init__.py", "knoll/py.typed", "knoll/_core.pyi", "knoll/report/templates/tour.html"} <= names
    assert {f"knoll/report/templates/compare.{suffix}" for suffix in ("html", "css", "js")} <= names
    assert len([name for name in names if name.startswith("knoll/_core.") and name.endswith(".so")]) == 1
    licences = {"LICENSE", "LICENSE.nanobind.txt", "LICENSE.robin-map.txt"}
    assert {f"{info}/licenses/{licence}" for licence in licences} <= names
    assert f"{info}/entry_points.txt" in names


def fresh_environment(folder: Path) -> Path:
    """A virtual environment that finds what it lacks in the running one."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    # A plain line in a .pth is put at the end of the search path, and the .pth files over there are not read:
    # an editable knoll of the running environment cannot come in by its hook.
    here = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (own / "zz_running_environment.pth").write_text("\n".join(here) + "\n")
    return python


@pytest.mark.slow
def test_the_sdist_builds_a_wheel_that_works_elsewhere(tmp_path):
    sdists, wheels, elsewhere = (tmp_path / name for name in ("sdist", "wheel", "elsewhere"))
    for folder in (sdists, wheels, elsewhere):
        folder.mkdir()

    sdist = build("sdist", ROOT, sdists)
    with tarfile.open(sdist) as archive:
        check_sdist({member.name for member in archive.getmembers() if member.isfile()})
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # 3.11.4 and later have it
        archive.extractall(tmp_path / "unpacked", **safe)
    (source,) = (tmp_path / "unpacked").iterdir()

    wheel = build("wheel", source, wheels)
    with zipfile.ZipFile(wheel) as archive:
        check_wheel(set(archive.namelist()))

    python = fresh_environment(tmp_path / "venv")
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-index",
        "--no-deps",
        wheel,
        cwd=elsewhere,
    )
    printed = run(python, "-I", SMOKE, cwd=elsewhere)
    assert printed.endswith("smoke test passed\n")
    assert "compiler" in printed.lower()
    usage = run(python.with_name("knoll"), "--help", cwd=elsewhere)
    assert "Usage: knoll" in usage


def test_the_checks_of_this_file_can_fail():
    good = {"knoll-1/" + name for name in ("pyproject.toml", "CMakeLists.txt", "LICENSE", "README.md")}
    good |= {"knoll-1/src/knoll/py.typed", "knoll-1/core/common/run.hpp"}
    check_sdist(good)
    for bad in ({"knoll-1/.venv/x"}, {"knoll-1/build/x"}, {"knoll-1/src/knoll/_core.so"}):
        with pytest.raises(AssertionError):
            check_sdist(good | bad)
    wheel = {"knoll/__init__.py", "knoll/py.typed", "knoll/_core.pyi", "knoll/_core.abi3.so"}
    wheel |= {f"knoll/report/templates/{page}" for page in ("tour.html", "compare.html", "compare.css", "compare.js")}
    wheel |= {f"knoll-1.dist-info/licenses/LICENSE{x}" for x in ("", ".nanobind.txt", ".robin-map.txt")}
    wheel |= {"knoll-1.dist-info/entry_points.txt"}
    check_wheel(wheel)
    for lost in wheel:
        with pytest.raises((AssertionError, ValueError)):
            check_wheel(wheel - {lost})
    with pytest.raises(AssertionError):
        check_wheel(wheel | {"tests/test_x.py"})
