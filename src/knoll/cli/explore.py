"""``knoll explore``: an interactive page on a table, served on the loopback interface alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knoll.cli import _options
from knoll.cli._compare_options import parse_methods, parse_numbers
from knoll.cli._terminal import echo

if TYPE_CHECKING:
    from knoll.explorer import Session


@click.command("explore")
@_options.table_argument(required=False)
@_options.columns()
@_options.reading()
@_options.scale(default="auto")
@_options.metric()
@click.option("--methods", metavar="A,B,…", help="Methods of the recommendation; all that suit the table if not given.")
@click.option("--k", metavar="A..B", help="Numbers of clusters of the recommendation; 2 to 60 if not given.")
@_options.types()
@_options.log()
@_options.ignore()
@_options.missing_rule(default="model")
@_options.id_column()
@click.option("--truth", metavar="COLUMN", help="Known classes: shown beside the clusters, none is chosen by them.")
@_options.seed()
@_options.jobs()
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="About how long the recommendation may take in the background; 0.1 is hardly any.",
)
@click.option(
    "--recommend/--no-recommend",
    default=True,
    show_default=True,
    help="Whether the methods are compared in the background when the page opens.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The only folder that the page may write files to; without it exports are downloads.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="PORT", help="The port; a free one if not given."
)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option(
    "--idle",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="MINUTES",
    help="End after so long without a page; 0 is never.",
)
def command(
    data: str | None,
    methods: str | None,
    k: str | None,
    budget: float,
    recommend: bool,
    out: Path | None,
    port: int,
    no_open: bool,
    idle: float,
    **how: Any,
) -> None:
    """Find, question and keep clusters in an interactive page.

    DATA is a file as of `knoll compare`, a folder of its results, or the name of a built-in data set; without it the
    paper's data x1500 is taken. The address is printed as one line on standard output, with a secret of this run
    behind the #: whoever has it can use the page. It ends with Ctrl-C.

    \b
    Examples:
      knoll explore
      knoll explore customers.csv --id customer --out customers
      ssh -L 8000:127.0.0.1:8000 host knoll explore data.parquet --port 8000 --no-open
    """
    from knoll.explorer.server import Page  # its extra is named before the table is read

    requested = {"methods": parse_methods(methods), "k": parse_numbers(k)}
    session = _session(data, out, how)
    page = Page(session, port=port, idle=60 * idle)

    def ready() -> None:
        click.echo(page.address)
        echo(f"{_sized(session)}; Ctrl-C ends it.", err=True)
        if recommend and len(session.source) > 1 and session.comparison is None:
            session.background.begin(
                **{name: value for name, value in requested.items() if value is not None}, budget=budget
            )
        if not no_open:
            page.open_browser()

    page.run(ready)


def _session(data: str | None, out: Path | None, how: dict[str, Any]) -> Session:
    from knoll.cli._explore_results import is_results, open_results  # not for --help: they load NumPy
    from knoll.cli._explore_session import open_session

    if data is not None and is_results(Path(data)):
        return open_results(Path(data), out)
    return open_session(data, out, how)


def _sized(session: Session) -> str:
    from knoll._format import plural

    source = session.source
    return f"{source.name}: {plural(len(source), 'row')}, {plural(source.points.shape[1], 'column')}"
