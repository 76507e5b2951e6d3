"""Where a session is shown from Python: a page in the browser, or a widget below a cell of a notebook."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knoll.exceptions import BadData, InvalidParameter
from knoll.explorer.session import Session
from knoll.explorer.source import Source

if TYPE_CHECKING:
    from knoll.comparison import Comparison

__all__ = ["explore", "explore_comparison", "show_session"]


def explore(
    data: Any = "x1500",
    *,
    labels: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    show: bool = True,
    browser: bool | None = None,
    wait: bool | None = None,
    recommend: bool = True,
    **options: Any,
) -> Session:
    """Explore a table interactively: find clusters, question them, edit them, and take them away.

    The page is that of ``knoll explore``. In a Jupyter notebook it is a widget below the cell (extra ``notebook``);
    elsewhere it opens in the browser (extra ``explore``). The session that is returned is what the page shows: after
    some work in the page, ``session.labels`` are the labels on screen.

    Parameters
    ----------
    data : data frame, array, str or path, default="x1500"
        The table: rows that `knoll.compare` takes, a file, or the name of a built-in data set.
    labels : mapping, default=None
        Labels of the rows by any other library, by the name under which they are shown.
    out : path, default=None
        The only folder that the page may write files to; None: exports are downloads.
    show : bool, default=True
        Whether it is shown; False returns the session alone, for scripts.
    browser : bool, default=None
        True opens the browser in a notebook, too; None is a widget where there is a notebook with anywidget.
    wait : bool, default=None
        Whether to return only when the server ends, by Ctrl-C; None: if Python is not interactive, since a script
        that ends takes its page along.
    recommend : bool, default=True
        Whether the methods are compared in the background.
    options :
        Those of `knoll.compare` that define how a table is read and scaled: columns, types, log, ignore, missing,
        scale, metric, seed, n_jobs; of a file also header, ids and truth.

    Returns
    -------
    Session
        What is explored; ``close()`` ends its server.

    Examples
    --------
    >>> import knoll
    >>> from sklearn.cluster import Birch
    >>> X = knoll.datasets.iris().X
    >>> session = knoll.explore(X, labels={"birch": Birch(n_clusters=3).fit_predict(X)}, show=False)
    >>> session.answer.title, session.n_clusters
    ('birch', 3)
    """
    session = Session.open(data, labels=labels, out=out, **options)
    return show_session(session, browser, wait, recommend) if show else session


def explore_comparison(
    found: Comparison,
    *,
    labels: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    show: bool = True,
    browser: bool | None = None,
    wait: bool | None = None,
) -> Session:
    """Explore the rows of a comparison, whose answers are there from the beginning."""
    session = Session(Source.of(found), labels=labels, comparison=found, out=out)
    return show_session(session, browser, wait, False) if show else session


def show_session(
    session: Session, browser: bool | None = None, wait: bool | None = None, recommend: bool = True
) -> Session:
    """Show a session in the host at hand, and return it."""
    if browser is None:
        browser = not (in_notebook() and find_spec("anywidget") is not None)
    if recommend and session.comparison is None and len(session.source) > 1:
        session.background.begin()
    if browser:
        _open_page(session, wait)
    else:
        from IPython.display import display  # it is there: this is a notebook

        from knoll.explorer.widget import ExplorerWidget

        widget = ExplorerWidget(session)
        session.host = widget
        display(widget)
    return session


def in_notebook() -> bool:
    """Whether this is a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


def _open_page(session: Session, wait: bool | None) -> None:
    try:
        from knoll.explorer.server import Page
    except ModuleNotFoundError as error:
        raise InvalidParameter(f'the page needs {error.name}. Run: pip install "knoll[explore]"') from None
    if session.host is not None:
        raise BadData("this session is shown already. Close it first: session.close().")
    page = Page(session)
    session.host = page
    interactive = hasattr(sys, "ps1") or bool(sys.flags.interactive) or "IPython" in sys.modules
    if wait or (wait is None and not interactive):
        page.run(page.open_browser)
        session.host = None
    else:
        page.start()
        page.open_browser()
