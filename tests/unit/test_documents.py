"""The documents hold: links lead somewhere, examples run, and the project speaks of itself alone.

The rule for examples: every block marked ```python in README.md and docs/guide is executed, from the top of
its file to the bottom in one namespace, in an empty folder. A fragment that cannot run alone is marked
otherwise (```text). Examples in docstrings are doctests.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import knoll

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {".git", ".venv", "build", "dist", "demo", "__pycache__", ".hypothesis"}


def project_files() -> list[Path]:
    """Tracked files and those about to be; in a source distribution, everything."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        files = [ROOT / name for name in listed.split("\0") if name]
    else:
        files = [p for p in ROOT.rglob("*") if not SKIPPED.intersection(p.relative_to(ROOT).parts)]
    return sorted(path for path in files if path.is_file())


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""  # a picture


FILES = project_files()
DOCUMENTS = [p for p in FILES if p.suffix == ".md"]
RUN = [p for p in DOCUMENTS if p == ROOT / "README.md" or p.is_relative_to(ROOT / "docs" / "guide")]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ---- files that are named ------------------------------------------------------------------------

NAMED = re.compile(r"`([\w./-]+\.(?:py|hpp|cpp|md|html|sh|toml|txt|npz|sha256))`")
PLACEHOLDER = re.compile(r"[A-Z]{4,}(?!\.(?:md|txt))")  # such as core/FAMILY/, engines/NAME.py


def test_files_that_contributing_names_exist():
    named = set(NAMED.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    files = {f"/{name(path)}" for path in FILES}
    wanted = {one for one in named if not PLACEHOLDER.search(one)}
    assert len(wanted) > 50
    assert [one for one in sorted(wanted) if not any(path.endswith(f"/{one}") for path in files)] == []


# ---- links ---------------------------------------------------------------------------------------

LINK = re.compile(
    r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)|<(?:img|a)\s[^>]*(?:src|href)=\"([^\"]+)\"",
    re.M,
)
FENCE = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1", re.M | re.S)


def links(text: str) -> list[str]:
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))
    return ["".join(groups) for groups in LINK.findall(prose)]


