"""The tables of docs/guide/relations.md, drawn from the certificates on the paper's data, so that none is copied."""

from __future__ import annotations

from pathlib import Path

from knoll import relations
from knoll.relations import Certificate, Relation
from knoll.report.certificates import certified

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guide" / "relations.md"
BEGIN, END = "<!-- certificates: made by scripts/relations_table.py -->", "<!-- end of certificates -->"
DATA = "x1500"


def table(found: dict[str, Certificate]) -> str:
    """Return a line for each relation: the check that is closest to its limit, and the verdict."""
    lines = [f"| relation | measured on {DATA} | limit | |", "|---|---|---|---|"]
    lines += [_line(relation, found[relation.name]) for relation in relations.all()]
    return "\n".join([*lines, "", _limits()])


def _line(relation: Relation, certificate: Certificate) -> str:
    check = certificate.tightest
    what = check.what.replace("|", "\\|")
    limit = f"{'≥ ' if check.at_least else ''}{check.limit:.2g}"
    return f"| `{relation.name}` | {what}: {check.value:.2g} | {limit} | {'✓' if certificate.holds else '✗'} |"


def _limits() -> str:
    names = ", ".join(f"`{r.name}`" for r in relations.all() if isinstance(r, relations.Limit))
    return (
        f"Relations that are limits ({names}) also have `path(X)`: the states between one algorithm and the other, "
        "which `knoll.plots.animate` animates."
    )


def redrawn(text: str, drawn: str) -> str:
    """Return the page with these tables."""
    head, _, after = text.partition(BEGIN)
    _, end, tail = after.partition(END)
    if not end:
        raise SystemExit(f"{PAGE} has no markers of the tables: {BEGIN} … {END}")
    return f"{head}{BEGIN}\n{drawn}\n{END}{tail}"


if __name__ == "__main__":
    found = {relation.name: certified(relation, (DATA,)).certificates[DATA] for relation in relations.all()}
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8"), table(found)), encoding="utf-8")
