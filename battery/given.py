"""Sets that others made: files of a folder, scikit-learn's tables, and the sets of its gallery of methods."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from sklearn import datasets as sk

from battery.generator import Sample

__all__ = ["read_folder", "sklearn_sets"]


def read_folder(folder: Path) -> list[Sample]:
    """Read `*.data.gz` with `*.labels0.gz`, … of a folder and its folders; label 0 is noise."""
    found = []
    for path in sorted(folder.rglob("*.data.gz")):
        stem = path.name.removesuffix(".data.gz")
        with gzip.open(path, "rt") as file:
            X = np.loadtxt(file, ndmin=2)
        labelings = []
        for label in sorted(path.parent.glob(f"{stem}.labels*.gz")):
            with gzip.open(label, "rt") as file:
                labelings.append(np.loadtxt(file, dtype=np.int64).ravel() - 1)
        found.append(Sample(X, tuple(labelings), f"{path.parent.name}/{stem}"))
    return found


def sklearn_sets() -> list[Sample]:
    """Return four tables of scikit-learn, whose classes need not be clusters, and the sets of its gallery."""
    tables = {
        "iris": sk.load_iris(),
        "wine": sk.load_wine(),
        "cancer": sk.load_breast_cancer(),
        "digits": sk.load_digits(),
    }
    found = [Sample(one.data, (one.target.astype(np.int64),), f"table-{name}") for name, one in tables.items()]
    blobs, which = sk.make_blobs(n_samples=500, random_state=170)
    gallery = {
        "circles": sk.make_circles(n_samples=500, factor=0.5, noise=0.05, random_state=30),
        "moons": sk.make_moons(n_samples=500, noise=0.05, random_state=30),
        "blobs": sk.make_blobs(n_samples=500, random_state=30),
        "aniso": (blobs @ [[0.6, -0.6], [-0.4, 0.8]], which),
        "varied": sk.make_blobs(n_samples=500, cluster_std=[1.0, 2.5, 0.5], random_state=170),
    }
    return found + [Sample(X, (y.astype(np.int64),), f"gallery-{name}") for name, (X, y) in gallery.items()]
