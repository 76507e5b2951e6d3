"""The theory pages compute what they state: every block marked ```pycon in docs/theory is a doctest.

The blocks of one page share one namespace, from its top to its bottom.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```pycon\n(.*?)^```$", re.M | re.S)
PAGES = [path for path in sorted((ROOT / "docs" / "theory").glob("*.md")) if BLOCK.search(path.read_text("utf-8"))]


def failures(text: str, name: str) -> tuple[int, int]:
    """How many examples of the page fail, and how many there are."""
    lines = ["" for _ in text.split("\n")]  # what is not an example is blank, so that line numbers are the page's
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        for offset, line in enumerate(block.group(1).rstrip("\n").split("\n")):
            lines[first + offset] = line
    test = doctest.DocTestParser().get_doctest("\n".join(lines), {}, name, name, 0)
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    return result.failed, result.attempted


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_examples_of_a_page_are_true(path):
    failed, attempted = failures(path.read_text(encoding="utf-8"), path.name)
    assert attempted > 0
    assert failed == 0


def test_there_are_pages_with_examples():
    assert "04-kernels-and-spectral" in {path.stem for path in PAGES}


def test_a_false_example_is_seen(capsys):
    assert failures("# page\n```pycon\n>>> 1 + 1\n2\n```\ntext\n```pycon\n>>> 1 + 1\n3\n```\n", "page") == (1, 2)
    assert "line 8" in capsys.readouterr().out
