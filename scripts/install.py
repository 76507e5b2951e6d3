"""Install what pyproject.toml asks for into the Python that runs this: `build` (its build system) or extras.

Asking pip for an extra of a local project builds the project again; its own lines do not.
"""

import pathlib
import subprocess
import sys
import tomllib

project = tomllib.loads((pathlib.Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
if (extra := sys.argv[1]) == "build":
    minimum = project["tool"]["scikit-build"]["cmake"]["version"]
    lines = [*project["build-system"]["requires"], f"cmake{minimum}", "ninja"]
else:
    lines = project["project"]["optional-dependencies"][extra]
pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
sys.exit(subprocess.run([*pip, *lines]).returncode)
