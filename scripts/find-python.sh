#!/usr/bin/env bash
# Print a Python that can build knoll: 3.11 or later, with its C headers. PYTHON in the environment is obeyed, not judged
# against the others; without it, the first that will do is taken.
set -euo pipefail

probe='
import os, sys, sysconfig
if sys.version_info < (3, 11):
    sys.exit("it is Python %d.%d, and knoll needs 3.11 or later" % sys.version_info[:2])
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    sys.exit("its C headers are missing (Debian, Ubuntu: apt-get install python3-dev)")
print(sys.executable)
'

if [ -n "${PYTHON:-}" ]; then
  if ! found=$("$PYTHON" -c "$probe" 2>&1); then
    echo "PYTHON=$PYTHON cannot be used: $found" >&2
    exit 1
  fi
  echo "$found"
  exit 0
fi

tried=
for name in python3 python3.14 python3.13 python3.12 python3.11; do
  command -v "$name" >/dev/null || continue
  if found=$("$name" -c "$probe" 2>&1); then
    echo "$found"
    exit 0
  fi
  tried="$tried; $name: $(printf '%s' "$found" | tail -n 1)"
done
echo "No Python 3.11 or later that can build knoll was found${tried:-; there is no python3 on PATH}." \
     "Install one, or name it: make PYTHON=/path/to/python" >&2
exit 1
