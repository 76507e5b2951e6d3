"""One numbering for the answers of all methods: a cluster has the number of the recommended cluster that it matches.

Numbers go from 0 without a gap, as in every model file. Among all such numberings of an answer the one is taken that
most rows agree with.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from knoll._typing import Ints
from knoll.comparison.result import Candidate, Recommendation
from knoll.models._relabeled import Relabeled, most_probable, n_labels

__all__ = ["match_numbers"]


def match_numbers(
    candidates: dict[str, Candidate], advice: Recommendation
) -> tuple[dict[str, Candidate], Recommendation]:
    """Number the clusters of every other answer, its model and its probabilities as in the recommended one."""
    model = candidates[advice.method].labels
    matched = {name: one if name == advice.method else renumbered(one, model) for name, one in candidates.items()}
    others = tuple(replace(one, candidate=renumbered(one.candidate, model)) for one in advice.alternatives)
    return matched, replace(advice, alternatives=others)


def renumbered(found: Candidate, reference: Ints) -> Candidate:
    """Return an answer with the numbers of the reference, as far as there are so many of them."""
    count = max(n_labels(found.model), int(found.labels.max(initial=-1)) + 1)
    number = best_numbers(found.labels, reference, count)
    if (number == np.arange(count)).all():
        return found
    model = found.model
    if isinstance(model, Relabeled):
        model = Relabeled(model.estimator, [int(number[cluster]) for cluster in model.clusters])
    else:
        model = Relabeled(model, number.tolist())
    if found.probabilities is None:
        labels = np.append(number, -1)[found.labels]
        return replace(found, model=model, labels=labels, groups=model.clusters)
    shares = np.empty_like(found.probabilities)
    columns = np.append(number, np.arange(count, shares.shape[1])).astype(np.int64)  # noise stays behind
    shares[:, columns] = found.probabilities
    labels = most_probable(shares, count)
    return replace(found, model=model, labels=labels, probabilities=shares, groups=model.clusters)


def best_numbers(labels: Ints, reference: Ints, count: int) -> Ints:
    """Return the number of each of `count` clusters that agrees with the reference in most rows.

    Examples
    --------
    >>> import numpy as np
    >>> from knoll.comparison.numbering import best_numbers
    >>> best_numbers(np.array([1, 1, 0, 0, 2]), np.array([0, 0, 1, 1, -1]), 3)
    array([1, 0, 2])
    """
    both = (labels >= 0) & (reference >= 0) & (reference < count)
    shared = np.bincount(labels[both] * count + reference[both], minlength=count * count).reshape(count, count)
    rows, numbers = linear_sum_assignment(-shared - 0.5 * np.eye(count) / max(1, count))  # ties keep their number
    out = np.empty(count, dtype=np.int64)
    out[rows] = numbers
    return out
