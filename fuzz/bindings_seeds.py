"""Valid calls of `knoll._core`, from which the fuzz of the bindings starts.

Calls are recorded: small fits run with a proxy for `knoll._core` that keeps a copy of the arguments of each
call. So every function that the package uses has seeds with arguments as they really are. What no fit reaches has
seeds of its own in `by_hand`.

    python -m fuzz.bindings_seeds seeds.pickle     record, write, and list the number of seeds of each function
"""

from __future__ import annotations

import math
import pickle
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

MOST = 8_000  # elements of an array in a seed
PER_FUNCTION = 40  # seeds
CLASSES = {
    "Index": (),
    "KernelOperator": (),
    "LloydMemory": ("step", "step_csr"),
}  # and the methods that change the instance
# These take no argument that could be wrong, or change the process.
LEFT_OUT = {
    "CancelToken", "Cancelled", "any_cancelled", "build_info", "enter_token", "get_num_threads", "leave_token",
    "pool_workers", "set_num_threads",
}  # fmt: skip


@dataclass
class Seed:
    """One call: a function, or a method of an instance made by `owner` after the calls `before`."""

    name: str  # "assign", "Index", "Index.count"
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    owner: Seed | None = None
    before: list[Seed] = field(default_factory=list)

    def key(self) -> tuple[Any, ...]:
        """Distinguish calls that may take different paths; equal keys are recorded once."""
        owner = () if self.owner is None else self.owner.key()
        return (self.name, owner, len(self.before), *(sketch(a) for a in (*self.args, *self.kwargs.values())))


def sketch(value: Any) -> Any:
    """Reduce an argument to its type, and numbers and lengths to their order of magnitude."""
    if isinstance(value, np.ndarray):
        return (
            value.dtype.str,
            *(min(length, 4) if axis else rough(length) for axis, length in enumerate(value.shape)),
        )
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int):
        return rough(value)
    if isinstance(value, float):
        return ("nan" if math.isnan(value) else math.isinf(value), value > 0)
    return type(value).__name__


def rough(number: int) -> int:
    """Sort 0, 1, and then every power of eight apart."""
    return -1 if number < 0 else min(number, 2) if number < 8 else 3 + int(math.log(number, 8))


def copied(value: Any) -> Any:
    """Copy arrays, which a call may write to."""
    return value.copy(order="K") if isinstance(value, np.ndarray) else value


class Recorder:
    """Stands in for `knoll._core` and keeps the calls that succeed."""

    def __init__(self, core: types.ModuleType) -> None:
        self.core = core
        self.seeds: dict[str, dict[tuple[Any, ...], Seed]] = {}
        self.shared: dict[str, set[tuple[int, int]]] = {}  # pairs of arguments that share memory

    def call(self, function: Callable[..., Any], seed: Seed) -> Any:
        """Make a call, and keep a copy of its arguments if no call like it was kept."""
        kept = self.seeds.setdefault(seed.name, {})
        arrays = [(i, a) for i, a in enumerate(seed.args) if isinstance(a, np.ndarray)]
        pairs = {(i, j) for i, a in arrays for j, b in arrays if i < j and np.may_share_memory(a, b)}
        if pairs:
            self.shared.setdefault(seed.name, set()).update(pairs)
        wanted = len(kept) < PER_FUNCTION and all(a.size <= MOST for _, a in arrays)
        if wanted and (key := seed.key()) not in kept:
            args, kwargs = seed.args, seed.kwargs
            seed.args = tuple(copied(a) for a in args)
            seed.kwargs = {name: copied(a) for name, a in kwargs.items()}
            answer = function(*args, **kwargs)
            kept[key] = seed
            return answer
        return function(*seed.args, **seed.kwargs)

    def module(self) -> types.ModuleType:
        """Make the module that the package imports."""
        proxy = types.ModuleType("knoll._core")
        for name, value in vars(self.core).items():
            if name in CLASSES:
                value = self.wrapped_class(name, value)
            elif callable(value) and not name.startswith("_") and name not in LEFT_OUT:
                value = self.wrapped(name, value)
            setattr(proxy, name, value)
        return proxy

    def wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Stand in for a function."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return self.call(function, Seed(name, args, kwargs))

        return call

    def wrapped_class(self, name: str, real: type) -> type:
        """Stand in for a class: its instances keep the calls that they came from."""
        recorder = self

        class Instance:
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                self._made = Seed(name, args, kwargs)
                self._before: list[Seed] = []
                self._real = recorder.call(real, self._made)

            def __getattr__(self, attribute: str) -> Any:
                value = getattr(self._real, attribute)
                seed = Seed(f"{name}.{attribute}", (), {}, self._made, list(self._before))
                if not callable(value):
                    return recorder.call(lambda: value, seed)

                def call(*args: Any, **kwargs: Any) -> Any:
                    seed.args, seed.kwargs = args, kwargs
                    answer = recorder.call(value, seed)
                    if attribute in CLASSES[name]:
                        self._before = [*self._before[-1:], seed]
                    return answer

                return call

        return Instance


