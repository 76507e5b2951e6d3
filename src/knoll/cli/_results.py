"""A folder of results appears whole or not at all, and takes the place of older results only when that is asked for."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from knoll.cli._files import CannotWrite, refuse_standard

__all__ = ["refuse_results", "whole_results"]


def refuse_results(out: Path, names: Sequence[str], force: bool) -> None:
    """Refuse, before any work, a place that has results already, or is no folder."""
    refuse_standard(out)
    if out.exists() and not out.is_dir():
        raise click.ClickException(f"cannot write {out}: it is a file. Choose another place with --out.")
    there = [name for name in names if (out / name).exists()]
    if there and not force:
        raise click.ClickException(
            f"{out} already has results ({', '.join(there)}). "
            "Choose another place with --out, or replace them with --force."
        )


@contextlib.contextmanager
def whole_results(out: Path, names: Sequence[str]) -> Iterator[Path]:
    """Give a scratch folder; what it holds at the end takes the place of `names` in `out`, or nothing changes.

    Files of other names in `out` are left alone.
    """
    made = _made(out)
    scratch = out / f".knoll.{os.getpid()}.part"
    new, old = scratch / "new", scratch / "old"
    try:
        try:
            new.mkdir(parents=True)
            old.mkdir()
        except OSError as error:
            raise CannotWrite(out, error) from error
        yield new
        _exchange(new, old, out, names)
    except OSError as error:
        raise CannotWrite(out, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for folder in made:
            with contextlib.suppress(OSError):  # it is not empty when all went well
                folder.rmdir()


def _made(out: Path) -> list[Path]:
    """Make the folder and those above it; return the new ones, the deepest first."""
    missing = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise CannotWrite(out, error) from error
    return missing


def _exchange(new: Path, old: Path, out: Path, names: Sequence[str]) -> None:
    """Move older results aside and the new ones in; if one step fails, all are taken back."""
    undo: list[tuple[Path, Path]] = []
    steps = [(out / name, old / name) for name in names if (out / name).exists()]
    steps += [(path, out / path.name) for path in sorted(new.iterdir())]
    try:
        for source, target in steps:
            os.replace(source, target)
            undo.append((target, source))
    except BaseException:
        for source, target in reversed(undo):
            os.replace(source, target)
        raise
