"""Processes for tests that need many of them: forked off one in which knoll and what it needs are loaded already.

Importing scikit-learn takes some seconds of processor time, which is more than most commands take themselves. The
fixtures `warm_knoll` and `warm_python` stand for ``[sys.executable, "-W", "error", "-m", "knoll"]`` and
``[sys.executable, "-c"]``: a process with the caller's standard streams, folder and environment, whose exit code is
that of the command. Not for what the interpreter reads when it starts (``PYTHON…``, ``KNOLL_ISA``), for imports, nor
for signals, which reach the client.
"""
