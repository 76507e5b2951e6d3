"""The methods, one record each: names, class, cost of a row, and where its proposals and relations are.

Everything that lists methods reads it here: `knoll.compare` and its plan, the terminal, the report, `knoll fit`, model
files. To add a method, write its estimator and its proposer (`knoll.comparison.methods.Proposer`), and add a record.
Classes are named by dotted paths and imported when they are first needed, so this module imports no estimator.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Method:
    """What all of knoll knows of a method.

    The seconds are those of one core of 2.5 GHz at 8 columns, for a row where the work is linear in the rows, else for
    a pair of rows.
    """

    name: str  # for options, files and keys, such as "gaussian-mixture"
    title: str  # for people, such as "Gaussian mixture"
    estimator: str  # the dotted path of its class; empty: it has none of its own
    short: str = ""  # the name that `knoll fit` shows, if it is another
    proposer: str = ""  # the dotted path of what proposes settings for `knoll.compare`; empty: not compared
    row_seconds: float = 0.0
    pair_seconds: float = 0.0
    answer_seconds: float = 0.2  # of all its answers in `knoll.compare` for 2000 rows of 8 columns
    related: tuple[tuple[str, str], ...] = ()  # (relation, method at its other end)
    scales: tuple[str, ...] = ()  # parameters that its relations take over from a fit
    mixed: bool = False  # takes categories and missing values as they are; compared on tables that have some

    @property
    def estimator_name(self) -> str:
        """The name of the class."""
        return self.estimator.rpartition(".")[2]

    def estimator_class(self) -> Any:
        """Import the class of the estimator."""
        return _imported(self.estimator)

    def make_proposer(self) -> Any:
        """Make what proposes settings for this method."""
        return _imported(self.proposer)()

    def seconds(self, rows: int, columns: int) -> float:
        """Estimate the processor time of a fit."""
        width = max(1.0, columns / 8)
        return width * (rows * self.row_seconds if self.row_seconds else rows * rows * self.pair_seconds)


def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


_PROPOSERS = "knoll.comparison.methods"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("gaussian", "Gaussian", "knoll.gaussian.Gaussian"),
        Method(
            "mixed-mixture",
            "mixed mixture",
            "knoll.mixture.MixedMixture",
            proposer="knoll.comparison.mixed.MixedMixtureProposer",
            pair_seconds=1e-7,
            answer_seconds=0.8,
            mixed=True,
        ),
        Method(
            "k-prototypes",
            "k-prototypes",
            "knoll.kmeans.KPrototypes",
            proposer="knoll.comparison.mixed.KPrototypesProposer",
            pair_seconds=1e-7,
            answer_seconds=0.4,
            mixed=True,
        ),
        Method(
            "gaussian-mixture",
            "Gaussian mixture",
            "knoll.mixture.GaussianMixture",
            short="gmm",
            proposer=f"{_PROPOSERS}.MixtureProposer",
            row_seconds=1e-5,
            answer_seconds=0.9,
            related=(("mixture-to-kmeans", "kmeans"), ("mixture-distance", "kmeans")),
        ),
        Method(
            "kmeans",
            "k-means",
            "knoll.kmeans.KMeans",
            proposer=f"{_PROPOSERS}.KMeansProposer",
            row_seconds=4e-6,
            answer_seconds=0.1,
            related=(("kmeans-is-linear-kernel-kmeans", "kernel-kmeans"),),
        ),
        Method(
            "kernel-kmeans",
            "kernel k-means",
            "knoll.kernel_kmeans.KernelKMeans",
            proposer=f"{_PROPOSERS}.KernelKMeansProposer",
            pair_seconds=1.2e-7,
            answer_seconds=0.6,
            related=(("trace-relaxation", "spectral"), ("normalized-cut-is-kernel-kmeans", "spectral")),
        ),
        Method(
            "spectral",
            "spectral clustering",
            "knoll.spectral.SpectralClustering",
            proposer=f"{_PROPOSERS}.SpectralProposer",
            pair_seconds=4e-7,
            answer_seconds=1.2,
            related=(("spectral-is-dbscan", "dbscan"), ("gaussian-to-heaviside", "dbscan")),
            scales=("sigma",),
        ),
        Method(
            "dbscan",
            "DBSCAN",
            "knoll.density.DBSCAN",
            proposer=f"{_PROPOSERS}.DBSCANProposer",
            row_seconds=1e-5,
            answer_seconds=0.06,
            related=(
                ("dbscan-graph-and-climb", "mean-shift"),
                ("climb-to-mean-shift", "mean-shift"),
                ("every-eps-dbscan", "hdbscan"),
            ),
            scales=("eps", "min_samples"),
        ),
        Method(
            "hdbscan",
            "HDBSCAN",
            "knoll.density.HDBSCAN",
            proposer=f"{_PROPOSERS}.HDBSCANProposer",
            row_seconds=2e-5,
            answer_seconds=0.02,
        ),
        Method(
            "genie",
            "Genie",
            "",
            proposer=f"{_PROPOSERS}.GenieProposer",
            row_seconds=2e-5,
            answer_seconds=0.05,
        ),
        Method(
            "agglomerative",
            "agglomerative clustering",
            "knoll.hierarchy.AgglomerativeClustering",
            proposer=f"{_PROPOSERS}.LinkageProposer",
            pair_seconds=1e-7,
            answer_seconds=0.2,
            related=(("ward-is-kmeans-by-merging", "kmeans"), ("ward-is-gaussian-merging", "gaussian-mixture")),
        ),
        Method(
            "mean-shift",
            "Mean Shift",
            "knoll.density.MeanShift",
            proposer=f"{_PROPOSERS}.MeanShiftProposer",
            pair_seconds=1e-7,
            answer_seconds=0.5,
            related=(("mean-shift-is-em", "gaussian-mixture"),),
            scales=("bandwidth",),
        ),
        Method("optics", "OPTICS", "knoll.density.OPTICS", row_seconds=2e-5),
    )
}  # in the order of every table


def compared(mixed: bool = False) -> tuple[str, ...]:
    """Return the names of the methods that `knoll.compare` fits, in the order of its tables.

    Those for mixed tables are among them where the table has categories or missing values.
    """
    return tuple(name for name, method in METHODS.items() if method.proposer and (mixed or not method.mixed))


def find(name: str) -> Method | None:
    """Return the method of a name or a short name, if there is one."""
    by_short = (method for method in METHODS.values() if method.short == name)
    return METHODS.get(name) or next(by_short, None)


def title(name: str) -> str:
    """Return the title of a method; other names, such as "truth", are their own."""
    return METHODS[name].title if name in METHODS else name


def display_names(text: str) -> str:
    """Write the methods that a sentence names by their titles.

    Examples
    --------
    >>> from knoll.registry import display_names
    >>> display_names("Two groups, found by kmeans; dbscan agrees.")
    'Two groups, found by k-means; DBSCAN agrees.'
    """
    names = "|".join(map(re.escape, sorted(compared(mixed=True), key=len, reverse=True)))
    return re.sub(rf"(?<![\w-])(?:{names})(?![\w-])", lambda found: METHODS[found[0]].title, text)
