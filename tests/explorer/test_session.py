"""A session: labels equal to the plain estimator's, undo to the start, replay of the script."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import knoll
from knoll import DBSCAN, HDBSCAN, AgglomerativeClustering, GaussianMixture, KMeans, MeanShift, SpectralClustering
from knoll.base import collect_warnings
from knoll.exceptions import BadData, Cancelled, InvalidParameter
from knoll.explorer import Session
from knoll.explorer.methods import OFFERED
from knoll.explorer.rows import mask_from_text, mask_to_text


@pytest.fixture
def session():
    return Session.open("x1500")


FITS = {
    "kmeans": ({"n_clusters": 4}, KMeans(4, n_init=2, random_state=0)),
    "gaussian-mixture": ({"n_components": 3}, GaussianMixture(3, reg_covar=1e-5, random_state=0)),
    "dbscan": ({"eps": 0.2, "min_samples": 8}, DBSCAN(0.2, min_samples=8)),
    "hdbscan": ({"min_cluster_size": 20, "min_samples": 6}, HDBSCAN(min_cluster_size=20, min_samples=6)),
    "agglomerative": ({"n_clusters": 5, "linkage": "average"}, AgglomerativeClustering(5, linkage="average")),
    "mean-shift": ({"bandwidth": 0.7}, MeanShift(bandwidth=0.7)),
    "spectral": (
        {"n_clusters": 3},
        SpectralClustering(3, affinity="nearest_neighbors", random_state=0),
    ),
}


@pytest.mark.parametrize("method", FITS)
def test_labels_are_those_of_the_plain_estimator(session, method):
    parameters, plain = FITS[method]
    answer = session.fit(method, **parameters)
    np.testing.assert_array_equal(answer.labels, plain.fit(session.source.points).labels_)
    assert answer.how == "all rows"
    line = answer.python.replace(".labels_", "")
    made = eval(line, vars(knoll) | {type(plain).__name__: type(plain)}, {"points": session.source.points})
    np.testing.assert_array_equal(made.labels_, answer.labels)


@pytest.fixture(scope="module")
def mixed_session():
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=150)
    numbers = rng.normal(size=(150, 2)) + 4 * group[:, None]
    colours = np.array(["red", "green", "blue"])[group]
    return Session.open(pandas.DataFrame({"x": numbers[:, 0], "y": numbers[:, 1], "colour": colours}))


@pytest.mark.parametrize(
    ("method", "parameter"),
    [pytest.param(name, one, id=f"{name}-{one.name}") for name, ones in OFFERED.items() for one in ones],
)
def test_every_offered_value_is_accepted(mixed_session, method, parameter):
    ends = (value for value in (parameter.low, parameter.high) if value is not None)
    values = parameter.choices or ((True, False) if parameter.type == "flag" else tuple(ends))
    for value in values:
        answer = mixed_session.fit(method, **{parameter.name: value})
        assert answer.parameters[parameter.name] == value
        assert answer.labels.shape == (150,)


@pytest.mark.parametrize("eps", [0.02, 0.1, 0.2, 0.5, 5.0])
@pytest.mark.parametrize("border", ["closest", "noise"])
def test_the_tree_gives_dbscan_to_the_bit(session, eps, border):
    session.fits.tree(10)
    answer = session.fit("dbscan", eps=eps, border=border)
    assert answer.model is None  # it was cut from the tree
    with collect_warnings():  # all noise, or one cluster
        plain = DBSCAN(eps, min_samples=10, border=border).fit(session.source.points)
    np.testing.assert_array_equal(answer.labels, plain.labels_)


def test_the_points_are_those_that_compare_clusters():
    found = knoll.compare(knoll.datasets.iris().X, methods=["kmeans"], budget=5, progress=False)
    source = Session.open(knoll.datasets.iris().X).source
    np.testing.assert_array_equal(source.points, found.scaling.apply(found.X))


def random_action(session, rng):
    """Do one action at random; some are refused, as those of a person are."""
    labels = session.labels if session.state.answer is not None else np.zeros(1, np.int64)
    cluster = int(rng.choice(labels))
    actions = {
        "kmeans": lambda: session.fit("kmeans", n_clusters=int(rng.integers(2, 6))),
        "dbscan": lambda: session.fit("dbscan", eps=float(rng.choice([0.3, 0.5, 0.8])), min_samples=5),
        "cut": lambda: session.cut(eps=float(rng.choice([0.4, 0.6])), min_samples=5),
        "rows": lambda: session.select(rows=rng.permutation(150)[: rng.integers(1, 60)].tolist(), origin="lasso"),
        "clusters": lambda: session.select(
            clusters=[cluster], mode=str(rng.choice(["replace", "add", "remove", "keep"]))
        ),
        "where": lambda: session.select(
            where=[{"column": "petal length (cm)", "low": 2.0, "high": float(rng.uniform(3, 6))}]
        ),
        "none": lambda: session.select(),
        "merge": lambda: session.merge([cluster, int(rng.choice(labels))]),
        "split": lambda: session.split(cluster, int(rng.integers(2, 4))),
        "group": lambda: session.split(group="selection"),
        "move": lambda: session.move("selection", int(rng.choice([-1, cluster]))),
        "rename": lambda: session.rename(cluster, f'it\'s "{rng.integers(9)}"\n</script>'),
        "filter": lambda: session.filter(hide=[cluster], noise=bool(rng.integers(2))),
        "undo": lambda: session.undo(int(rng.integers(1, 4))),
        "redo": lambda: session.redo(int(rng.integers(1, 3))),
        "go": lambda: session.go(int(rng.integers(len(session.history.steps)))),
    }
    try:
        actions[str(rng.choice(list(actions)))]()
    except (BadData, InvalidParameter):
        return False
    return True


@pytest.mark.parametrize("seed", range(6))
def test_random_walks_are_undone_and_replayed(seed):
    rng = np.random.default_rng(seed)
    session = Session.open("iris")
    first, done = session.digest, 0
    states = {0: session.state}
    while done < 200:
        done += random_action(session, rng)
    for at, step in enumerate(session.history.steps):
        states[at] = step.state
    replayed: dict = {}
    exec(session.script(), replayed)  # it has an assertion of its own
    assert replayed["s"].digest == session.digest
    if session.state.answer is not None:
        np.testing.assert_array_equal(replayed["labels"], session.labels)
    position = session.history.position
    for at in range(position - 1, -1, -1):
        session.undo()
        assert session.state is states[at]
    assert session.digest == first
    session.redo(10_000)
    assert session.state is session.history.steps[-1].state


def test_an_edit_keeps_the_numbers_and_reports_that_it_was_made_by_hand(session):
    session.fit("kmeans", n_clusters=4)
    before = session.labels
    session.merge([3, 1], name="both")
    assert session.answer.sizes().keys() == {0, 1, 2}
    np.testing.assert_array_equal(session.labels, np.where(before == 3, 1, before))
    assert session.answer.notes[1].by_hand == "merged from 1 and 3"
    assert session.answer.notes[1].name == "both"
    session.select(clusters=[0], origin="lasso in principal plane").split(group="selection")
    assert session.answer.notes[3].by_hand == "by hand: lasso in principal plane"
    assert 0 not in session.answer.sizes()
    session.move({"cluster": 3}, -1)
    assert (session.labels == -1).sum() == (before == 0).sum()
    assert session.answer.by_hand
    assert session.undo(3).answer.sizes().keys() == {0, 1, 2}
    with pytest.raises(BadData, match="no cluster 7"):
        session.rename(7, "x")


def test_a_split_divides_by_the_plain_estimator(session):
    session.fit("kmeans", n_clusters=3)
    rows = session.labels == 1
    session.split(1, 3)
    subclusters = KMeans(3, n_init=2, random_state=0).fit(session.source.points[rows]).labels_
    found = session.labels[rows]
    assert set(found) == {1, 3, 4}
    for subcluster in range(3):
        assert len(set(found[subclusters == subcluster])) == 1
    np.testing.assert_array_equal(session.labels[~rows], session.undo().labels[~rows])


def test_attempts_are_counted_once_a_setting(session):
    for eps in (0.1, 0.2, 0.1):
        session.fit("dbscan", eps=eps)
    session.undo(3)
    assert session.attempts == 2
    assert "2 settings were tried" in session.script()


def test_going_back_to_a_setting_is_the_same_answer(session):
    first = session.fit("kmeans", n_clusters=3)
    session.fit("kmeans", n_clusters=4)
    assert session.fit("kmeans", n_clusters=3) is first


def test_a_cancelled_fit_changes_nothing(session):
    session.fit("kmeans", n_clusters=3)
    before = session.state
    token = knoll.CancelToken()
    token.cancel()
    with token, pytest.raises(Cancelled):
        session.fit("kmeans", n_clusters=5)
    assert session.state is before
    assert session.attempts == 1


def test_slow_methods_preview_and_report_what_they_saw():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 2)) + 8 * rng.integers(0, 2, (40_000, 1))
    session = Session.open(X)
    found = list(session.fitting("kernel-kmeans", {"n_clusters": 2, "sigma": 1.0}))
    assert [kind for kind, _ in found] == ["preview", "result"]
    answer = found[1][1]
    assert answer.how.startswith("sample of")
    assert session.state.answer is answer
    rows = session.source.sample(int(answer.how.split()[2]))
    plain = knoll.KernelKMeans(2, sigma=1.0, n_init=1, random_state=0).fit(session.source.points[rows])
    np.testing.assert_array_equal(answer.labels, plain.predict(session.source.points))


def test_masks_as_text():
    rng = np.random.default_rng(0)
    for n in (1, 7, 8, 9, 5000):
        mask = rng.random(n) < 0.4
        text = mask_to_text(mask)
        if isinstance(text, str):
            np.testing.assert_array_equal(mask_from_text(text, n), mask)
        else:
            np.testing.assert_array_equal(np.flatnonzero(mask), text)
    with pytest.raises(BadData):
        mask_from_text("no such text", 9)


@pytest.mark.parametrize(
    ("method", "parameters", "text"),
    [
        ("nothing", {}, "there is no 'nothing'"),
        ("kmeans", {"n_cluster": 3}, "has no 'n_cluster'"),
        ("kmeans", {"n_clusters": 0}, "n_clusters must be >= 1"),
        ("kmeans", {"n_clusters": [1]}, "must be a number, a text"),
        ("kmeans", {"n_clusters": "auto"}, "must be a number"),
        ("kmeans", {"init": "random"}, "has no 'init'"),
        ("dbscan", {"metric": "os.system"}, "must be one of euclidean"),
        ("dbscan", {"eps": -1.0}, "eps must be"),
        ("dbscan", {"n_jobs": 1}, "has no 'n_jobs'"),
    ],
)
def test_parameters_are_those_of_a_closed_list(session, method, parameters, text):
    with pytest.raises(InvalidParameter, match=text):
        session.fit(method, **parameters)
    assert session.state.answer is None


def test_labels_of_other_programs():
    X = knoll.datasets.iris().X
    names = np.array(["a", "b", "c"])[knoll.datasets.iris().y]
    session = Session.open(X, labels={"hdbscan": knoll.datasets.iris().y - 1, "names": names})
    first, second = session.supplied.values()
    assert (first.method, first.origin, first.sizes()) == ("hdbscan", "given", {0: 50, 1: 50})
    assert [second.notes[at].name for at in range(3)] == ["a", "b", "c"]
    assert session.state.answer is first
    session.show(second.id)
    assert session.labels.max() == 2
    with pytest.raises(BadData, match="has shape"):
        Session.open(X, labels={"x": [1, 2]})


def test_a_refit_of_a_selection_is_the_comparison_of_these_rows():
    session = Session.open("x1500")
    session.fit("kmeans", n_clusters=3)
    session.select(clusters=[0, 1])
    rows = session.state.selection.mask
    facts = session.refit(methods=["kmeans", "gaussian-mixture"])
    found = knoll.compare(
        session.source.values[rows], methods=["kmeans", "gaussian-mixture"], exact=True, progress=False
    )
    assert (facts["verdict"], facts["method"]) == (found.verdict, found.recommendation.method)
    assert facts["rows"] == rows.sum()
    inside = session.labels[rows]
    assert len(set(zip(inside, found.labels))) == len(set(found.labels))  # the same partition
    np.testing.assert_array_equal(session.labels[~rows], 2)


def test_a_refit_that_finds_no_clusters_changes_nothing():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(300, 2)), rng.normal(size=(300, 2)) + 12])
    session = Session.open(X)
    session.fit("kmeans", n_clusters=2)
    session.select(clusters=[0])
    before = session.state
    facts = session.refit(methods=["kmeans", "gaussian-mixture", "dbscan"])
    assert facts["verdict"] == "none"
    assert session.state is before


@pytest.mark.parametrize(("n", "d"), [(30_000, 4), (21_000, 100)])
def test_a_frozen_page_is_small_and_has_every_cluster(n, d):
    from knoll.explorer.asking import ask
    from knoll.explorer.frozen import MOST_BYTES, chosen_rows, frozen_page

    rng = np.random.default_rng(0)
    labels = np.where(rng.random(n) < 0.001, rng.integers(1, 4, n), 0)
    session = knoll.explore(rng.normal(size=(n, d)), labels={"given": labels}, show=False)
    page = frozen_page(session, ask)
    assert len(page) <= MOST_BYTES
    assert b'http-equiv="Content-Security-Policy" content="default-src \'none\'' in page
    rows = chosen_rows(session, 2_000)
    assert len(rows) == 2_000
    assert set(labels[rows]) == set(labels)
