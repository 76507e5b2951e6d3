"""``python -m tests.digest``: one line a case, with the digests of its labels and of all that was fitted.

``--write`` keeps the labels' digests in labels.json. The digests of all attributes are compared between two checkouts
on one machine: ``make same-bits BEFORE=../other-checkout``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.digest.digests import table

LABELS = Path(__file__).with_name("labels.json")


def main() -> None:
    """Print the table, or keep its labels."""
    rows = list(table())
    if "--write" in sys.argv[1:]:
        LABELS.write_text(json.dumps({name: labels for name, labels, _ in rows}, indent=0, sort_keys=True) + "\n")
        return
    for name, labels, bits in rows:
        print(name, labels, bits)


main()
