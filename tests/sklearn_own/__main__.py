"""``python -m tests.sklearn_own [Class …]``: the whole story; exit 1 if it disagrees with expected/."""

from __future__ import annotations

import sys

import knoll
from tests.sklearn_own.registry import REGISTRY
from tests.sklearn_own.run import reasons_for, run


def main(names: list[str]) -> int:
    """Run the named classes, or all that knoll has."""
    unknown = [name for name in names if name not in REGISTRY]
    if unknown:
        print(f"{unknown[0]} is not in the registry; it holds {', '.join(REGISTRY)}.", file=sys.stderr)
        return 2
    bad = False
    for name in names or REGISTRY:
        if not hasattr(knoll, name):
            print(f"{name}: knoll does not have it yet")
            continue
        outcome, reasons = run(REGISTRY[name]), reasons_for(name)
        print(f"{name}: {outcome.summary()}")
        for test in outcome.ids("failed"):
            reason = reasons.get(test) or reasons.get(test.partition("[")[0])
            print(f"  failed   {test}\n           {reason or outcome.counted[test]['message']}")
        for test, record in outcome.private.items():
            print(f"  private  {test}: {record['outcome']} ({', '.join(record['private'])})")
        problems = outcome.problems(reasons)
        bad |= bool(problems) or not outcome.counted
        for problem in problems:
            print(f"! {problem}")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
