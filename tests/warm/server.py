"""server.py SOCKET: load knoll, then fork a process for each client. Ends when its standard input does."""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import socket
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from typing import NoReturn

from knoll.cli import main
from knoll.cli._app import COMMANDS

HEAVY = ("matplotlib.pyplot", "pyarrow.csv", "pyarrow.parquet", "pyarrow.feather", "rich.console", "jinja2", "pandas")


def load() -> None:
    for name in COMMANDS:
        importlib.import_module(f"knoll.cli.{name}")
    for name in (*HEAVY, "knoll.comparison", "knoll.relations", "knoll.report", "knoll.tables", "knoll.models"):
        importlib.import_module(name)


def serve(listener: socket.socket) -> None:
    """Fork for each connection, until the tests end."""
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            attend(connection)
        connection.close()
        reap(os.WNOHANG)


def reap(options: int) -> None:
    """Collect processes that have ended, and with them the processor time they took."""
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        pass


def attend(connection: socket.socket) -> NoReturn:
    """Fork once more; wait for that process, and report how it ended."""
    head, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
    data = b""
    while len(data) < int.from_bytes(head, "little"):
        data += connection.recv(1 << 16)
    request = json.loads(data)
    process = os.fork()
    if process == 0:
        connection.close()
        code = ended_by(lambda: run(request, descriptors))
        sys.exit(code) if request["kind"] == "interpreter" else end(code)
    for descriptor in descriptors:
        os.close(descriptor)
    while (ended := os.waitpid(process, os.WNOHANG)) == (0, 0):
        if select.select([connection], [], [], 0.005)[0]:  # the client is gone
            os.kill(process, 9)
    connection.sendall(str(os.waitstatus_to_exitcode(ended[1])).encode())
    os._exit(0)


def ended_by(work: Callable[[], int]) -> int:
    """Return the exit code that the interpreter would end with, having shown what it would show."""
    try:
        return work()
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1


def end(code: int) -> NoReturn:
    """End as the interpreter does, but leave the memory to the system: to free all modules takes most of a second."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            traceback.print_exc()
            code = 120  # what the interpreter ends with
    os._exit(code)


def run(request: dict, descriptors: list[int]) -> int:
    """Become the process that was requested."""
    take_streams(dict(zip(request["streams"], descriptors, strict=True)))
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # it may be another one in that environment
    os.chdir(request["folder"])
    if request["kind"] == "knoll":
        warnings.simplefilter("error")
        sys.argv = ["knoll", *request["args"]]
        return main()
    exec(compile(request["args"][0], "<test>", "exec"), {"__name__": "__main__"})
    return 0


def take_streams(descriptors: dict[int, int]) -> None:
    """Make these the standard streams, as the interpreter does when it starts: None is one that is closed."""
    for target, name in enumerate(("stdin", "stdout", "stderr")):
        was = getattr(sys, f"__{name}__")
        stream = None
        if target in descriptors:
            os.dup2(descriptors[target], target)
            stream = open(  # noqa: SIM115  (it stays open)
                target,
                "r" if target == 0 else "w",
                buffering=1 if target == 2 or os.isatty(target) else -1,
                encoding=was.encoding,
                errors=was.errors,
                closefd=False,
            )
        else:
            os.close(target)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    for descriptor in descriptors.values():
        os.close(descriptor)


if __name__ == "__main__":
    load()
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        print("ready", flush=True)
        serve(listener)
        reap(0)
