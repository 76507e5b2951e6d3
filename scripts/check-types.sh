#!/usr/bin/env bash
# mypy over the package and the random search. The types of the native core come from the stub that nanobind writes from the module itself.
set -euo pipefail

"$VENV/bin/python" -m nanobind.stubgen -q -m knoll._core -o src/knoll/_core.pyi
MYPYPATH=src:. "$VENV/bin/mypy"
