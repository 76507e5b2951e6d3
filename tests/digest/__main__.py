"""``python -m tests.digest``: one line a case, with the digests of its labels and of all that was fitted.

``--write`` keeps the labels' digests in labels.json. ``--before ../other-checkout`` runs the same cases on the knoll
that is installed in the environment of another checkout of this machine, and prints the cases that differ:
``make same-bits BEFORE=../other-checkout``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.digest.digests import table

ROOT = Path(__file__).resolve().parents[2]
LABELS = Path(__file__).with_name("labels.json")


def main() -> int:
    """Print the table, keep its labels, or compare it with that of another checkout."""
    match sys.argv[1:]:
        case ["--write"]:
            labels = {name: labels for name, labels, _ in table()}
            LABELS.write_text(json.dumps(labels, indent=0, sort_keys=True) + "\n")
        case ["--before", other]:
            return compare(Path(other))
        case _:
            for row in table():
                print(*row)
    return 0


def compare(other: Path) -> int:
    """Print the cases whose labels or other attributes differ from those of the other checkout; return 1 for any."""
    python = other.resolve() / ".venv" / "bin" / "python"
    if not python.exists():
        print(f"{python} does not exist. Run make test there first, or name another checkout by BEFORE=.")
        return 2
    lines = subprocess.run(
        [python, "-m", "tests.digest"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    before = {name: digests for name, *digests in map(str.split, lines.splitlines())}
    after = {name: digests for name, *digests in table()}
    differing = [name for name in before if before[name] != after.get(name)]
    for name in sorted(differing):
        labels = before.get(name, [""])[0] != after.get(name, [""])[0]
        print(f"{name}: {'labels' if labels else 'attributes'} differ")
    print(f"{len(before) - len(differing)} of {len(before)} cases have the same bits.")
    if new := len(after.keys() - before.keys()):
        print(f"{new} cases are of estimators that the other checkout does not have.")
    return int(bool(differing))


sys.exit(main())
