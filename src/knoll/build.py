"""What was built and what it will run on: the first thing to look at when a figure surprises."""

from __future__ import annotations

import platform

import knoll

__all__ = ["build_facts", "show_build"]


def build_facts() -> dict[str, str]:
    """Return compiler, instruction set, threads and versions as text.

    Examples
    --------
    >>> import knoll.build
    >>> knoll.build.build_facts()["knoll"] == knoll.__version__
    True
    """
    import numpy
    import scipy
    import sklearn

    from knoll import _core
    from knoll.threads import resolve_threads

    core = _core.build_info()
    return {
        "knoll": knoll.__version__,
        "compiler": core["compiler"],
        "instruction set": core["instruction set"],
        "instruction sets available": core["instruction sets available"],
        "threads": str(resolve_threads(None)),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def show_build() -> None:
    """Print compiler, instruction set, threads and versions: what to send with a report."""
    facts = build_facts()
    width = max(map(len, facts))
    print("\n".join(f"{name:{width}}  {value}" for name, value in facts.items()))
