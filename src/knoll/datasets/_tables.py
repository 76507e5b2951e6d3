"""scikit-learn's built-in tables as datasets. They are part of scikit-learn: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import numpy as np

from knoll.datasets._types import Dataset


def _table(name: str, description: str, *, classes: bool = True) -> Dataset:
    from sklearn import datasets as theirs

    bunch: Any = getattr(theirs, f"load_{name}")()
    return Dataset(
        name=name,
        X=np.array(bunch.data, dtype=np.float64, order="C"),
        y=np.array(bunch.target, dtype=np.int64) if classes else None,
        feature_names=tuple(str(column) for column in bunch.feature_names),
        target_names=tuple(str(target) for target in bunch.target_names) if classes else (),
        description=description,
        source=f"sklearn.datasets.load_{name}",
    )


def iris() -> Dataset:
    """Return Fisher's iris flowers: 150 rows, 4 lengths in cm, 3 species."""
    return _table("iris", "150 iris flowers of three species by four lengths in cm; two species overlap.")


def wine() -> Dataset:
    """Return the wines: 178 rows, 13 chemical figures on very different scales, 3 growers."""
    return _table("wine", "178 wines of three growers by 13 chemical figures; scale the columns before clustering.")


def breast_cancer() -> Dataset:
    """Return the Wisconsin tumours: 569 rows, 30 figures of cell nuclei, 2 diagnoses."""
    return _table("breast_cancer", "569 tumours, malignant or benign, by 30 figures of their cell nuclei.")


def digits() -> Dataset:
    """Return the handwritten digits: 1797 rows, 8 x 8 grey levels, 10 digits."""
    return _table("digits", "1797 handwritten digits as 8 x 8 pictures of 17 grey levels.")


def diabetes() -> Dataset:
    """Return the diabetes patients: 442 rows, 10 scaled figures, no classes (their target is a number)."""
    return _table("diabetes", "442 patients by ten centred and scaled figures; no classes.", classes=False)


def linnerud() -> Dataset:
    """Return Linnerud's gymnasts: 20 rows, 3 exercises, no classes (their targets are numbers)."""
    return _table("linnerud", "20 men by the chins, sit-ups and jumps they managed; no classes.", classes=False)
