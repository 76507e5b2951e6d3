"""Who computes a fit: this process, worker processes that it starts, or those of a scheduler; with a checkpoint."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from knoll._format import plural
from knoll.cli import _options

__all__ = ["Computing", "options"]

_SILENT = 50  # a level of logging: the fit itself reports what becomes of a lost worker
_CONNECT = 10  # seconds


def options() -> _options.Decorator:
    """Return the options of a command that may compute elsewhere."""
    made = (
        click.option("--workers", type=click.IntRange(1), metavar="N",
                     help="Compute on so many processes of this machine, each with one thread; needs knoll[dask]."),
        click.option("--scheduler", metavar="ADDRESS",
                     help="Compute on the workers of a dask scheduler, such as tcp://10.0.0.5:8786, who can read the "
                          "files; needs knoll[dask]."),
        click.option("--checkpoint", type=click.Path(path_type=Path), metavar="FILE",
                     help="Write down what each pass over the rows finds, so that the fit can go on after a crash; "
                          "removed at the end."),
        click.option("--resume", is_flag=True, help="Go on from --checkpoint."),
    )  # fmt: skip

    def decorated(command: Any) -> Any:
        for option in reversed(made):
            command = option(command)
        return command

    return decorated


class Computing:
    """The options."""

    def __init__(self, workers: int | None, scheduler: str | None, checkpoint: Path | None, resume: bool) -> None:
        if workers and scheduler:
            raise click.UsageError("--workers starts processes here, --scheduler takes those of a cluster. Choose one.")
        if resume and checkpoint is None:
            raise click.UsageError("--resume needs --checkpoint FILE, the file to go on from.")
        self._workers, self._scheduler, self.checkpoint, self._resume = workers, scheduler, checkpoint, resume

    @property
    def option(self) -> str | None:
        """The option that needs a method that reads blocks, or None."""
        options = {"--workers": self._workers, "--scheduler": self._scheduler, "--checkpoint": self.checkpoint}
        return next((name for name, value in options.items() if value), None)

    @property
    def note(self) -> str:
        """Who computes."""
        if self._workers:
            return f"computed by {plural(self._workers, 'worker process')}".replace("processs", "processes")
        return f"computed by the workers of {self._scheduler}" if self._scheduler else ""

    @contextlib.contextmanager
    def engine(self) -> Iterator[Any]:
        """Start workers, or connect to a scheduler; yield a client, or None to compute here."""
        if not (self._workers or self._scheduler):
            yield None
            return
        try:
            import distributed
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("dask", "distributed"):
                raise
            raise click.ClickException(
                f'{self.option} needs dask, which is not installed. Run: pip install "knoll[dask]"'
            ) from None
        # Tasks of dask that nobody waits for any more, after Ctrl-C, would be reported as errors.
        logging.getLogger("asyncio").setLevel(_SILENT)
        with contextlib.ExitStack() as stack:
            if self._workers:
                where = stack.enter_context(
                    distributed.LocalCluster(
                        n_workers=self._workers,
                        threads_per_worker=1,
                        processes=True,
                        host="127.0.0.1",
                        dashboard_address=None,
                        silence_logs=_SILENT,
                    )
                )
            else:
                where = self._scheduler
            yield stack.enter_context(self._client(distributed, where))

    def checked(self, client: Any) -> Any:
        """Return the engine of a fit: with the checkpoint, if there is one."""
        from knoll.engines.checkpoint import Checkpoint

        return client if self.checkpoint is None else Checkpoint(self.checkpoint, client, self._resume)

    def done(self) -> None:
        """Remove the checkpoint of a fit that has ended well."""
        if self.checkpoint is not None:
            self.checkpoint.unlink(missing_ok=True)

    def _client(self, distributed: Any, where: Any) -> Any:
        try:
            return distributed.Client(where, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise click.ClickException(
                f"no dask scheduler answers at {self._scheduler} ({_first_line(error)}). Check the address, such as "
                "tcp://10.0.0.5:8786, and that it runs."
            ) from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
