"""The decision tree as sentences, as SQL and as a Python function.

All three answer a missing value as the tree does. A value that the reader of the table takes for missing, such as −999,
is missing for them, too. Names and texts of the table are quoted: they cannot become code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from knoll._format import share
from knoll._typing import Ints
from knoll.exceptions import InvalidParameter
from knoll.explanation.columns import AnyColumn, CategoryColumn, NumberColumn
from knoll.explanation.tree import Branch, Leaf, Node, Split, leaves_of

__all__ = ["DIALECTS", "Rule", "python_source", "rules_of", "sql_case"]

DIALECTS = ("standard", "mysql", "bigquery")
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Rule:
    """One path of the tree.

    Attributes
    ----------
    label : int
        The cluster that it stands for.
    conditions : tuple of str
        What a row must fulfil, in words.
    text : str
        The conditions as a sentence.
    coverage : float
        The share of the cluster's rows that fulfil it.
    precision : float
        The share of the rows that fulfil it which belong to the cluster.
    rows : float
        How many rows fulfil it; their weight, if rows have weights.
    """

    label: int
    conditions: tuple[str, ...]
    text: str
    coverage: float
    precision: float
    rows: float

    def __str__(self) -> str:
        """Return the sentence with what it covers."""
        covers = f"covers {share(self.coverage)} of the cluster"
        return f"{self.text} ({covers}; {share(self.precision)} of such rows are in it)"


@dataclass(frozen=True)
class _Range:
    """All conditions of a path on one column."""

    column: AnyColumn
    low: float | None = None  # x > low
    high: float | None = None  # x <= high
    level: int | None = None  # x = level
    excluded: tuple[int, ...] = ()  # x is none of these levels
    missing: bool = True  # whether a missing value passes,
    known: bool = True  # and whether any other does

    def narrowed(self, split: Split, yes: bool) -> _Range:
        missing = self.missing and split.missing == yes
        if split.level is None and split.threshold is None:
            return replace(self, missing=missing, known=yes)
        if split.level is not None:
            level = split.level if yes else self.level
            excluded = self.excluded if yes else (*self.excluded, split.level)
            return replace(self, level=level, excluded=excluded, missing=missing)
        assert split.threshold is not None
        low, high = self.low, self.high
        if yes:
            high = split.threshold if high is None else min(high, split.threshold)
        else:
            low = split.threshold if low is None else max(low, split.threshold)
        return replace(self, low=low, high=high, missing=missing)

    @property
    def bounded(self) -> bool:
        """Whether there is a condition on known values."""
        return any(one is not None for one in (self.low, self.high, self.level)) or bool(self.excluded)


def _ranges(path: Sequence[tuple[Split, bool]], columns: Sequence[AnyColumn]) -> list[_Range]:
    found: dict[int, _Range] = {}
    for split, yes in path:
        before = found.get(split.column, _Range(columns[split.column]))
        found[split.column] = before.narrowed(split, yes)
    return list(found.values())


# ---- sentences -------------------------------------------------------------------------------------------------------


def rules_of(tree: Node, columns: Sequence[AnyColumn], labels: Ints) -> list[Rule]:
    """Return a rule for each leaf, those of a cluster in order of what they cover."""
    sizes = np.sum([leaf.counts for _, leaf in leaves_of(tree)], axis=0)
    rules = []
    for path, leaf in leaves_of(tree):
        conditions = tuple(_sentence(one) for one in _ranges(path, columns))
        here, inside = leaf.counts[leaf.group], sum(leaf.counts)
        if here > 0:
            rules.append(Rule(
                int(labels[leaf.group]), conditions, " and ".join(conditions) or "every row",
                float(here / sizes[leaf.group]), float(here / inside), float(inside),
            ))  # fmt: skip
    return sorted(rules, key=lambda rule: (rule.label < 0, rule.label, -rule.coverage))


def _sentence(one: _Range) -> str:
    if not one.known or not one.bounded:
        return f"{one.column.name} is {'known' if one.known else 'missing'}"
    text = _category_sentence(one) if isinstance(one.column, CategoryColumn) else _number_sentence(one)
    return f"{text} or missing" if one.missing and one.column.missing.any() else text


def _number_sentence(one: _Range) -> str:
    column = one.column
    assert isinstance(column, NumberColumn)
    if column.type == "date":
        low, high = (None if t is None else column.format.exact(_first_after(t)) for t in (one.low, one.high))
        terms = ("before", "from", "on")
    else:
        low, high = (None if t is None else column.format.exact(t) for t in (one.low, one.high))
        terms = ("at most", "above", "")
    if low is None:
        return f"{column.name} {terms[0]} {high}"
    if high is None:
        return " ".join(filter(None, (column.name, terms[1], low, terms[2])))
    return f"{column.name} between {low} and {high}"


def _category_sentence(one: _Range) -> str:
    column = one.column
    assert isinstance(column, CategoryColumn)
    if one.level is not None:
        return f"{column.name} is {column.levels[one.level]}"
    others = [at for at in range(len(column.levels)) if at not in one.excluded]
    if len(others) == 1:
        return f"{column.name} is {column.levels[others[0]]}"
    return f"{column.name} is not {' or '.join(column.levels[at] for at in one.excluded)}"


def _first_after(threshold: float) -> float:
    """Return the moment t such that x <= threshold means x < t: a whole second."""
    return math.ceil(threshold * 86400 - 1e-6) / 86400


def _moment(threshold: float) -> str:
    """Return that moment as text; a midnight without its time."""
    moment = _EPOCH + timedelta(seconds=round(_first_after(threshold) * 86400))
    return moment.strftime("%Y-%m-%d") if (moment - _EPOCH).seconds == 0 else moment.strftime("%Y-%m-%d %H:%M:%S")


def _clock(threshold: float) -> str:
    seconds = math.floor(threshold * 3600 + 1e-6)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _plain_number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


# ---- SQL -------------------------------------------------------------------------------------------------------------


def sql_case(
    tree: Node, columns: Sequence[AnyColumn], labels: Ints, names: Mapping[int, str] | None, dialect: str
) -> str:
    """Return ``CASE WHEN … END``; with `names` it yields names instead of numbers."""
    if dialect not in DIALECTS:
        raise InvalidParameter(f"dialect must be one of {', '.join(DIALECTS)}, got {dialect!r}.")
    paths = leaves_of(tree)
    lines = ["CASE"]
    for path, leaf in paths[:-1]:
        conditions = "\n    AND ".join(_sql_condition(one, dialect) for one in _ranges(path, columns))
        lines.append(f"  WHEN {conditions}\n    THEN {_sql_label(leaf, labels, names, dialect)}")
    last = _sql_label(paths[-1][1], labels, names, dialect)
    return f"{last}" if len(paths) == 1 else "\n".join([*lines, f"  ELSE {last}", "END"])


def _sql_label(leaf: Leaf, labels: Ints, names: Mapping[int, str] | None, dialect: str) -> str:
    label = int(labels[leaf.group])
    return str(label) if names is None else sql_text(names[label], dialect)


def sql_name(name: str, dialect: str) -> str:
    """Quote an identifier."""
    clean = name.replace("\0", "")
    if dialect == "standard":
        return '"' + clean.replace('"', '""') + '"'
    if dialect == "bigquery":
        return "`" + clean.replace("\\", "\\\\").replace("`", "\\`") + "`"
    return "`" + clean.replace("`", "``") + "`"


def sql_text(text: str, dialect: str) -> str:
    """Quote a text; where a backslash is an escape, it is doubled."""
    if dialect == "bigquery":
        escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
        return f"'{escaped}'"
    return "'" + (text.replace("\\", "\\\\") if dialect == "mysql" else text).replace("'", "''") + "'"


def _sql_condition(one: _Range, dialect: str) -> str:
    column = one.column
    name = sql_name(column.name, dialect)
    if isinstance(column, CategoryColumn) and column.padded:
        name = f"NULLIF(TRIM({name}), '')"
    for sentinel in column.sentinels:
        name = (
            f"NULLIF({name}, {_plain_number(sentinel) if isinstance(sentinel, float) else sql_text(sentinel, dialect)})"
        )
    if not one.known or not one.bounded:
        return f"{name} IS {'NOT ' if one.known else ''}NULL"
    if isinstance(column, CategoryColumn):
        condition = _sql_levels(one, column, name, dialect)
    else:
        condition = " AND ".join(_sql_bounds(one, column, name))
    return f"({condition} OR {name} IS NULL)" if one.missing else condition


def _sql_bounds(one: _Range, column: NumberColumn, name: str) -> list[str]:
    if column.type == "date":
        low, high = (None if t is None else f"'{_moment(t)}'" for t in (one.low, one.high))
        return [f"{name} >= {low}"] * (low is not None) + [f"{name} < {high}"] * (high is not None)
    write: Callable[[float], str] = _plain_number if column.type == "number" else lambda t: f"'{_clock(t)}'"
    low, high = (None if t is None else write(t) for t in (one.low, one.high))
    return [f"{name} > {low}"] * (low is not None) + [f"{name} <= {high}"] * (high is not None)


def _sql_levels(one: _Range, column: CategoryColumn, name: str, dialect: str) -> str:
    def literal(level: int) -> str:
        text = column.levels[level]
        if column.literal == "text":
            return sql_text(text.lower() if column.type == "boolean" else text, dialect)
        return text if column.literal == "number" else text.upper()

    if column.type == "boolean" and column.literal == "text":
        name = f"LOWER({name})"
    if one.level is not None:
        return f"{name} = {literal(one.level)}"
    if len(one.excluded) == 1:
        return f"{name} <> {literal(one.excluded[0])}"
    return f"{name} NOT IN ({', '.join(literal(level) for level in one.excluded)})"


# ---- Python ----------------------------------------------------------------------------------------------------------

_HEAD = '''def {function}(row):
    """Return the cluster of a row: a mapping of column names to values.

    None, NaN, blank and absent values are missing. Numbers are numbers, dates and times are those of datetime or texts
    in ISO format.
    """

    def value(name, *sentinels):
        found = row.get(name)
        found = (found.strip() or None) if isinstance(found, str) else found
        return None if found is None or found != found or found in sentinels else found

'''


def python_source(tree: Node, columns: Sequence[AnyColumn], labels: Ints, function: str) -> str:
    """Return the source of a function that gives a row its cluster."""
    if not function.isidentifier():
        raise InvalidParameter(f"function must be a name of Python, got {function!r}.")
    used = sorted({split.column for path, _ in leaves_of(tree) for split, _ in path})
    variables = {column: f"x{number}" for number, column in enumerate(used)}
    lines = []
    for at in used:
        sentinels = "".join(f", {sentinel!r}" for sentinel in columns[at].sentinels)
        lines.append(f"    {variables[at]} = value({_python_text(columns[at].name)}{sentinels})")
    return (
        _HEAD.format(function=function) + "\n".join([*lines, *_python_node(tree, columns, variables, labels, 1)]) + "\n"
    )


def _python_text(text: str) -> str:
    return ascii(text)


def _python_node(
    node: Node, columns: Sequence[AnyColumn], variables: Mapping[int, str], labels: Ints, depth: int
) -> list[str]:
    indent = "    " * depth
    if isinstance(node, Leaf):
        return [f"{indent}return {int(labels[node.group])}"]
    assert isinstance(node, Branch)
    test = _python_test(node.split, columns[node.split.column], variables[node.split.column])
    return [
        f"{indent}if {test}:",
        *_python_node(node.yes, columns, variables, labels, depth + 1),
        *_python_node(node.no, columns, variables, labels, depth),
    ]


def _python_test(split: Split, column: AnyColumn, variable: str) -> str:
    if split.level is None and split.threshold is None:
        return f"{variable} is not None"
    if isinstance(column, CategoryColumn):
        assert split.level is not None
        test = _python_level(column, split.level, variable)
    else:
        assert split.threshold is not None
        test = _python_bound(column, split.threshold, variable)
    return f"{variable} is None or {test}" if split.missing else f"{variable} is not None and {test}"


def _python_level(column: CategoryColumn, level: int, variable: str) -> str:
    text = column.levels[level]
    if column.literal == "boolean":
        return f"bool({variable}) is {text == 'true'}"
    if column.literal == "number":
        return f"{variable} == {text}"
    if column.type == "boolean":
        return f"str({variable}).lower() == {_python_text(text.lower())}"
    return f"{variable} == {_python_text(text)}"


def _python_bound(column: NumberColumn, threshold: float, variable: str) -> str:
    if column.type == "number":
        return f"{variable} <= {_plain_number(threshold)}"
    if column.type == "time":
        return f"str({variable})[:8] <= {_clock(threshold)!r}"
    moment = _moment(threshold)
    text = f"str({variable})[:{len(moment)}]" + (".replace('T', ' ')" if len(moment) > 10 else "")
    return f"{text} < {moment!r}"
