#!/usr/bin/env bash
# Make the virtual environment $VENV with pip inside. Nothing is ever installed outside it, so a system Python that is
# "externally managed" (PEP 668) will do, and so will one that Debian ships without ensurepip, where pip exists apart.
set -euo pipefail

python=$("$(dirname "$0")"/find-python.sh)
if ! command -v "${CXX:-c++}" >/dev/null && ! command -v g++ >/dev/null && ! command -v clang++ >/dev/null; then
  echo "No C++ compiler was found. Install g++ 11 or later (Debian, Ubuntu: apt-get install g++) or clang 14 or later." >&2
  exit 1
fi

pip_works() { "$VENV/bin/python" -m pip --version; }

if [ -x "$VENV/bin/python" ] && pip_works && "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  exit 0
fi
rm -rf "$VENV"

if "$python" -c 'import ensurepip' && "$python" -m venv "$VENV" && pip_works; then
  exit 0
fi
rm -rf "$VENV"
if "$python" -m pip --version && "$python" -m venv --without-pip "$VENV" &&
   "$python" -m pip --python "$VENV/bin/python" install --quiet pip && pip_works; then
  exit 0
fi
rm -rf "$VENV"
for tool in "$python -m virtualenv" virtualenv; do
  if $tool --version && $tool --quiet --python "$python" "$VENV" && pip_works; then
    exit 0
  fi
  rm -rf "$VENV"
done
echo "$python can make no virtual environment: it has neither ensurepip, pip nor virtualenv" \
     "(Debian, Ubuntu: apt-get install python3-venv)." >&2
exit 1
