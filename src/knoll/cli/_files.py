"""Files appear whole or not at all: each is written under a temporary name in its folder, then renamed."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import click

from knoll.cli._terminal import VisibleBytes, on_terminal

STANDARD = "-"  # the name of standard output, as of standard input


class CannotWrite(click.ClickException):
    """An output file or folder cannot be written."""

    def __init__(self, path: Path, error: OSError, option: str = "--out", kept: Path | None = None) -> None:
        reason = error.strerror or str(error)
        older = "" if kept is None else f" The earlier files are in {kept}."
        super().__init__(f"cannot write {path}: {reason}. Choose another path with {option}.{older}")


def scratch_name(name: str) -> str:
    """Return a name for a file that is not yet complete; random, as process ids are reused."""
    return f".{name}.{secrets.token_hex(8)}.part"


@contextlib.contextmanager
def whole_file(path: Path, mode: str = "w", *, option: str = "--out") -> Iterator[IO[Any]]:
    """Open a file that replaces `path` when the block succeeds, and is removed when it fails.

    "-" is standard output.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "")
    try:
        if str(path) == STANDARD:
            output: IO[Any] = _standard() if "b" in mode else sys.stdout
            yield output
            output.flush()
            return
        if target.exists() and not target.is_file() and not target.is_dir():
            # A device or a pipe cannot be replaced, only written to.
            with target.open(mode, encoding=encoding, newline=newline) as device:
                yield device
            return
        scratch = target.with_name(scratch_name(target.name))
        with contextlib.ExitStack() as cleanup:
            with scratch.open(mode.replace("w", "x"), encoding=encoding, newline=newline) as file:
                cleanup.callback(scratch.unlink, missing_ok=True)
                yield file
            os.replace(scratch, target)
            cleanup.pop_all()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotWrite(path, error, option) from error


def _standard() -> IO[Any]:
    """Return standard output for bytes; on a terminal, control characters are escaped."""
    return cast(IO[Any], VisibleBytes(sys.stdout.buffer)) if on_terminal(sys.stdout) else sys.stdout.buffer


def check_folder(path: Path) -> None:
    """Refuse standard output where several files are to be written."""
    if str(path) == STANDARD:
        raise click.UsageError("--out must be a folder here, got - (standard output). Use a folder such as ./out.")


def folder(path: Path) -> Path:
    """Make the folder, and its parents, if they do not exist."""
    check_folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(path, error) from error
    return path
