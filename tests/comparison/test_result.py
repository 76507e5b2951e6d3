"""What one does with the result of a comparison: frames, pictures, files, explanations, and one numbering."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import knoll
from knoll.comparison import Event, compare
from knoll.comparison.encoding import encoded_rows
from knoll.comparison.numbering import best_numbers, renumbered
from knoll.comparison.progress import shown
from knoll.exceptions import BadData, InvalidParameter
from knoll.models import Relabeled, read


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], [60, 50, 40])
    table = pd.DataFrame({
        "spend": (np.array([40, 900, 300])[group] * np.exp(0.2 * rng.normal(size=150))).round(2),
        "visits": rng.poisson(np.array([2, 30, 12])[group]) + 0.1 * rng.random(150),
        "<b>kind</b>": np.array(["a", "b", "c"])[group],
    }, index=[f"C{i:03d}" for i in range(150)])  # fmt: skip
    table.loc["C007", "spend"] = None
    return table


@pytest.fixture(scope="module")
def found(frame):
    return compare(
        frame, methods=["kmeans", "gaussian-mixture", "hdbscan"], k=range(2, 5), ignore=["<b>kind</b>"], budget=30
    )


def test_labels_keep_the_index(found, frame):
    labels = found.to_frame()
    assert labels.index.equals(frame.index)
    assert labels["cluster"].tolist() == found.labels.tolist()
    assert list(labels.columns)[1:4] == list(found.candidates)
    dropped = compare(frame, methods=["kmeans"], k=[3], missing="drop", ignore=["<b>kind</b>"])
    assert dropped.to_frame().index.tolist() == [name for name in frame.index if name != "C007"]
    array = compare(frame[["spend", "visits"]].fillna(1.0).to_numpy(), methods=["kmeans"], k=[3])
    assert array.to_frame().index.tolist() == list(range(150))


def test_the_explanation_is_of_the_recommended_answer(found):
    explained = found.explain(resamples=3)
    assert {one.label: one.size for one in explained.clusters} == dict(enumerate(np.bincount(found.labels)))
    kind = next(one for one in explained[0].columns if one.column == "<b>kind</b>")
    assert (kind.used, kind.type) == (False, "category")
    assert all(row.id == f"C{row.row:03d}" for row in explained[0].typical)
    if found.recommendation.method != "hdbscan":
        assert all(one.stability > 0.6 for one in explained.clusters)
    other = knoll.explain(found, found.to_frame().assign(code=np.arange(150) % 7.0), resamples=0)
    assert "code" in [one.column for one in other[0].columns]
    with pytest.raises(InvalidParameter, match=r"Unknown method 'dbscan'\. Choose from: "):
        found.explain(method="dbscan")
    with pytest.raises(BadData, match="the table has 3 rows, the comparison 150"):
        found.explain({"x": [1.0, 2.0, 3.0]})


def test_a_picture(found):
    ax = found.plot()
    assert f"{found.candidates[found.recommendation.method].n_clusters} clusters" in ax.get_title()
    other = found.plot(method="kmeans")
    assert other.get_title().startswith("k-means, ")
    with pytest.raises(InvalidParameter, match="Unknown method 'som'"):
        found.plot(method="som")
    plt.close("all")


def test_the_report_and_the_model_are_files(found, frame, tmp_path):
    path = found.report(tmp_path / "report.html", name="customers", names={0: "Regulars <i>"})
    page = path.read_text(encoding="utf-8")
    assert "<h1>Clusters of customers</h1>" in page
    assert "Regulars &lt;i&gt;" in page
    assert "<b>kind</b>" not in page
    assert "&lt;b&gt;kind&lt;/b&gt;" in page
    model = read(found.save(tmp_path / "model.knoll"))
    assert (model.estimator.predict(found.scaling.apply(found.X)) == found.labels).all()
    with pytest.raises(InvalidParameter, match="Unknown method 'som'"):
        found.save(tmp_path / "x.knoll", method="som")


def test_a_comparison_without_its_rows_reports_it(found):
    with pytest.raises(BadData, match="this comparison has no rows"):
        replace(found, X=None).plot()


def test_a_notebook_shows_a_table(found):
    html = found._repr_html_()
    assert "<table>" in html
    assert "k-means" in html
    lame = replace(found, recommendation=replace(found.recommendation, reasons=("<script>alert()</script>",)))
    assert "<script>" not in lame._repr_html_()


# ---- one numbering ---------------------------------------------------------------------------------------------------


def test_clusters_that_match_have_one_number(found):
    for name, one in found.candidates.items():
        assert (one.model.predict(found.scaling.apply(found.X)) == one.labels).all(), name
        if one.n_clusters == found.candidates[found.recommendation.method].n_clusters:
            number = best_numbers(one.labels, found.labels, one.n_clusters)
            assert number.tolist() == list(range(one.n_clusters)), name


@pytest.mark.parametrize("seed", range(5))
def test_no_other_numbering_agrees_in_more_rows(seed):
    rng = np.random.default_rng(seed)
    labels, reference = rng.integers(-1, 4, 200), rng.integers(-1, 5, 200)
    number = best_numbers(labels, reference, 4)
    assert sorted(number) == [0, 1, 2, 3]

    def agree(numbers):
        return ((np.append(numbers, -1)[labels] == reference) & (labels >= 0)).sum()

    from itertools import permutations

    assert agree(number) == max(agree(np.array(one)) for one in permutations(range(4)))


def test_model_labels_and_probabilities_are_renumbered_alike(found):
    one = found.candidates["gaussian-mixture"]
    turned = renumbered(one, np.roll(np.arange(one.n_clusters), 1)[one.labels])
    assert (turned.labels == np.roll(np.arange(one.n_clusters), 1)[one.labels]).all()
    assert isinstance(turned.model, Relabeled)
    scaled = found.scaling.apply(encoded_rows(found.table, "model"))
    assert (turned.model.predict(scaled) == turned.labels).all()
    assert np.array_equal(turned.model.predict_proba(scaled), turned.probabilities)
    assert turned.estimator is one.estimator
    back = renumbered(turned, one.labels)
    assert np.array_equal(back.labels, one.labels)
    assert np.array_equal(back.probabilities, one.probabilities)


# ---- progress --------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_live_line_on_a_terminal_only(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with shown(None) as show:
        show(Event("kmeans", "fitting", 0.5, 3.0, 10**6))
    assert "k-means: fitting" in sys.stderr.getvalue()
    with shown(False) as show:
        assert show is None
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with shown(None) as show:
        assert show is None


def test_without_rich_there_is_no_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr("knoll.comparison.progress.find_spec", lambda name: None)
    with shown(None) as show:
        assert show is None


def test_a_function_is_called_as_it_is():
    seen = []
    with shown(seen.append) as show:
        assert show == seen.append
