#!/usr/bin/env bash
# Print the folder where pip has built the core that is installed in $VENV: tests are linked to those very objects.
set -euo pipefail
tag=$("$VENV/bin/python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
for folder in build/"$tag"-*/; do
  [ -e "$folder/CMakeCache.txt" ] && exec printf '%s\n' "${folder%/}"
done
echo "knoll is not installed in $VENV yet: run make test" >&2
exit 1
