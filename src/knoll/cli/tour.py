"""``knoll tour``: the paper, running, as one page or as files of its figures."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import click

from knoll._format import byte_size
from knoll.cli import _options
from knoll.cli._files import CannotWrite, folder, scratch_name
from knoll.cli._output import check_new
from knoll.cli._progress import counting
from knoll.cli._terminal import echo


@click.command("tour")
@_options.out_folder(
    "Write the page or the figures to this folder; it is made if it does not exist.", default=Path("tour")
)
@click.option("--figures", is_flag=True, help="Write the figures as PNG and SVG instead of the page.")
@_options.force("Replace a page or figures that exist.")
def command(out: Path, figures: bool, force: bool) -> None:
    """Make the paper's figures, tables and relations anew, as one page.

    Writes DIR/tour.html, which needs no network: the paper "An algorithmic introduction to clustering" retold, with its
    fourteen figures, six tables, its future work on hierarchies, and the certificates of all relations, from fits of
    this run. With --figures writes DIR/figure-01.png, DIR/figure-01.svg and so on.

    \b
    Example:
      knoll tour --out tour
    """
    for path in sorted(out.glob("figure-[0-9][0-9].*" if figures else "tour.html")):
        check_new(path, force)
    import matplotlib as mpl

    mpl.use("Agg")
    from threadpoolctl import threadpool_limits

    with _whole_folder(out) as scratch, threadpool_limits(1, "blas"):  # busy BLAS threads wait for each other
        written = _write_figures(scratch) if figures else _write_page(scratch)
    echo(f"{written} in {out}")


def _write_page(scratch: Path) -> str:
    from knoll.report.page import STEPS, page

    with counting(STEPS, plain=True) as done:
        text = page(done)
    target = scratch / "tour.html"
    target.write_text(text, encoding="utf-8")
    return f"tour.html ({byte_size(target.stat().st_size)})"


def _write_figures(scratch: Path) -> str:
    from knoll.report.figures import FIGURES
    from knoll.report.picture import save

    with counting(len(FIGURES), plain=True) as done:
        for make in FIGURES:
            picture = make()
            figure = picture.figure()
            for form in ("png", "svg"):
                metadata = {"Description": picture.alt} | ({"Date": None} if form == "svg" else {})
                save(figure, scratch / f"figure-{picture.number:02}.{form}", dpi=150, metadata=metadata)
            done(f"figure {picture.number}: {picture.title}")
    return f"{len(FIGURES)} figures, PNG and SVG,"


@contextlib.contextmanager
def _whole_folder(out: Path) -> Iterator[Path]:
    """Give a folder to write into; its files appear in `out` together when the block ends well, or not at all."""
    new = not out.exists()
    target = folder(out)
    scratch = target / scratch_name("tour")
    try:
        scratch.mkdir()
    except OSError as error:
        raise CannotWrite(out, error) from error
    try:
        yield scratch
        for file in sorted(scratch.iterdir()):
            os.replace(file, target / file.name)
    except OSError as error:
        raise CannotWrite(out, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if new:
            with contextlib.suppress(OSError):  # it is not empty when all went well
                target.rmdir()
