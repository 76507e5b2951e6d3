"""The tour as one self-contained HTML page."""

from __future__ import annotations

import base64
import html
import io
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from knoll import relations
from knoll.report.certificates import DATA, Certified, certified
from knoll.report.figures import ARROWS_14, ARROWS_16, FIGURES
from knoll.report.paths import PATHS, Film
from knoll.report.picture import DARK, LIGHT, Panel, Picture, png, save
from knoll.report.tables import TABLES
from knoll.report.template import embedded, read, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECTIONS = (
    (1, "Introduction"),
    (2, "Mixtures"),
    (3, "k-means"),
    (4, "Spectral clustering"),
    (5, "DBSCAN"),
    (6, "Mean Shift"),
    (7, "Conclusions and hierarchies"),
)
STEPS = len(FIGURES) + len(TABLES) + len(PATHS) + len(relations.all())  # how often `done` is called

_DPI = 190
_MAPS = (1, 14, 16)  # drawn larger than the others
_LINKED = (14, 16)  # the figures with links: embedded as SVG


def page(done: Callable[[str], None] = lambda text: None, data: tuple[str, ...] = DATA) -> str:
    """Return the page, with certificates for `data`; `done` is called after each piece."""
    begun = time.perf_counter()
    pictures, tables, films, certificates = {}, {}, {}, []
    for make in FIGURES:
        picture = make()
        pictures[picture.number] = _picture(picture)
        done(f"figure {picture.number}: {picture.title}")
    for tabulate in TABLES:
        table = tabulate()
        tables[table.number] = table
        done(f"table {table.number}: {table.title}")
    for make_film in PATHS:
        film = make_film()
        films[film.relation] = _film(film)
        done(f"path: {film.title}")
    for relation in relations.all():
        certificates.append(_certificates(certified(relation, data)))
        done(f"certificates: {relation.name}")
    arrows = {
        figure: [(arrow.number, relations.get(arrow.relation)) for arrow in drawn]
        for figure, drawn in ((14, ARROWS_14), (16, ARROWS_16))
    }
    return render(
        "tour.html", pictures=pictures, tables=tables, films=films, certificates=certificates, sections=SECTIONS,
        arrows=arrows, data_names=data, css=read("tour.css"), script=read("player.js"),
        seconds=f"{time.perf_counter() - begun:.0f}",
    )  # fmt: skip


# ---- pieces --------------------------------------------------------------------------------------------------------


def _picture(picture: Picture) -> dict[str, Any]:
    return {
        "number": picture.number, "title": picture.title, "finding": picture.finding,
        "panels": [_panel(panel, picture.number) for panel in picture.panels],
    }  # fmt: skip


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"title": panel.title, "alt": panel.alt, "svg": "", "map": number in _MAPS}
    if number in _LINKED:
        return {**shown, "svg": _inline(panel.figure(), panel.alt, f"map-{number}-")}
    width, height = (round(_DPI * side) for side in panel.size)
    light, dark = (_address(png(panel.figure(theme), _DPI)) for theme in (LIGHT, DARK))
    return {**shown, "light": light, "dark": dark, "width": width // 2, "height": height // 2}


def _address(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode()


def _inline(figure: Figure, alt: str, prefix: str) -> str:
    """Return the SVG as an element of the page, with text, links, and the colours of the page; ids have a prefix."""
    import matplotlib as mpl

    raw = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "knoll"}):
        save(figure, raw, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"<metadata>.*?</metadata>", "", raw.getvalue(), flags=re.DOTALL)
    text = text[text.index("<svg") :]
    opening = re.match(r"<svg[^>]*viewBox=\"([^\"]+)\"[^>]*>", text)
    assert opening is not None
    text = f'<svg viewBox="{opening[1]}" role="group" aria-label="{html.escape(alt)}">' + text[opening.end() :]
    for fixed, ours in ((LIGHT.paper, "var(--card)"), (LIGHT.ink, "var(--ink)")):
        text = text.replace(fixed, ours)
    text = re.sub(r'(id="|url\(#|href="#)(?!certificate-)', rf"\1{prefix}", text)
    # links within the page, with a name; the disc behind a number is hidden from assistive technology
    text = re.sub(r'<a xlink:href="#certificate-([^"]+)"[^>]*>', r'<a href="#certificate-\1" aria-label="\1">', text)
    return re.sub(r"(<a [^>]*)>(\s*<path)", r'\1 tabindex="-1" aria-hidden="true">\2', text)


def _film(film: Film) -> dict[str, Any]:
    return {
        "title": film.title, "text": film.text, "alt": film.alt, "count": len(film.data["frames"]),
        "json": embedded(film.data),
    }  # fmt: skip


def _certificates(found: Certified) -> dict[str, Any]:
    rows = []
    for data, certificate in found.certificates.items():
        if certificate.applies:
            summary = str(certificate.tightest)
        else:
            summary = str(next(condition for condition in certificate.preconditions if not condition.holds))
        measured, there = found.rows[data]
        rows.append({
            "data": data, "verdict": certificate.verdict, "summary": summary, "seconds": f"{certificate.seconds:.2f}",
            "rows": str(there) if measured == there else f"{measured} of {there}", "full": str(certificate),
        })  # fmt: skip
    relation = found.relation
    return {
        "name": relation.name, "source": relation.source, "target": relation.target, "statement": relation.statement,
        "formula": relation.formula, "rows": rows,
    }  # fmt: skip
