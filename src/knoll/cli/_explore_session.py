"""The session of ``knoll explore``: a table with the options of ``knoll compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from knoll.cli import _options

if TYPE_CHECKING:
    from knoll.explorer import Session

DEFAULT = "x1500"


def open_session(data: str | None, out: Path | None, how: dict[str, Any]) -> Session:
    """Read a table by the options of the command line."""
    from knoll.explorer import Session

    rules = _options.parse_rules(how["types"], how["log"], how["ignore"], usual_log="mixed")
    options = {
        "columns": _options.parse_columns(how["columns"]),
        "types": dict(rules.types) or None,
        "log": None if rules.log == "mixed" else rules.log,
        "ignore": list(rules.ignore) or None,
        "missing": None if how["missing"] == "model" else how["missing"],
        "ids": how["id_column"],
        "truth": how["truth"],
        "scale": None if how["scale"] == "auto" else how["scale"],
        "metric": how["metric"],
        "seed": how["seed"],
        "n_jobs": how["jobs"],
        **vars(how["reading"]),
    }
    return Session.open(data or DEFAULT, out=out, **options)
