"""The page of a comparison: what it shows is what was found, and what comes from the table stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from knoll._format import number, thousands, two_digits
from knoll.comparison import Alternative, Evidence, Failure, compare
from knoll.models import Preparation
from knoll.registry import display_names
from knoll.report.comparison import comparison_page
from knoll.report.comparison_charts import chart
from knoll.report.comparison_clusters import clusters_of
from knoll.report.comparison_relations import related
from knoll.report.comparison_view import MAX_POINTS, _short, same_colours, shown_rows

NASTY = ['<script>alert("x")</script>', "=cmd|'/C calc'!A0", "</script><!--", "“ünïcødé” ☂ '\"", "a & b", "{{ 7 * 7 }}"]


class Reader(HTMLParser):
    """Collects elements, ids, links and the text of scripts."""

    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.links, self.outside, self.headings, self.scripts = [], [], [], [], [], []
        self.inside = None

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"]] if "href" in attrs else []
        self.outside += [attrs[key] for key in ("src", "srcset", "style", "action") if key in attrs]
        self.outside += [key for key in attrs if key.startswith("on")]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.inside = tag

    def handle_data(self, data):
        if self.inside in ("script", "style"):
            self.scripts.append((self.inside, self.tags[-1][1], data))

    def handle_endtag(self, tag):
        self.inside = None


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(2)
    centres = np.array([[0, 0, 0, 5.0], [9, 0, 0, 5.0], [0, 900, 0, 5.0]])
    return np.concatenate([centre + rng.normal(size=(40, 4)) * [1, 100, 1, 0] for centre in centres])


@pytest.fixture(scope="module")
def found(points):
    return compare(points, columns=NASTY[:4], k=range(2, 5), budget=10, truth=np.repeat([0, 1, 2], 40))


@pytest.fixture(scope="module")
def html(found, points):
    ids = [NASTY[i % len(NASTY)] + str(i) for i in range(len(points))]
    truth = np.repeat(NASTY[:3], 40)
    return comparison_page(found, points, name=NASTY[0], ids=ids, truth=truth, facts=NASTY, command=NASTY[3], seconds=2)


@pytest.fixture(scope="module")
def read(html):
    reader = Reader()
    reader.feed(html)
    return reader


def test_the_recommendation_is_first(html, found):
    body = html[html.index("<main>") :]
    assert body.index('id="recommendation"') < body.index("<nav") < body.index('id="clusters"')
    for reason in found.recommendation.reasons:
        assert display_names(reason).split("'")[0][:40] in body
    assert found.recommendation.caution in body


def test_everything_is_on_the_page(read, found):
    sections = ["recommendation", "clusters", "pictures", "others", "evidence", "agreement", "relations", "methods",
                "table", "reproduce"]  # fmt: skip
    assert [one for one in read.ids if one in sections] == sections
    assert {f"answer-{method}" for method in found.candidates} <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert all(link.startswith("#") for link in read.links)
    assert read.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(read.headings, read.headings[1:]))


def test_every_picture_has_a_text(read):
    drawn = [attrs for tag, attrs in read.tags if attrs.get("role") == "img"]
    assert len(drawn) >= 7
    assert all(len(attrs["aria-label"]) > 20 for attrs in drawn)


def test_nothing_of_the_table_becomes_an_element(html, read):
    assert read.outside == []
    scripts = [attrs for tag, attrs in read.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "points"}, {}]
    assert "alert(" not in "".join(text for tag, attrs, text in read.scripts if attrs == {})
    assert html.count("<script") == 2
    assert "49" not in re.sub(r"\{\{ 7 \* 7 \}\}", "", html.split("<h1>")[1].split("</h1>")[0])


def test_the_policy_lets_its_own_script_and_style_alone(html, read):
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)[1].replace("&#39;", "'")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert set(rules) == {"default-src", "script-src", "style-src", "base-uri", "form-action"}
    for tag, source in (("script", rules["script-src"]), ("style", rules["style-src"])):
        (text,) = ("".join(data) for name, attrs, data in read.scripts if name == tag and attrs == {})
        assert source == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_points_are_plain_data(read, found, points):
    (block,) = (text for _, attrs, text in read.scripts if attrs.get("id") == "points")
    assert "<" not in block
    data = json.loads(block)
    assert len(data["x"]) == len(data["y"]) == len(data["ids"]) == len(points)
    assert data["ids"][0] == NASTY[0] + "0"
    assert next(iter(data["methods"])) == found.recommendation.method
    for method, one in found.candidates.items():
        assert data["methods"][method]["labels"] == one.labels.tolist()
    assert min(data["x"]) >= 0
    assert max(data["x"]) <= data["fine"]


def test_a_method_without_an_answer_reports_why(found, points):
    fewer = {name: one for name, one in found.candidates.items() if name != "spectral"}
    lame = replace(found, candidates=fewer, failures=(Failure("spectral", "the <b>graph</b> fell apart", 1.0),))
    lame = replace(lame, recommendation=replace(found.recommendation, method="kmeans"))
    text = comparison_page(lame, points, name="x", seconds=0.0)
    assert "the &lt;b&gt;graph&lt;/b&gt; fell apart" in text


@pytest.mark.parametrize("verdict", ["none", "unclear", "clusters"])
@pytest.mark.parametrize("level", ["a guess", "likely", "clear"])
def test_verdict_and_confidence_come_first(found, points, verdict, level):
    advice = replace(found.recommendation, verdict=verdict, level=level, confidence=0.4321)
    text = comparison_page(replace(found, recommendation=advice), points, name="x", seconds=0.0)
    card = text[text.index('<section id="recommendation"') : text.index("<nav")]
    assert ('<h2 id="recommended">No clear clusters</h2>' in card) == (verdict == "none")
    assert ("one continuous cloud" in card) == (verdict == "none")
    assert ("whether there are clusters at all is unclear" in card) == (verdict == "unclear")
    assert f"<b>{level.capitalize()}</b>: the expected agreement with the true clusters is 0.43" in card
    assert found.recommendation.caution in card


def test_other_answers_are_listed(found, points):
    other = found.candidates["kmeans"]
    for defensible, args in ((True, "Several answers are defensible:"), (False, "The next best answers:")):
        alternatives = (Alternative(other, defensible, "finer", 0.5),)
        advice = replace(found.recommendation, alternatives=alternatives)
        text = comparison_page(replace(found, recommendation=advice), points, name="x", seconds=0.0)
        assert args in text
        args = (
            f"A finer one: k-means, {other.n_clusters} clusters; expected agreement with the true clusters "
            f"{other.expected:.2f}; adjusted Rand index with the recommended one 0.50."
        )
        assert f"<b>alternative-1</b>. {args}" in text


def test_a_large_table_is_a_small_page():
    X = np.random.default_rng(0).normal(size=(12_000, 3)) + np.repeat([[0.0], [8.0]], 6_000, axis=0)
    big = compare(X, methods=["kmeans"], k=[2], budget=5)
    text = comparison_page(big, X, name="big", seconds=0.0)
    assert "5\u202f000 of 12\u202f000 rows are drawn, chosen at random." in text
    assert len(json.loads(re.search(r'id="points">(.*?)</script>', text)[1])["x"]) == MAX_POINTS
    assert len(text.encode()) < 1_000_000


def test_a_shortcut_is_reported_with_its_certificate():
    X = np.random.default_rng(0).normal(size=(3_000, 2)) + np.repeat([[0.0], [8.0]], 1_500, axis=0)
    big = compare(X, methods=["spectral"], k=[2], budget=0.5)
    taken = big.candidates["spectral"].shortcut
    text = comparison_page(big, X, name="big", seconds=0.0)
    assert f"<td>sample of {big.candidates['spectral'].fitted_rows}<br><small>{taken}</small></td>" in text
    assert f"largest eigenvalue residual {taken.residual:.1g}" in text


# ---- the pieces ----------------------------------------------------------------------------------------------------


def test_clusters_are_described_in_their_own_units():
    X = np.array([[1.0, 10.0], [1.0, 20.0], [5.0, 15.0], [5.0, 15.0], [9.0, 15.0]])
    clusters = clusters_of(X, np.array([0, 0, 1, 1, -1]), ["a", "b"])
    assert [(one.label, one.size) for one in clusters] == [(0, 2), (1, 2), (-1, 1)]
    assert clusters[0].centre.tolist() == [1.0, 15.0]
    (trait,) = clusters[0].traits
    assert (trait.column, trait.here) == ("a", 1.0)
    assert trait.elsewhere == pytest.approx(np.mean([5, 5, 9]))
    assert trait.difference == pytest.approx((1 - np.mean([5, 5, 9])) / X[:, 0].std())
    (whole,) = clusters_of(X, np.zeros(5, np.int64), ["a", "b"])
    assert whole.traits == ()


def test_like_groups_have_like_colours():
    model = np.array([0, 0, 0, 1, 1, 1, -1])
    assert same_colours(model, np.array([5, 5, 5, 2, 2, 2, 2])).tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert same_colours(model, np.array([3, 3, 4, 0, 0, 0, -1])).tolist() == [0, 0, 2, 1, 1, 1, -1]
    assert same_colours(model, np.full(7, -1)).tolist() == [-1] * 7
    assert same_colours(np.full(7, -1), model).tolist() == model.tolist()


def scaling(*columns):
    return Preparation.fit(np.zeros((1, len(columns))), columns, scale="none")


def test_axes():
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(200, 3)) * [5, 1, 0.1]
    shown = shown_rows(wide, scaling("long", "short", "flat"), np.arange(200), 200)
    assert re.fullmatch(r"axis 1, 9\d% of the variance: \+long, .*", shown.axes[0].name)
    assert np.corrcoef(shown.positions[:, 0], wide[:, 0])[0, 1] > 0.999
    units = replace(scaling("a", "b"), center=(100.0, 0.0), spread=(10.0, 1.0))
    plane = shown_rows(wide[:, :2].copy(), units, np.arange(200), 200)
    assert plane.axes[0].name == "a"
    assert all(float(text.replace("−", "-")) == pytest.approx(10 * at + 100) for at, text in plane.axes[0].ticks)
    far = np.r_[rng.normal(size=(300, 2)), [[1000.0, 0.0]]]
    notes = shown_rows(far, scaling("a", "b"), np.arange(301), 301).notes
    assert notes == ("1 outliers are drawn at the border of the pictures.",)


def test_a_curve():
    evidence = Evidence("BIC", "k", np.arange(1.0, 5), {"full": np.array([9.0, 5, 2, np.nan])}, 3.0, "least at 3")
    drawn = chart(evidence)
    (line,) = drawn["lines"]
    assert len(line["dots"]) == 3
    assert (drawn["chosen"], drawn["chosen_y"]) == line["dots"][2]
    assert [text for _, text in drawn["x_ticks"]] == ["1", "2", "3", "4"]
    assert [row["values"] for row in drawn["table"]] == [["9"], ["5"], ["2"], ["–"]]
    assert [row["chosen"] for row in drawn["table"]] == [False, False, True, False]
    assert "chosen at 3" in drawn["alt"]
    close = replace(evidence, y={"one": np.array([1.0, 0.99998, 0.99996, 0.9999])})
    assert [text for _, text in chart(close)["y_ticks"]] == ["0.9999", "0.99995", "1"]
    closer = replace(evidence, y={"one": np.array([1.0, 1.0, 1 - 1e-9, 1 - 3e-9])})
    assert max(len(text) for _, text in chart(closer)["y_ticks"]) <= 8  # more digits have no room
    empty = Evidence("BIC", "k", np.arange(2.0), {"full": np.full(2, np.nan)}, 3.0, "")
    assert chart(empty) == {}


def test_long_names_are_cut_to_what_distinguishes_them():
    long = [f"average number of purchases per month in region {j} (seasonally adjusted)" for j in range(12)]
    assert _short(long)[:2] == ["…0 (seasonally adjusted)", "…1 (seasonally adjusted)"]
    assert len(set(_short(long))) == 12
    assert _short(["a", "b" * 30]) == ["a", "b" * 23 + "…"]
    assert _short(["petal width", "petal length"]) == ["petal width", "petal length"]


def test_a_gap_in_a_page(points):
    found = compare(points, methods=["spectral"], budget=5)
    (gap,) = (each for each in found.candidates["spectral"].evidence if each.name == "score")
    page = comparison_page(found, points, name="t", seconds=0)
    assert chart(gap)["lines"][0]["pieces"][0] in page


def test_sentences_have_the_names_that_people_use():
    assert display_names("kernel-kmeans beats kmeans, dbscan and my-kmeans; kmeans: no") == (
        "kernel k-means beats k-means, DBSCAN and my-kmeans; k-means: no"
    )
    assert [thousands(count) for count in (9999, 10_000, 1_234_567)] == ["9999", "10\u202f000", "1\u202f234\u202f567"]
    assert [two_digits(value) for value in (-0.001, -0.014, 1.0)] == ["0.00", "−0.01", "1.00"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (3.0, "3"), (-2.5, "−2.5"), (12345.6, "12\u202f350"), (1e-7, "1e−07"), (None, "–"), (np.inf, "–")],
)
def test_numbers_for_people(value, text):
    assert number(value) == text


def test_relations_are_bounded_in_rows_and_time(found, points):
    scaled = found.scaling.apply(points)
    arrows, output = related(found, scaled, 60.0)
    assert output == "Certified on all rows."
    assert {one.certificate.verdict for one in arrows} <= {"holds", "does not apply"}
    assert sum(one.certificate.holds for one in arrows) >= 5
    none, output = related(found, scaled, -1.0)
    assert none == []
    assert "Omitted because of the time limit: mixture-to-kmeans" in output
    pair = replace(found, candidates={name: found.candidates[name] for name in ("kmeans", "dbscan")})
    assert related(pair, scaled, 60.0)[0] == []
