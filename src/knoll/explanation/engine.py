"""`explain`: from labels or a fitted model, and a table, to what the clusters are."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knoll._format import plural, thousands
from knoll._typing import Floats, Ints
from knoll.exceptions import BadData, InvalidParameter
from knoll.explanation.columns import BINS, AnyColumn, CategoryColumn, Columns, NumberColumn, columns_of
from knoll.explanation.groups import Groups
from knoll.explanation.naming import proposed_names
from knoll.explanation.profiles import ColumnProfile, profiles_of
from knoll.explanation.result import Cluster, ExampleRow, Explanation
from knoll.explanation.rows import SAMPLE, Found, encoded, find_rows
from knoll.explanation.rules import rules_of
from knoll.explanation.stability import cluster_stability, refit_of
from knoll.explanation.tree import MOST_ROWS, content_hashes, fit_tree, leaves_of, predict
from knoll.tables.frames import is_frame
from knoll.tables.table import Table
from knoll.validation import refuse_masked

__all__ = ["check_options", "explain", "explained", "ids_of", "names_of", "weights_of"]

MOST_DEPTH = 4
MOST_REFIT = 20_000  # rows of a refit
_CELLS = 8  # columns of a row that is shown


def explain(
    labels: Any,
    table: Any,
    *,
    names: Mapping[int, str] | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    used: Sequence[str] | None = None,
    ids: Any = None,
    sample_weight: ArrayLike | None = None,
    depth: int = MOST_DEPTH,
    rows: int = 5,
    resamples: int = 10,
    seed: int = 0,
    points: ArrayLike | None = None,
) -> Explanation:
    """Explain what the clusters of a table are: columns that set them apart, rules, example rows, and names.

    Parameters
    ----------
    labels : array-like of shape (n_samples,), or a fitted model
        The cluster of each row; a negative number is noise. Texts are names of clusters. Of a model, `labels_` if it
        has one for each row, else what it predicts for the table.
    table : data frame, Arrow table, mapping of columns, or array-like of shape (n_samples, n_features)
        The rows in their own units, also with columns that the clustering did not use. Types are recognised as by
        `knoll.compare`; missing values are permitted.
    names : mapping or sequence, default=None
        Names of clusters, by label; None proposes them.
    columns : sequence of str, default=None
        Names of the columns of an array.
    used : sequence of str, default=None
        The columns that the clustering used: the decision tree splits on these alone. None takes those that a model
        names, or all that can be clustered on.
    ids : array-like of shape (n_samples,), or the name of a column, default=None
        What identifies a row; None is the index of a data frame, or the position.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of w counts as w rows; rows of weight 0 are absent.
    depth : int, default=4
        Levels of the decision tree, at most 4.
    rows : int, default=5
        Typical, border and unusual rows of each cluster.
    resamples : int, default=10
        Refits of a model to random halves of the rows, for the stability of each cluster; 0 leaves it out.
    seed : int, default=0
        Random seed of the halves.
    points : array-like of shape (n_samples, d), default=None
        The points that the clustering saw, for the distances of typical and border rows; None scales the used columns.

    Returns
    -------
    Explanation
        Plain data, shown as a table in a notebook; `to_sql`, `to_python`, `to_frame` and `to_dict` convert it.

    Notes
    -----
    The effect of a column is the largest difference, over all ranges of its values or sets of its levels, between the
    share of the cluster's rows and the share of the other rows in it. Neither the order of rows nor "weight or
    repetition" changes the result, but for the rows that are shown where several are equal.

    Examples
    --------
    >>> import knoll
    >>> table = {"spend": [10.0, 12.0, 95.0, 90.0] * 8, "visits": [9, 8, 1, 2] * 8}
    >>> found = knoll.explain([0, 0, 1, 1] * 8, table)
    >>> found.names
    {0: 'low spend, many visits', 1: 'high spend, few visits'}
    >>> print(found.to_sql())
    CASE
      WHEN "visits" <= 5
        THEN 1
      ELSE 0
    END
    """
    if hasattr(labels, "candidates") and hasattr(labels, "explain"):  # the result of a comparison
        found: Explanation = labels.explain(
            table, names=names, ids=ids, sample_weight=sample_weight, depth=depth, rows=rows, resamples=resamples
        )
        return found
    check_options(depth, rows, resamples)
    for name, argument in (("labels", labels), ("table", table), ("sample_weight", sample_weight), ("points", points)):
        refuse_masked(argument, name)
    model = labels if hasattr(labels, "fit") or hasattr(labels, "predict") else None
    fitted_on = None if model is None else _fitted_on(model, table)
    read = columns_of(table, columns, _used(model, used))
    plain, own_names = _labels(labels, fitted_on, read.n_rows) if model is not None else _plain_labels(labels)
    if len(plain) != read.n_rows:
        raise BadData(f"labels has {len(plain)} entries for {read.n_rows} rows of the table.")
    fit = None if model is None or not resamples else refit_of(model, fitted_on)
    weights = weights_of(sample_weight, read.n_rows)
    identifiers = ids_of(ids, table, read.n_rows)
    space = None if points is None else _points(points, read.n_rows)
    return explained(
        plain, read, weights=weights, names=names_of(names, plain) | own_names, ids=identifiers, depth=depth, rows=rows,
        resamples=resamples, seed=seed, points=space, fit=fit,
    )  # fmt: skip


def explained(
    labels: Ints,
    read: Columns,
    *,
    weights: Floats,
    names: Mapping[int, str],
    ids: NDArray[Any],
    depth: int = MOST_DEPTH,
    rows: int = 5,
    resamples: int = 0,
    seed: int = 0,
    points: Floats | None = None,
    fit: Callable[[Ints], Ints | None] | None = None,
    most_rows: int = MOST_REFIT,
) -> Explanation:
    """Explain labels of a table that has been read; `fit` labels some rows by a model fitted to them."""
    present = np.flatnonzero(weights > 0)
    if not len(present):
        raise BadData("every row has weight 0.")
    even = bool((weights == weights[0]).all())
    if len(present) < len(weights):
        read = read.take(present, len(present))
        labels, weights, ids = labels[present], weights[present], ids[present]
        points = None if points is None else points[present]
    if not even:
        read = read.weighted(weights)
    groups = Groups.of(labels, weights)
    profiles = [profiles_of(column, groups) for column in read.described]  # [column][group]
    by_group = [tuple(found[g] for found in profiles if found) for g in range(len(groups))]
    tree, sampled_tree = fit_tree(read.used, groups, depth)
    called = _called(groups, by_group, read.described, names)
    space = encoded(read.used or read.described) if points is None else points
    used_profiles = [found for column, found in zip(read.described, profiles, strict=True) if column.used]
    examples, sampled_rows = find_rows(read.used, used_profiles, groups, space, rows, called) if rows else ([], False)
    stability, done = _stability(fit, labels, space, resamples, seed, present, most_rows)
    notes = _notes(read, sampled_tree, sampled_rows, done, len(labels))
    by_tree = predict(tree, read.used, len(labels))
    clusters = [
        _cluster(
            g, groups, called[g], by_group[g], tree, read, examples[g] if rows else {}, ids, stability, by_tree, present
        )
        for g in range(len(groups))
    ]
    right = weights[by_tree == groups.at].sum() / weights.sum()
    depth_found = max(len(path) for path, _ in leaves_of(tree))
    return Explanation(
        tuple(clusters), read.n_rows, float(right), depth_found, read.others, notes, tree, groups.labels, read.used
    )


def _called(
    groups: Groups, profiles: Sequence[Sequence[ColumnProfile]], columns: Sequence[AnyColumn], names: Mapping[int, str]
) -> list[str]:
    """Return the names that were set, and proposals for the others."""
    traits = [
        sorted((one for one in found if one.distinctive and one.used), key=lambda one: -_naming_value(one))
        for found in profiles
    ]
    labels = groups.labels.tolist()
    if labels in ([0], [-1]) or len(labels) == 1:
        proposed = ["noise" if labels[0] < 0 else "all rows"]
    else:
        proposed = proposed_names(labels, traits, {column.name: column for column in columns})
    out: list[str] = []
    for label, name in zip(labels, proposed, strict=True):
        other = names.get(label)
        taken = set(names.values())
        out.append(other if other is not None else name if name not in taken else f"{name} (cluster {label})")
    return out


def _naming_value(profile: ColumnProfile) -> float:
    """Return how well a column serves in a name: "high" and "low" are more specific than "medium"."""
    return profile.effect * (0.5 if profile.direction in ("medium", "extreme") else 1.0)


def _cluster(
    g: int,
    groups: Groups,
    name: str,
    profiles: tuple[ColumnProfile, ...],
    tree: Any,
    read: Columns,
    examples: Mapping[str, Sequence[Found]],
    ids: NDArray[Any],
    stability: Mapping[int, float],
    by_tree: Ints,
    present: Ints,
) -> Cluster:
    label, size = int(groups.labels[g]), float(groups.sizes[g])
    own, assigned = groups.at == g, by_tree == g
    both = float(groups.weights[own & assigned].sum())
    total = float(groups.weights[assigned].sum())
    shown = _shown_columns(profiles, read)
    rows = {
        role: tuple(_example(one, shown, ids, present) for one in examples.get(role, ()))
        for role in ("typical", "border", "unusual")
    }
    return Cluster(
        label=label, name=name, size=size, share=size / float(groups.weights.sum()), columns=profiles,
        rules=tuple(rule for rule in rules_of(tree, read.used, groups.labels) if rule.label == label),
        coverage=both / size, precision=both / total if total else float("nan"),
        stability=stability.get(label), **rows,
    )  # fmt: skip


def _shown_columns(profiles: Sequence[ColumnProfile], read: Columns) -> list[AnyColumn]:
    """Choose the columns of the rows that are shown: those with the largest effects, in the order of the table."""
    effects = {profile.column: (profile.used, profile.effect) for profile in profiles}
    best = sorted(effects, key=lambda name: effects[name], reverse=True)[:_CELLS]
    return [column for column in read.described if column.name in best]


def _example(found: Found, columns: Sequence[NumberColumn | CategoryColumn], ids: Any, present: Ints) -> ExampleRow:
    cells = {column.name: column.text(found.row) for column in columns}
    return ExampleRow(int(present[found.row]), ids[found.row], found.value, found.reason, cells)


def _stability(
    fit: Callable[[Ints], Ints | None] | None,
    labels: Ints,
    space: Floats,
    resamples: int,
    seed: int,
    present: Ints,
    most: int,
) -> tuple[dict[int, float], int]:
    if fit is None or not resamples:
        return {}, 0
    order = np.argsort(content_hashes(space, np.zeros(len(labels), np.int64)), kind="stable")
    return cluster_stability(lambda rows: fit(present[rows]), labels, order, resamples, seed, most)


def _notes(read: Columns, tree: bool, rows: bool, refits: int, n: int) -> tuple[str, ...]:
    """Report what was sampled or approximated."""
    notes = []
    if tree:
        notes.append(
            f"The splits of the rules were chosen on {thousands(MOST_ROWS)} different rows; fidelity, coverage and "
            f"precision are those of all {thousands(n)}."
        )
    if rows:
        notes.append(f"Border rows are those of a sample of about {thousands(SAMPLE)} rows.")
    if any(isinstance(c, NumberColumn) and (c.bins.lower != c.bins.upper).any() for c in read.described):
        notes.append(
            f"Quartiles and effects of columns with more than {BINS} values are exact to 1/{BINS} of the rows."
        )
    if refits:
        notes.append(f"Stability: the mean Jaccard index of {plural(refits, 'refit')} to random halves of the rows.")
    return tuple(notes)


# ---- arguments -------------------------------------------------------------------------------------------------------


def check_options(depth: int, rows: int, resamples: int) -> None:
    """Refuse numbers that are out of range."""
    for name, value, low, high in (
        ("depth", depth, 0, MOST_DEPTH),
        ("rows", rows, 0, 100),
        ("resamples", resamples, 0, 1000),
    ):
        if not isinstance(value, numbers.Integral) or not low <= value <= high:
            raise InvalidParameter(f"{name} must be a whole number from {low} to {high}, got {value!r}.")


def _fitted_on(model: Any, table: Any) -> Any:
    """Return the columns of the table that the model takes."""
    if isinstance(table, Table):
        return table.X
    names = getattr(model, "feature_names_in_", None)
    if names is not None and is_frame(table):
        return (
            table.select(list(names)) if hasattr(table, "select") and not hasattr(table, "iloc") else table[list(names)]
        )
    return table if is_frame(table) else np.asarray(table)


def _used(model: Any, used: Sequence[str] | None) -> Sequence[str] | None:
    if used is not None or model is None:
        return used
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _labels(model: Any, rows: Any, n: int) -> tuple[Ints, dict[int, str]]:
    """Return the labels of a model."""
    own = getattr(model, "labels_", None)
    if own is not None and len(own) == n:
        return _plain_labels(own)
    if not hasattr(model, "predict"):
        raise InvalidParameter(f"{type(model).__name__} has no label for each of {n} rows, and no predict.")
    return _plain_labels(model.predict(rows))


def _plain_labels(labels: Any) -> tuple[Ints, dict[int, str]]:
    """Return labels as integers; texts become numbers with names."""
    found = np.asarray(labels)
    if found.ndim != 1 or not len(found):
        raise BadData(f"labels must have one entry for each row, got shape {found.shape}.")
    if found.dtype.kind in "biu":
        return found.astype(np.int64), {}
    if found.dtype.kind == "f":
        if not np.isfinite(found).all() or (found != np.rint(found)).any():
            raise BadData("labels must be whole numbers, −1 for noise, or texts.")
        return found.astype(np.int64), {}
    levels, at = np.unique(found.astype(str), return_inverse=True)
    return at.astype(np.int64), {number: str(level) for number, level in enumerate(levels)}


def names_of(names: Mapping[int, str] | Sequence[str] | None, labels: Ints) -> dict[int, str]:
    """Return the names that are set, by label."""
    if names is None:
        return {}
    if isinstance(names, str):
        raise InvalidParameter(f"names must be a mapping or a sequence, got {names!r}. For example {{0: 'Regulars'}}.")
    known = {int(label) for label in np.unique(np.where(labels < 0, -1, labels))}
    wanted = dict(names) if isinstance(names, Mapping) else dict(enumerate(names))
    out: dict[int, str] = {}
    for label, name in wanted.items():
        if not isinstance(label, numbers.Integral) or int(label) not in known:
            raise InvalidParameter(
                f"names: there is no cluster {label!r}. There are: {', '.join(map(str, sorted(known)))}."
            )
        if not str(name).strip():
            raise InvalidParameter(f"names: the name of cluster {label} is empty.")
        if str(name) in out.values():
            raise InvalidParameter(f"names: {str(name)!r} is the name of two clusters. Give each its own.")
        out[int(label)] = str(name)
    return out


def weights_of(sample_weight: ArrayLike | None, n: int) -> Floats:
    """Return one weight for each row."""
    if sample_weight is None:
        return np.ones(n)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise BadData(f"sample_weight must be {n} finite numbers >= 0, got shape {weights.shape}.")
    with np.errstate(over="ignore"):
        if not np.isfinite(weights.sum()):
            raise BadData("sample_weight adds up to more than the largest float64. Divide all weights by 1e10.")
    return weights


def ids_of(ids: Any, table: Any, n: int) -> NDArray[Any]:
    """Return what identifies each row."""
    if ids is None:
        index = getattr(table, "index", None)
        ids = getattr(table, "ids", None) if isinstance(table, Table) else index if hasattr(table, "iloc") else None
        if ids is None and isinstance(table, Table):
            ids = table.rows
    elif isinstance(ids, str):
        try:
            ids = table[ids]
        except (KeyError, TypeError, IndexError, ValueError):
            raise InvalidParameter(f"ids: the table has no column {ids!r}.") from None
    found = np.arange(n) if ids is None else np.asarray(ids)
    if len(found) != n:
        raise InvalidParameter(f"ids has {len(found)} entries for {n} rows.")
    return found


def _points(points: ArrayLike, n: int) -> Floats:
    found = np.asarray(points, dtype=np.float64)
    if found.ndim != 2 or len(found) != n or not np.isfinite(found).all():
        raise BadData(f"points must be {n} rows of finite numbers, got shape {found.shape}.")
    return found
