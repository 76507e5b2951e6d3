"""A folder of results appears whole or not at all, and earlier results are replaced only if knoll wrote them."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from knoll.cli._files import CannotWrite, check_folder, scratch_name
from knoll.cli._manifest import names_of, owned

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EROFS)  # of a write to an open file


def check_results(out: Path, names: Sequence[str], force: bool, table: str | None = None) -> None:
    """Refuse, before any work, a folder with files under these names, unless they are ours and to be replaced.

    The file that is read, `table`, is never replaced.
    """
    check_folder(out)
    if out.exists() and not out.is_dir():
        raise click.ClickException(f"cannot write {out}: it is a file. Choose another path with --out.")
    ours = owned(out)
    _check_foreign(out, names, ours)
    if table is not None and os.path.exists(table):
        for name in sorted(ours):
            if os.path.exists(out / name) and os.path.samefile(out / name, table):
                raise click.ClickException(
                    f"{table} is an input of this command and would be replaced. Choose another path with --out."
                )
    there = sorted(name for name in ours if force is False and os.path.lexists(out / name))
    if there:
        raise click.ClickException(
            f"{out} already has results of knoll ({', '.join(there)}). "
            "Choose another path with --out, or replace them with --force."
        )


def _check_foreign(out: Path, names: Sequence[str], ours: set[str]) -> None:
    """Refuse to replace a file, a link or a folder that knoll did not write."""
    for name in names:
        for path in (*(out / folder for folder in Path(name).parents if folder.name), out / name):
            is_folder = path != out / name and path.is_dir() and not path.is_symlink()
            if os.path.lexists(path) and not is_folder and name not in ours:
                raise click.ClickException(
                    f"{path} exists, and knoll did not write it or it was changed since. Choose another path "
                    "with --out, or move it."
                )


@contextlib.contextmanager
def whole_results(out: Path, force: bool) -> Iterator[Path]:
    """Give a scratch folder; its files replace older results in `out` when the block ends well.

    With `force` the files that knoll wrote there before are removed first, also those that this run does not write. All
    other files in `out` are left alone: where one of them has a name that is needed, nothing changes.
    """
    made = _made(out)
    scratch = out / scratch_name("knoll")
    new, old = scratch / "new", scratch / "old"
    try:
        try:
            new.mkdir(parents=True)
            old.mkdir()
        except OSError as error:
            raise CannotWrite(out, error) from error
        with _writing(out, scratch):
            yield new
        _move_in(new, old, out, force)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        for folder in (old / "models", old, scratch, *made):
            with contextlib.suppress(OSError):  # not empty: our results, or older ones that could not be put back
                folder.rmdir()


@contextlib.contextmanager
def _writing(out: Path, scratch: Path) -> Iterator[None]:
    """Report that files of the scratch folder cannot be written; other errors, as those of an import, pass."""
    try:
        yield
    except OSError as error:
        if _lies_in(error.filename, scratch) or (error.filename is None and error.errno in _NO_SPACE):
            raise CannotWrite(out, error) from error
        raise


def _lies_in(name: Any, folder: Path) -> bool:
    return isinstance(name, str | Path) and Path(os.path.realpath(name)).is_relative_to(os.path.realpath(folder))


def _move_in(new: Path, old: Path, out: Path, force: bool) -> None:
    """Exchange the files while no other run does; where another program wrote here, keep the new ones beside them."""
    try:
        with _locked(out):
            try:
                _exchange(new, old, out, force)
            except click.ClickException as error:
                kept = Path(tempfile.mkdtemp(prefix="results.", dir=out))
                os.replace(new, kept)
                raise click.ClickException(f"{error.message} The results of this run are in {kept}.") from None
    except OSError as error:
        raise CannotWrite(out, error, kept=old if any(old.rglob("*.*")) else None) from error


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


@contextlib.contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Let one run at a time exchange the files of a folder, where the system has such locks."""
    import fcntl

    handle = os.open(out, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have none
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _exchange(new: Path, old: Path, out: Path, force: bool) -> None:
    """Move older results aside and the new ones in; if one step fails, all are taken back."""
    names = names_of(new)
    ours = owned(out) if force else set()
    _check_foreign(out, names, ours)  # once more: other programs may have written meanwhile
    undo: list[tuple[Path, Path]] = []
    made: list[Path] = []
    steps = [(out / name, old / name) for name in sorted(ours)] + [(new / name, out / name) for name in names]
    try:
        for source, target in steps:
            if not target.parent.exists():
                target.parent.mkdir()
                made.append(target.parent)
            os.replace(source, target)
            undo.append((target, source))
    except BaseException:
        for source, target in reversed(undo):
            with contextlib.suppress(OSError):  # what cannot be put back stays in `old`
                os.replace(source, target)
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
