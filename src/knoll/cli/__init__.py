"""The command line: ``main`` runs a command and turns what happens into an exit code and at most one line.

    0    done
    2    something the user can mend: an option, a name, a file, a missing extra
    130  Ctrl-C
    143  terminated (kill, timeout, a batch system): unfinished files are taken away first
    141  whoever read our output went away (``knoll datasets iris | head``)
    1    a bug of ours; the traceback is in a log file, whose path is shown

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

MENDABLE, BUG, INTERRUPTED, READER_GONE, TERMINATED = 2, 1, 130, 141, 143
BAD_PATH = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS)  # of a path that the user gave
EXTRA = ("click", "jinja2", "matplotlib", "pyarrow", "rich")  # what pip install "knoll[cli]" brings


def main(args: Sequence[str] | None = None) -> int:
    """Run ``knoll`` with these words, or those of the command line, and return the exit code.

    Examples
    --------
    >>> from knoll.cli import main
    >>> main(["--version"])
    knoll 0.1.0
    0
    """
    if sys.stdout is None:
        return _say("standard output is closed. Open it, or send it to a file.", MENDABLE)
    try:
        with _terminable(), _heard():
            code = _run(sys.argv[1:] if args is None else list(args))
        sys.stdout.flush()
        return code
    except _Terminated:
        return _say("terminated; no unfinished file was kept.", TERMINATED)
    except KeyboardInterrupt:
        return _say("interrupted; no unfinished file was kept.", INTERRUPTED)
    except BrokenPipeError:
        _forget_output()
        return READER_GONE
    except OSError as error:  # commands tell of their own files; what is left is the terminal's or the shell's
        if error.filename is not None and error.errno in BAD_PATH:
            return _say(f"cannot use {os.fsdecode(error.filename)}: {error.strerror}. Choose another path.", MENDABLE)
        if not _is_output(error):
            return _report(error)
        _forget_output()
        return _say(f"the output could not be written: {error.strerror}. Send it elsewhere.", MENDABLE)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            return _report(error)
        return _say(f'the command line needs {package}, which is missing. pip install "knoll[cli]"', MENDABLE)
    except Exception as error:
        if _is_ours(error):
            return _say(str(error), MENDABLE)
        if isinstance(error, MemoryError):
            return _say(f"there is not enough memory ({error}). Take fewer rows or columns.", MENDABLE)
        return _report(error)


class _Terminated(BaseException):
    """SIGTERM came. No Exception, so that nothing but the clean-up on the way out takes notice."""


@contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM into an exception, as Ctrl-C is one, unless somebody else already listens to it."""
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


@contextmanager
def _heard() -> Iterator[None]:
    """Send a signal once more whose exception fell into a finalizer or a callback, where Python drops exceptions."""
    before = sys.unraisablehook
    signals = {KeyboardInterrupt: signal.SIGINT, _Terminated: signal.SIGTERM}

    def again(dropped: sys.UnraisableHookArgs) -> None:
        if number := signals.get(dropped.exc_type):
            threading.Timer(0.01, os.kill, (os.getpid(), number)).start()  # by then the callback has returned
        else:
            before(dropped)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


def _run(words: list[str]) -> int:
    import click

    from knoll.cli._app import app

    if "_KNOLL_COMPLETE" in os.environ:  # the shell asks for completions
        app.main(words, prog_name="knoll")
    try:
        with app.make_context("knoll", words) as context:
            app.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.UsageError as error:
        hint = f" Try '{error.ctx.command_path} --help'." if error.ctx else ""
        return _say(error.format_message() + hint, MENDABLE)
    except click.ClickException as error:
        return _say(error.format_message(), MENDABLE)
    return 0


def _say(message: str, code: int) -> int:
    """Print one line on stderr, if that is open, and return the code."""
    from knoll.cli._terminal import visible

    if sys.stderr is not None:  # print(file=None) would go to standard output
        with suppress(OSError, ValueError):  # it may be closed or full, and there is nowhere else to say so
            print("knoll:", visible(" ".join(message.split())), file=sys.stderr, flush=True)
    return code


def _is_output(error: OSError) -> bool:
    """Whether standard output is what failed: no room, or an error of the device; files bear a name."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EBADF)


def _forget_output() -> None:
    """Let the interpreter's last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_ours(error: Exception) -> bool:
    """Whether this is an error that the user can mend; one not yet imported cannot have been raised."""
    exceptions = sys.modules.get("knoll.exceptions")
    return exceptions is not None and isinstance(error, exceptions.KnollError)


def _report(error: Exception) -> int:
    """Keep the traceback in a file and name it."""
    import platform
    import tempfile
    import traceback

    from knoll import __version__
    from knoll.cli._terminal import visible

    with tempfile.NamedTemporaryFile("w", prefix="knoll-", suffix=".log", delete=False, encoding="utf-8") as log:
        log.write(f"knoll {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
        log.write(f"{sys.argv}\n\n" + visible("".join(traceback.format_exception(error)), keep="\n"))
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    return _say(f"a bug in knoll ({what}). Please report it with {log.name}", BUG)