def anchors(text: str) -> set[str]:
    """The fragments that headings get on the usual hosts: lower case, no punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+\s+(.*?)\s*#*$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(path: Path) -> list[str]:
    dead = []
    for link in links(text_of(path)):
        if re.match(r"[a-z][a-z+.-]*:", link):  # another site
            continue
        target, _, anchor = link.partition("#")
        there = path if not target else (path.parent / target)
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(text_of(there))):
            dead.append(link)
    return dead


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path):
    assert dead_links(path) == []


def test_a_dead_link_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# The one heading!\n[a](gone.md) ![b](page.md) [c](https://example.org/x) [d](#the-one-heading)\n"
        '[e](page.md#nowhere) `[f](code.md)`\n```\n[g](fenced.md)\n```\n[h]: lost.md\n<img src="no.png">\n'
    )
    assert dead_links(page) == ["gone.md", "page.md#nowhere", "lost.md", "no.png"]


def test_pages_named_in_code_and_prose_exist():
    """A comment that cites docs/theory/x.md is worth nothing without the page."""
    cited = {
        (name(path), page)
        for path in FILES
        if path.suffix in {".py", ".hpp", ".cpp", ".inl", ".md", ".toml", ".txt", ""} and path != Path(__file__)
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", text_of(path))
    }
    assert sorted((where, page) for where, page in cited if not (ROOT / page).is_file()) == []


STATEMENT = re.compile(r"^\*\*([A-Z]\d+) ·", re.M)
CITED = re.compile(r"docs/numerics/(\w+)\.md((?:[,;\s/#(]|to\b|and\b|[A-Z]\d+\b)*)")


def unknown_statements(text: str, pages: dict[str, set[str]]) -> list[str]:
    """Numbers such as "docs/numerics/sums.md, S3" that their page does not have; pages without numbers are skipped."""
    return [
        f"{page} {number}"
        for page, tail in CITED.findall(text)
        for number in re.findall(r"[A-Z]\d+", tail)
        if pages.get(page) and number not in pages[page]
    ]


def test_numbered_statements_that_code_cites_exist():
    pages = {p.stem: set(STATEMENT.findall(text_of(p))) for p in (ROOT / "docs" / "numerics").glob("*.md")}
    assert {"S1", "S7"} <= pages["sums"]
    code = [p for p in FILES if p.suffix in {".py", ".hpp", ".cpp"} and p != Path(__file__)]
    assert {name(p): found for p in code if (found := unknown_statements(text_of(p), pages))} == {}


def test_an_unknown_statement_is_seen():
    text = "// (docs/numerics/sums.md, S1 to\n// S9) and docs/numerics/kmeans.md, A1"
    assert unknown_statements(text, {"sums": {"S1"}, "kmeans": set()}) == ["sums S9"]


# ---- examples ------------------------------------------------------------------------------------


def blocks(text: str) -> list[tuple[int, str]]:
    """Line number and code of each block marked ```python."""
    found = re.finditer(r"^[ \t]*```python[ \t]*\n(.*?)^[ \t]*```[ \t]*$", text, re.M | re.S)
    return [(text.count("\n", 0, match.start(1)), textwrap.dedent(match.group(1))) for match in found]


@pytest.mark.parametrize("path", RUN, ids=name)
def test_examples_in_documents_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, code in blocks(text_of(path)):
        exec(compile("\n" * line + code, str(path), "exec"), namespace)  # line numbers are the document's
    if any("pyplot" in code or "plots" in code for _, code in blocks(text_of(path))):
        import matplotlib.pyplot as plt

        plt.close("all")


def test_the_readme_has_an_example():
    assert blocks(text_of(ROOT / "README.md"))


MODULES = [
    "knoll",
    *(m.name for m in pkgutil.walk_packages(knoll.__path__, "knoll.") if "__main__" not in m.name),
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testmod(importlib.import_module(module), optionflags=flags, report=True)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")  # pyplot keeps the figures of all examples
    assert result.failed == 0


# ---- words ---------------------------------------------------------------------------------------

# Written in pieces, so that this file does not accuse itself.
FORBIDDEN = {
    "a package registry's host": r"pypi\.o" + r"rg|pythonho" + r"sted|extra-index-u" + r"rl|artifact" + r"ory",
    "a folder outside the project": r"\.\./sha" + r"red|/work/(main|sha" + r"red)",
    "notes outside the project": r"\b(DESI" + r"GN|ERRA" + r"TA|ALGORI" + r"THMS)( §|\.md| \d)|\bSTY" + r"LE\.md",
    "how it was written": r"(?<!scope=\")\bses" + r"sions?\b(?!\")|\bissues? ?#\d|\bissue \d",
}


def accusations(text: str, allowed: str = "$^") -> list[str]:
    """What the text must not contain, and where; `allowed` is a word of its subject."""
    return [
        f"line {text.count(chr(10), 0, match.start()) + 1}: {match.group()!r} ({why})"
        for why, pattern in FORBIDDEN.items()
        for match in re.finditer(pattern, text)
        if not re.fullmatch(allowed, match.group())
    ]


def allowed(path: Path) -> str:
    """The explorer has a word of its own that is not about how it was written: its class of that name."""
    return "ses" + "sions?" if "explor" in name(path) else "$^"


def test_the_project_speaks_of_itself_alone():
    found = {name(path): faults for path in FILES if (faults := accusations(text_of(path), allowed(path)))}
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "https://py" + "pi.org/x",
        "see ../sha" + "red/x",
        "as in issue #" + "4",
        "ERRA" + "TA 12",
        "two ses" + "sions",
    ],
)
def test_forbidden_words_are_seen(text):
    assert len(accusations(f"fine\n{text}\n")) == 1


def test_words_that_only_look_alike_are_allowed():
    assert accusations('start_new_session=True, scope="session", open an issue, docs/theory/errata.md') == []
