"""Model files: a fitted estimator as header, arrays, check sum, and nothing that runs (docs/guide/model-files.md)."""

from __future__ import annotations

from knoll.models._preparation import Preparation
from knoll.models._read import Info, Model, inspect, load, read
from knoll.models._relabeled import Relabeled
from knoll.models._write import save

__all__ = ["Info", "Model", "Preparation", "Relabeled", "inspect", "load", "read", "save"]
