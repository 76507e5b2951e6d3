"""A small model file, its bytes, and a folder for others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import knoll


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """The bytes of a k-means of two centres."""
    path = tmp_path_factory.mktemp("small") / "small.knoll"
    X = np.array([[0.0, 1.0], [0.5, 1.0], [9.0, 9.0], [9.0, 8.5]])
    knoll.save(knoll.KMeans(2, random_state=0).fit(X), path)
    return path.read_bytes()


@pytest.fixture
def put(tmp_path):
    """Write bytes to a file and return its path."""

    def write(data: bytes, name: str = "model.knoll") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write
