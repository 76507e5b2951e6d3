"""The command line: ``main`` runs a command and turns what happens into an exit code and at most one line.

    0    success
    2    an error that the user can fix: an option, a name, a file, a missing extra
    130  interrupted by Ctrl-C
    143  terminated (kill, timeout, a batch system); unfinished files are removed first
    141  the reader of our output has ended (``knoll datasets iris | head``)
    1    a bug; the traceback is in a log file, whose path is shown

Nothing heavy is imported here: a command loads what it needs when it is called.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

__all__ = ["main"]

USER_ERROR, BUG, INTERRUPTED, BROKEN_PIPE, TERMINATED = 2, 1, 130, 141, 143
BAD_PATH = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS)  # of a path that the user gave
EXTRA = ("click", "jinja2", "matplotlib", "pyarrow", "rich")  # what pip install "knoll[cli]" brings
EXPLORE = ("starlette", "uvicorn")  # what "knoll[explore]" brings beside them


def main(args: Sequence[str] | None = None) -> int:
    """Run ``knoll`` with these arguments, or those of the command line, and return the exit code.

    Examples
    --------
    >>> from knoll.cli import main
    >>> main(["--version"])
    knoll 0.1.0
    0
    """
    if sys.stdout is None:
        return _print_error("standard output is closed. Open it, or redirect it to a file.", USER_ERROR)
    try:
        with _terminable():
            code = _run(sys.argv[1:] if args is None else list(args))
        sys.stdout.flush()
        return code
    except _Terminated:
        return _print_error("terminated; unfinished files were removed.", TERMINATED)
    except KeyboardInterrupt:
        return _print_error("interrupted; unfinished files were removed.", INTERRUPTED)
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except OSError as error:  # commands report their own files; what remains is standard output or a bad path
        if error.filename is not None and error.errno in BAD_PATH:
            return _print_error(
                f"cannot use {os.fsdecode(error.filename)}: {error.strerror}. Choose another path.", USER_ERROR
            )
        if not _is_output(error):
            return _report_bug(error)
        _discard_output()
        return _print_error(f"cannot write to standard output: {error.strerror}. Redirect it elsewhere.", USER_ERROR)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in (*EXTRA, *EXPLORE):
            return _report_bug(error)
        feature, extra = ("knoll explore", "explore") if package in EXPLORE else ("the command line", "cli")
        return _print_error(
            f'{feature} needs {package}, which is not installed. Run: pip install "knoll[{extra}]"', USER_ERROR
        )
    except Exception as error:
        if _is_known(error):
            return _print_error(str(error), USER_ERROR)
        if isinstance(error, MemoryError):
            return _print_error(f"not enough memory ({error}). Use fewer rows or columns.", USER_ERROR)
        return _report_bug(error)


class _Terminated(BaseException):
    """SIGTERM arrived. A BaseException, so that no handler of errors catches it on the way out."""


@contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM into an exception, as Ctrl-C is one, unless it has a handler already."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def end(*_: object) -> NoReturn:
        raise _Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run(args: list[str]) -> int:
    import click

    from knoll.cli._app import app

    if "_KNOLL_COMPLETE" in os.environ:  # the shell asks for completions
        app.main(args, prog_name="knoll")
    try:
        with app.make_context("knoll", args) as context:
            app.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.UsageError as error:
        hint = f" Try '{error.ctx.command_path} --help'." if error.ctx else ""
        return _print_error(error.format_message() + hint, USER_ERROR)
    except click.ClickException as error:
        return _print_error(error.format_message(), USER_ERROR)
    return 0


def _print_error(message: str, code: int) -> int:
    """Print one line on standard error, if that is open, and return the code."""
    from knoll.cli._terminal import visible

    if sys.stderr is not None:  # print(file=None) would go to standard output
        with suppress(OSError, ValueError):  # it may be closed or full, and there is no other stream for a message
            print("knoll:", visible(" ".join(message.split())), file=sys.stderr, flush=True)
    return code


def _is_output(error: OSError) -> bool:
    """Whether standard output failed, by lack of space or an error of the device; errors of files have a name."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EBADF)


def _discard_output() -> None:
    """Discard what the interpreter flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_known(error: Exception) -> bool:
    """Whether this is an error that the user can fix; a class not yet imported cannot have been raised."""
    exceptions = sys.modules.get("knoll.exceptions")
    return exceptions is not None and isinstance(error, exceptions.KnollError)


def _report_bug(error: Exception) -> int:
    """Write the traceback to a file and print its name."""
    import platform
    import tempfile
    import traceback

    from knoll import __version__
    from knoll.cli._terminal import visible

    with tempfile.NamedTemporaryFile("w", prefix="knoll-", suffix=".log", delete=False, encoding="utf-8") as log:
        log.write(f"knoll {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
        log.write(f"{sys.argv}\n\n" + visible("".join(traceback.format_exception(error)), keep="\n"))
    summary = f"{type(error).__name__}: {error}".rstrip(": ")
    return _print_error(f"internal error ({summary}). Please report it with {log.name}", BUG)
