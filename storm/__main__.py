"""Run the cases of a storm and print what held:  python -m storm [case ...].

Workers are real processes on loopback. Every fit of a case must have the bits of an undisturbed one in memory.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from storm.cases import CASES


def main(names: list[str]) -> int:
    """Run the cases of these names, or all; return 1 if one failed."""
    unknown = [name for name in names if name not in CASES]
    if unknown:
        print(f"There is no case {unknown[0]!r}. Choose from: {', '.join(CASES)}.", file=sys.stderr)
        return 2
    failed = False
    for name in names or CASES:
        begun = time.monotonic()
        with TemporaryDirectory(prefix="storm-") as folder:
            try:
                found = CASES[name](Path(folder))
            except Exception as error:
                found, failed = f"FAILED: {type(error).__name__}: {error}", True
        print(f"{name:<16} {time.monotonic() - begun:6.1f} s   {found}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
