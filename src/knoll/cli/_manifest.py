"""Which files of a folder knoll wrote: by name, size and SHA-256, kept in ``summary.json`` under "manifest".

``--force`` replaces those files and no others. A file that has changed since is the user's. ``summary.json`` has the
digest of its own contents under "sha256". Results of versions before there was a manifest are recognised by their
summary, which names them, and by their contents: a model by the magic of its format, a report by its generator, labels
by a column for each method.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SUMMARY = "summary.json"

_NAME = re.compile(r"report\.html|labels\.(csv|parquet|geojson)|models/[a-z0-9-]+\.knoll")  # no summary leads elsewhere
_MOST = 1 << 26  # bytes of a summary
_HEAD = 1 << 14  # bytes in which a file without a manifest shows what it is
_MODEL, _REPORT = b"\x89knoll\r\n", b'<meta name="generator" content="knoll '
_KEYS = {"knoll", "command", "data", "files", "candidates"}  # of every summary


def manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """Describe the files of a folder, the summary excepted."""
    return {name: _facts(folder / name) for name in names_of(folder) if name != SUMMARY}


def names_of(folder: Path) -> list[str]:
    """Return the names of the files in a folder and in those below it."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def sealed(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the summary with the digest of its contents."""
    return {**summary, "sha256": _seal(summary)}


def owned(folder: Path) -> set[str]:
    """Return the names of the files in a folder that knoll wrote and nobody changed since."""
    folder = Path(os.path.realpath(folder))  # a link to the folder is as good as its name; one in it is not
    summary = _summary(folder / SUMMARY)
    if summary is None:
        return set()
    if "sha256" not in summary:
        return {SUMMARY} | {name for name in _named(summary) if _recognised(folder, name, summary)}
    if not _is_sealed(summary):  # who changed the summary may have changed the manifest
        return set()
    listed = summary.get("manifest")
    listed = listed if isinstance(listed, dict) else {}
    return {SUMMARY} | {name for name, facts in listed.items() if _unchanged(folder, name, facts)}


def _facts(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def _seal(summary: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(summary, allow_nan=False).encode()).hexdigest()


def _is_sealed(summary: dict[str, Any]) -> bool:
    """Whether a summary has the digest of its contents; ours has no number that is not finite."""
    try:
        return summary["sha256"] == _seal({name: value for name, value in summary.items() if name != "sha256"})
    except (ValueError, RecursionError):
        return False


def _summary(path: Path) -> dict[str, Any] | None:
    """Read a summary of ours; None where there is none."""
    try:
        if not _plain(path) or path.stat().st_size > _MOST:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    ours = isinstance(found, dict) and found.keys() >= _KEYS and isinstance(found["candidates"], dict)
    return found if ours else None


def _plain(path: Path) -> bool:
    """Whether this is a file, in a folder that is one, and not a link to either."""
    return stat.S_ISREG(os.lstat(path).st_mode) and not path.parent.is_symlink()


def _unchanged(folder: Path, name: str, facts: Any) -> bool:
    path = folder / name
    try:
        if not (_NAME.fullmatch(name) and isinstance(facts, dict) and _plain(path)):
            return False
        return facts.get("bytes") == path.stat().st_size and facts == _facts(path)
    except OSError:  # it is not there, or may not be read
        return False


# ---- results without a manifest --------------------------------------------------------------------------------------


def _named(summary: dict[str, Any]) -> list[str]:
    """Return the names of the files that a summary speaks of."""
    files = summary["files"]
    if not isinstance(files, dict) or not isinstance(models := files.get("models"), dict):
        return []
    names = (files.get("report"), files.get("labels"), *models.values())
    return [name for name in names if isinstance(name, str) and _NAME.fullmatch(name)]


def _recognised(folder: Path, name: str, summary: dict[str, Any]) -> bool:
    """Whether a file is what the version of its summary would have written under this name."""
    path = folder / name
    try:
        if not _plain(path):
            return False
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if name == "report.html":
            return _REPORT in head
        if name.startswith("labels."):
            return set(summary["candidates"]) <= set(_columns(path, head))
    except OSError:
        return False
    return head.startswith(_MODEL)


def _columns(path: Path, head: bytes) -> Sequence[str]:
    if path.suffix == ".csv":
        return head.partition(b"\n")[0].decode(errors="replace").split(",")
    if path.suffix == ".geojson":
        return re.findall(r'"([^"]+)":', head.decode(errors="replace"))
    import pyarrow as pa
    import pyarrow.parquet

    try:
        return list(pyarrow.parquet.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError):
        return []