def fits() -> Iterator[Any]:
    """Give fits of every family on small data: dtypes, layouts, sparse data, weights, metrics, many and few rows."""
    import scipy.sparse

    import knoll
    from knoll import scales, tuning
    from knoll.density.tree import DensityTree

    rng = np.random.default_rng(0)

    def blobs(n: int, d: int, k: int = 3, dtype: Any = np.float64) -> Any:
        return (rng.normal(size=(n, d)) + 6 * rng.integers(0, k, size=(n, 1))).astype(dtype)

    def mixed(X: Any, shape: str) -> Any:
        rows = np.column_stack([X, np.arange(len(X)) % 3])
        rows[::5, 0] = rows[::7, -1] = np.nan
        model = knoll.MixedMixture(
            3, categorical_features=[X.shape[1]], covariance_type=shape, random_state=0, max_iter=3
        )
        return model.fit(rows, sample_weight=np.linspace(0.5, 2, len(X))).impute(rows)

    small, wide, line, large = blobs(60, 2), blobs(50, 9), blobs(40, 1), blobs(3000, 2)
    weights = rng.uniform(0.5, 2, 60)
    for data in (small, small.astype(np.float32), np.asfortranarray(small), wide, wide.astype(np.float32), line, large):
        for algorithm in ("lloyd", "elkan", "auto"):
            for k in (1, 4, 30):
                yield (
                    lambda X=data, a=algorithm, k=k: (
                        knoll.KMeans(k, algorithm=a, random_state=0, n_init=1, max_iter=5).fit(X).transform(X)
                    )
                )
    yield lambda: knoll.KMeans(3, random_state=0).fit(small, sample_weight=weights).score(small)
    yield lambda: knoll.KMeans(3, init="random", random_state=0).fit(small, sample_weight=weights).predict(small)
    yield lambda: knoll.KMeans(8, random_state=0, n_init=2).fit(np.repeat(small[:6], 9, axis=0))
    yield lambda: knoll.KMeans(3, init=np.array([[0.0, 0], [1e3, 0], [2e3, 0]]), n_init=1).fit(small)
    yield lambda: knoll.KMeans(3, random_state=0).fit_blocks(lambda: iter([small[:30], small[30:]]))
    for dtype in (np.float64, np.float32):
        for index in (np.int32, np.int64):
            X: Any = scipy.sparse.random(80, 12, 0.3, format="csr", random_state=0, dtype=dtype)
            X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
            for k in (3, 90):
                yield lambda X=X, k=k: knoll.KMeans(min(k, 79), random_state=0, n_init=1).fit(X).transform(X)
            yield lambda X=X: knoll.KMeans(3, init=X.toarray()[:3] + 50, n_init=1, random_state=0).fit(
                X, sample_weight=np.arange(80.0)
            )
            yield lambda X=X: knoll.KMeans(3, init="random", n_init=1, random_state=0).fit(X).score(X)
    for data in (small, small.astype(np.float32), wide, large):
        n = len(data)
        yield lambda X=data: knoll.Gaussian().fit(X).score_samples(X)
        yield lambda X=data: knoll.Gaussian(random_state=0).fit(X, sample_weight=np.arange(1.0, len(X) + 1)).sample(20)
        for shape in ("full", "tied", "diag", "spherical"):
            for noise in (False, 0.1):
                yield (
                    lambda X=data, s=shape, noise=noise: (
                        knoll.GaussianMixture(3, covariance_type=s, noise=noise, random_state=0, max_iter=4, tol=0.5)
                        .fit(X)
                        .predict_proba(X)
                    )
                )
            yield (
                lambda X=data, s=shape: (
                    knoll.GaussianMixture(
                        3, covariance_type=s, init_params="random", random_state=0, max_iter=3, tol=0.5
                    )
                    .fit(X, sample_weight=np.linspace(0.5, 2, len(X)))
                    .score_samples(X)
                )
            )
        for shape in ("full", "diag"):
            yield lambda X=data, s=shape: mixed(X, s)
        for formulation in ("graph", "climbing", "spectral"):
            if n < 100:
                yield lambda X=data, f=formulation: knoll.DBSCAN(2.0, formulation=f, min_samples=3).fit(X).predict(X)
        for metric, p in (
            ("euclidean", None),
            ("manhattan", None),
            ("chebyshev", None),
            ("minkowski", 1.5),
            ("cosine", None),
        ):
            for border in ("closest", "first", "noise"):
                yield (
                    lambda X=data, m=metric, p=p, b=border: (
                        knoll.DBSCAN(0.7, metric=m, p=p, border=b, min_samples=4).fit(X).predict(X[:20])
                    )
                )
        yield lambda X=data: knoll.DBSCAN(0.7).fit(X, sample_weight=np.linspace(0.5, 2, len(X)))
        yield lambda X=data: DensityTree(4).fit(X).cut(0.7)
        yield lambda X=data: DensityTree(4).fit(X, sample_weight=np.linspace(0.5, 2, len(X))).eom()
        yield lambda X=data: DensityTree(4).fit(X).genie([2, 3])
        yield lambda X=data: DensityTree(4, alpha=1.5).fit(np.round(X)).genie(3)
        yield lambda X=data: DensityTree(4).fit(X).centers(3)
        yield lambda X=data: DensityTree(4).fit(X).bands()
        yield lambda X=data: DensityTree(4).fit(X).curves()
        yield lambda X=data: scales.estimate_eps(X)
        yield lambda X=data: scales.estimate_sigma(X)
        yield lambda X=data: scales.estimate_bandwidth(X)
        yield lambda X=data: scales.k_distances(X, 4)
        if n < 100:
            for kernel in ("flat", "gaussian"):
                yield lambda X=data, k=kernel: knoll.MeanShift(bandwidth=2.0, kernel=k, max_iter=20).fit(X).predict(X)
            yield lambda X=data: knoll.MeanShift(bandwidth=2.0, bin_seeding=True).fit(X, sample_weight=np.ones(len(X)))
            for kernel in ("rbf", "poly", "linear", "heaviside"):
                for search in (False, True):
                    yield (
                        lambda X=data, k=kernel, s=search: (
                            knoll.KernelKMeans(3, kernel=k, eps=2.0, local_search=s, random_state=0, max_iter=5)
                            .fit(X, sample_weight=np.linspace(0.5, 2, len(X)))
                            .predict(X)
                        )
                    )
            for operator in ("auto", "tiles", "truncated", "cholesky"):
                yield (
                    lambda X=data, o=operator: (
                        knoll.SpectralClustering(3, operator=o, sigma=1.0, random_state=0, n_init=1).fit(X).predict(X)
                    )
                )
            yield lambda X=data: knoll.SpectralClustering(3, affinity="nearest_neighbors", random_state=0).fit(X)
    links = np.ones((len(small), len(small)))
    for linkage in ("ward", "average", "complete", "single"):
        yield lambda k=linkage: knoll.AgglomerativeClustering(3, linkage=k).fit(small)
        yield lambda k=linkage: knoll.AgglomerativeClustering(3, linkage=k).fit(small, sample_weight=links[0] + 1)
        yield lambda k=linkage: knoll.AgglomerativeClustering(3, linkage=k, connectivity=links).fit(small)
    yield lambda: knoll.AgglomerativeClustering(3, linkage="average").fit(small.astype(np.float32))
    yield lambda: knoll.AgglomerativeClustering(3).fit(small.astype(np.float32))
    for metric in ("euclidean", "manhattan", "chebyshev"):
        yield lambda m=metric: knoll.OPTICS(metric=m, max_eps=3.0).fit(small)
    gaps = np.where(rng.random((40, 3)) < 0.1, np.nan, np.floor(4 * rng.random((40, 3))))
    gower: dict[str, Any] = {"metric": "gower", "metric_params": {"categorical_features": [2]}}
    for border in ("closest", "first", "noise"):
        yield lambda b=border: knoll.DBSCAN(0.3, border=b, min_samples=3, **gower).fit(gaps).predict(gaps[:9])
    yield lambda: knoll.HDBSCAN(5, store_centers="medoid", **gower).fit(gaps).predict(gaps[:9])
    yield lambda: knoll.neighbors.gower_distances(gaps, gaps[:5], categorical_features=[2])
    for linkage in ("single", "average"):
        yield lambda f=linkage: knoll.AgglomerativeClustering(3, linkage=f, **gower).fit(gaps)
    yield lambda: knoll.DBSCAN(0.5, metric="haversine").fit(rng.uniform(-1, 1, (50, 2))).predict(small[:5] / 10)
    yield lambda: knoll.SpectralClustering(3, affinity="nearest_neighbors", n_neighbors=15, random_state=0).fit(large)
    yield lambda: knoll.KernelKMeans(3, sigma=2.0, random_state=0, max_iter=5).fit(large[:600])
    yield lambda: tuning.choose_n_clusters(small, range(2, 4), random_state=0)
    yield lambda: knoll.compare(small)


