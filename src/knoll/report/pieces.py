"""What the pages of a table have in common: their rows and colours as data for the script, clusters as cells."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knoll._format import number
from knoll._typing import Ints
from knoll.plots.style import PALETTE
from knoll.report.comparison_clusters import Cluster
from knoll.report.comparison_view import MAX_POINTS, Shown
from knoll.report.template import embedded

MAX_CLUSTERS = 12  # described; the labels file has all
MAX_COLUMNS = 10  # of the table of centres
_MAX_CHIPS = 8
_MAX_NUMBERS = 40_000_000  # of the rows that are drawn
_RESOLUTION = 10_000  # steps from one edge of a picture to the other


def source_hash(text: str) -> str:
    """Return the source expression of the content-security policy for this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def lighter(colour: str) -> str:
    """Return the colour for a dark background: a third of the way to white."""
    channels = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(channel + (255 - channel) / 3):02x}" for channel in channels)


def palette_rules() -> str:
    """Return the style of the colours of clusters, c0 and so on."""
    light = "".join(f".c{i} {{ --swatch: {colour}; }}\n" for i, colour in enumerate(PALETTE))
    dark = "".join(f"  .c{i} {{ --swatch: {lighter(colour)}; }}\n" for i, colour in enumerate(PALETTE))
    return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def drawn_rows(n: int, d: int, seed: int) -> Ints:
    """Choose the rows that are drawn: fewer if there are very many columns."""
    most = min(MAX_POINTS, max(200, _MAX_NUMBERS // d))
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, n]).choice(n, most, replace=False)).astype(np.int64)


def chips(labels: NDArray[Any], colours: Ints, names: Mapping[int, str] = {}) -> dict[str, Any]:
    """Return the largest clusters with their colours, sizes and names, and how many more there are."""
    numbers, first, sizes = np.unique(colours, return_index=True, return_counts=True)
    order = sorted(range(len(numbers)), key=lambda i: (numbers[i] < 0, -sizes[i]))
    chips = [
        {"number": int(numbers[i]), "colour": swatch(int(numbers[i])), "size": int(sizes[i]),
         "label": "noise" if numbers[i] < 0 else _chip(labels[first[i]], names)}
        for i in order
    ]  # fmt: skip
    return {"shown": chips[:_MAX_CHIPS], "more": max(0, len(chips) - _MAX_CHIPS)}


def _chip(label: Any, names: Mapping[int, str]) -> str:
    return f"{label} {names[label]}" if label in names else str(label)


def swatch(colour: int) -> str:
    """Return the class of a colour."""
    return "noise" if colour < 0 else f"c{colour % len(PALETTE)}"


def points_block(pictures: Sequence[Mapping[str, Any]], shown: Shown, ids: Sequence[Any] | NDArray[Any] | None) -> str:
    """Return the points for the script: integers relative to the window, ids as text."""
    (x0, x1), (y0, y1) = ((axis.low, axis.high) for axis in shown.axes)
    wide, high = x1 - x0, y1 - y0
    across = np.rint((shown.positions[:, 0] - x0) / wide * _RESOLUTION).astype(int).tolist()
    up = np.rint((shown.positions[:, 1] - y0) / high * _RESOLUTION).astype(int).tolist()
    names = shown.rows.tolist() if ids is None else [str(ids[row])[:80] for row in shown.rows]
    equal = shown.equal or (bool(shown.axes[1].name) and 0.25 < wide / high < 4)  # else a thin strip would be left
    ticks = [[((at - axis.low) / (axis.high - axis.low), text) for at, text in axis.ticks] for axis in shown.axes]
    return embedded({
        "fine": _RESOLUTION, "x": across, "y": up, "ids": names, "ratio": wide / high if equal else 0,
        "palette": list(PALETTE), "dark": [lighter(colour) for colour in PALETTE],
        "ticks": ticks,
        "methods": {
            picture["id"]: {"title": picture["title"], "colours": picture["colours"], "labels": picture["labels"]}
            for picture in pictures
        },
    })  # fmt: skip


def cluster_cells(
    cluster: Cluster, columns: Sequence[int], paint: int, write: Sequence[Callable[[float], str]], names: Sequence[str]
) -> dict[str, Any]:
    """Return what the tables show of a cluster; `write` turns a value of each column into text."""
    return {
        "label": "noise" if cluster.label < 0 else str(cluster.label),
        "colour": swatch(paint), "size": cluster.size, "share": f"{100 * cluster.share:.3g} %",
        "exact": round(100 * cluster.share, 3),
        "centre": [(write[j](float(cluster.centre[j])), _strength(float(cluster.differences[j]))) for j in columns],
        "traits": [
            {"column": trait.column, "direction": "higher" if trait.difference > 0 else "lower",
             "by": number(abs(trait.difference), 2), "here": write[names.index(trait.column)](trait.here),
             "elsewhere": write[names.index(trait.column)](trait.elsewhere)}
            for trait in cluster.traits
        ],
    }  # fmt: skip


def _strength(difference: float) -> str:
    """Return the CSS class of a difference in standard deviations."""
    size = 0 if abs(difference) < 0.5 else 1 if abs(difference) < 1.25 else 2
    return "usual" if size == 0 else f"{'above' if difference > 0 else 'below'}-{size}"
