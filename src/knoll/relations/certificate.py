"""The certificate of a relation on one data set: numbers with their limits, and preconditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any


@dataclass(frozen=True)
class Check:
    """One number of a certificate and its upper limit (with `at_least`, its lower limit)."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the number is within its limit; a NaN never is."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{self.what}: {self.value:.3g} ({sign} {self.limit:.3g}{'' if self.holds else ', violated'})"


@dataclass(frozen=True)
class Precondition:
    """An assumption of the statement, checked on the data."""

    what: str
    holds: bool
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {'yes' if self.holds else 'no'}{', ' + self.detail if self.detail else ''}"


@dataclass(frozen=True)
class Certificate:
    """The verdict on one relation for one data set.

    Attributes
    ----------
    relation : str
        The relation's name.
    statement : str
        What it claims, in a sentence.
    checks : tuple of Check
        The numbers and their limits.
    preconditions : tuple of Precondition
        What the statement assumes; if one does not hold, the statement does not apply.
    numbers : mapping
        Other measurements: counts, parameters, rows that differ.
    notes : tuple of str
        Remarks on this data.
    seconds : float
        The duration.
    """

    relation: str
    statement: str
    checks: tuple[Check, ...]
    preconditions: tuple[Precondition, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def applies(self) -> bool:
        """Whether all preconditions hold."""
        return all(condition.holds for condition in self.preconditions)

    @property
    def holds(self) -> bool:
        """Whether the statement applies and every number is within its limit."""
        return self.applies and all(check.holds for check in self.checks)

    @property
    def verdict(self) -> str:
        """The result: "holds", "fails" or "does not apply"."""
        if not self.applies:
            return "does not apply"
        return "holds" if self.holds else "fails"

    @property
    def tightest(self) -> Check:
        """The check that is closest to its limit, or furthest beyond it."""
        return max(self.checks, key=_use_of_limit)

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        lines = [f"{self.relation}: {self.verdict} ({self.seconds:.2g} s)", f"  {self.statement}"]
        lines += [f"  assumes   {condition}" for condition in self.preconditions]
        lines += [f"  checked   {check}" for check in self.checks]
        lines += [f"  measured  {name} = {_short(value)}" for name, value in self.numbers.items()]
        lines += [f"  note      {note}" for note in self.notes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the verdict and its numbers as a table, for notebooks."""
        left = ' style="text-align:left"'
        checks = "".join(
            f"<tr><td{left}>{escape(check.what)}</td><td>{check.value:.3g}</td>"
            f"<td>{'≥' if check.at_least else '≤'} {check.limit:.3g}</td><td>{'yes' if check.holds else 'no'}</td></tr>"
            for check in self.checks
        )
        others = [f"assumes {condition}" for condition in self.preconditions]
        others += [f"{name} = {_short(value)}" for name, value in self.numbers.items()]
        listed = "".join(f"<li>{escape(text)}</li>" for text in [*others, *self.notes])
        return (
            f"<p><b>{escape(self.relation)}: {self.verdict}</b><br>{escape(self.statement)}</p>"
            f"<table><thead><tr><th{left}>checked</th><th>value</th><th>limit</th><th>holds</th></tr></thead>"
            f"<tbody>{checks}</tbody></table>" + (f"<ul>{listed}</ul>" if listed else "")
        )


def _use_of_limit(check: Check) -> float:
    if check.value != check.value:
        return float("inf")
    used, allowed = (check.limit, check.value) if check.at_least else (check.value, check.limit)
    return used / allowed if allowed > 0 else (0.0 if used <= allowed else float("inf"))


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "…"