def by_hand(core: types.ModuleType) -> Iterator[Seed]:
    """Give seeds of what no fit calls, and of arguments that no fit passes."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 3))
    sums = np.zeros((core.SUM_WORDS, 6), np.int64)
    core.add_moments(x[:, :1].copy(), None, np.zeros(1), first := np.zeros((core.SUM_WORDS, 3), np.int64), 1)
    sums[:, :3] = first
    for threads in (1, 2):
        yield Seed("exact_merge", (sums, sums.copy(), threads))
        yield Seed("exact_round", (sums, np.empty(6), threads, np.empty(6)))
    yield Seed("exp", (x[:, 0].copy(), np.empty(40)))
    yield Seed("log", (np.abs(x[:, 0]), np.empty(40)))
    for dtype in (np.float64, np.float32):
        points = x.astype(dtype)
        yield Seed("mahalanobis2", (points, np.zeros(3), np.eye(3), np.empty(40), 1))
        taken = x[:, 0] > 0
        numbers = np.empty(int(taken.sum()), np.int64)
        yield Seed("split_rows", (points, taken, numbers, points[taken], points[~taken], 1))
    starts = np.array([0, 10, 25, 40])
    for metric in ("euclidean", "chebyshev", "minkowski", "cosine"):
        yield Seed("silhouette", (x, np.ones(40), starts, metric, 3.0, np.empty(40), 2))
    gaps = np.linalg.norm(x[:, None] - x, axis=2)
    yield Seed("silhouette_of_distances", (gaps[5:25].copy(), 5, np.ones(40), starts, np.empty(20), 2))
    for squared in (False, True):
        validity = np.empty(40), np.empty(40, np.uint8), np.empty(3), np.empty(3)
        yield Seed("cluster_validity", (x, np.ones(40), starts, squared, *validity, 2))
    for gaussian in (False, True):
        for level, tol in ((None, 0.0), (3.0, 0.0), (None, 1e-3)):
            yield Seed("ascent_paths", (x, None, x[:5].copy(), 1.0, level, tol, 20, gaussian, 1))
            yield Seed(
                "ascent_paths", (x[:, :1].copy(), np.ones(40), x[:5, :1].copy(), 1.0, level, tol, 20, gaussian, 2)
            )
    begin, column = np.arange(0, 41 * 2, 2), np.tile(np.arange(40, dtype=np.int32), 2)
    value, b = rng.uniform(-0.5, 0.5, 80), rng.normal(size=(40, 4))
    yield Seed("sparse_times", (begin, column, value, b, np.empty((40, 4)), 1))
    yield Seed("sparse_chebyshev", (begin, column, value, 0.5, 5, b, np.empty((40, 4)), 2))
    partitions = rng.integers(0, 4, size=(5, 40)).astype(np.int32)
    edges = np.column_stack([np.arange(39), np.arange(1, 40)]).astype(np.int32)
    yield Seed("partition_overlaps", (partitions, np.empty((5, 5)), 2))
    shares, found = np.array([0.1, 0.3]), np.empty((5, 8))
    yield Seed("inner_prominences", (partitions, edges, np.linspace(1, 0, 39), np.ones(40), shares, found, 1))
    cuts = np.empty((5, 40), np.uint8), np.empty((5, 4))
    yield Seed("inner_cuts", (begin.astype(np.int64), column, np.abs(value), x, partitions, 3, *cuts, 2))
    columns = np.ascontiguousarray(x.T), np.ones((x.shape[1], 40)), np.ones(x.shape[1], np.uint8)
    typed = (*columns, partitions, np.zeros(40, np.int32), x[:3].copy(), partitions.T[:3].copy(), 0.5)
    yield Seed("prototype_distances", (*typed, np.empty((3, 40)), 2))
    yield Seed("prototype_assign", (*typed, np.empty(40, np.int64), np.empty(40), 1))
    square = x[:12, :1] + x[:12, :1].T
    yield Seed("tridiagonalise", (square, np.empty(12), np.empty(11), np.empty(11), np.empty((11, 12))))
    factor = Seed("SparseCholesky", (np.arange(0, 81, 2), np.repeat(np.arange(40, dtype=np.int32), 2), np.ones(80)))
    yield factor
    yield Seed("SparseCholesky.entries", (), {}, factor)
    yield Seed("SparseCholesky.solve", (b.copy(),), {}, factor)
    yield Seed("best_lloyd", (1000, 10, 20))
    index = Seed("Index", (x, 1.0, "euclidean", 2.0, "auto", 1))
    for backend in ("auto", "tree", "tiles"):
        yield Seed("Index.backend", (), {}, Seed("Index", (x, 1.0, "euclidean", 2.0, backend, 1)))
    yield Seed("Index.components", (1.0, x[:, 0] > 0, np.empty(40, np.int64), 1), {}, index)
    operator = Seed("KernelOperator", (x, "rbf", 1.0, 2.0, 0.0, 1))
    for name in ("n", "bytes", "pairs"):
        yield Seed(f"KernelOperator.{name}", (), {}, operator)
    yield Seed("KernelOperator.pivoted_cholesky", (20, 1e-6, 2), {}, operator)
    memory = Seed("LloydMemory", (40, 3, 2, "hamerly"))
    step = Seed("LloydMemory.step", (x, None, x[:2].copy(), 1), {}, memory)
    for name in ("labels", "sums"):
        yield Seed(f"LloydMemory.{name}", (), {}, memory)
        yield Seed(f"LloydMemory.{name}", (), {}, memory, [step])
    moved = (x, None, np.array([0, 5]), np.array([1, 1], np.int32), np.empty(8), 1, np.empty(8))
    yield Seed("LloydMemory.round_moved", moved, {}, memory, [step])
    rows = (np.ones(40), np.arange(40, dtype=np.int32) % 3, np.arange(41, dtype=np.int32), 3)
    sums = np.zeros((core.SUM_WORDS, 8), np.int64)
    yield Seed("add_cluster_sums_csr", (*rows, None, np.zeros(40, np.int32), sums, 1))
    sparse_step = Seed("LloydMemory.step_csr", (*rows, None, x[:2].copy(), 1), {}, memory)
    yield Seed("LloydMemory.labels", (), {}, memory, [sparse_step])
    yield Seed("LloydMemory.round_moved_csr", (*rows, *moved[1:]), {}, memory, [sparse_step])


def record() -> tuple[Recorder, list[str]]:
    """Run the fits; return the recorder, and what went wrong in fits (these need not succeed)."""
    import knoll
    from knoll import _core

    recorder = Recorder(_core)
    knoll._core = sys.modules["knoll._core"] = recorder.module()
    for name in [n for n in sys.modules if n.startswith("knoll.") and n != "knoll._core"]:
        del sys.modules[name]
    errors = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for fit in fits():
            try:
                fit()
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}".splitlines()[0])
    for seed in by_hand(_core):
        recorder.seeds.setdefault(seed.name, {})[("by hand", *seed.key())] = seed
    return recorder, errors


def targets(core: types.ModuleType) -> list[str]:
    """List every function, class, method and property of the module that is called."""
    names = [n for n, value in vars(core).items() if callable(value) and not n.startswith("_") and n not in LEFT_OUT]
    members = [f"{c}.{m}" for c in CLASSES for m in vars(getattr(core, c)) if not m.startswith("_")]
    return sorted(names + members)


def main(file: str) -> None:
    """Record the seeds into a file."""
    recorder, errors = record()
    for name in targets(recorder.core):
        print(f"{len(recorder.seeds.get(name, {})):4d} seeds  {name}")
    for error in sorted(set(errors)):
        print("a fit failed:", error)
    for name, pairs in sorted(recorder.shared.items()):
        print("arguments share memory:", name, sorted(pairs))
    seeds = {name: list(kept.values()) for name, kept in recorder.seeds.items()}
    Path(file).write_bytes(pickle.dumps(seeds))


if __name__ == "__main__":
    from fuzz.bindings_seeds import main as run  # so that pickles name the module, not __main__

    run(sys.argv[1])
