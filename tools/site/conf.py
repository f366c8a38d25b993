"""The documentation as a site: .venv/bin/sphinx-build -W --keep-going -c tools/site . build/site.

The navigation is that of docs/README.md: its headings, with the pages that each links to.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
INDEX = "docs/README"
CHAPTER = re.compile(r"^## (.+)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
PAGE = re.compile(r"\]\(([^)#:\s]+)\.md(?:#[^)]*)?\)")

project = "growd"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
copyright = "the growd project"  # noqa: A001  the option of Sphinx
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    "*.md",
    "docs/*.md",
    "couchdb/**.md",
    "page/README.md",
    "hw-sim/**.md",
    "bench/*.md",
    "requirements/*.md",
]
exclude_patterns = [".*", "**/node_modules", "data", "dist", "build", "tests"]
myst_heading_anchors = 6
suppress_warnings = [
    "toc.not_included",  # pages of details; tests/project/test_docs.py looks into the index
    "myst.header",  # bench/RESULTS.md leaves out levels
    "misc.highlighting_failure",  # languages that Pygments does not know
]
html_theme = "furo"
html_title = f"growd {version}"
html_copy_source = False
html_show_sphinx = False


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_navigation)


def add_navigation(_: Sphinx, page: str, source: list[str]) -> None:
    """Give the front page the trees that Sphinx makes the side bar of."""
    if page == root_doc:
        source[0] += "".join(trees((ROOT / INDEX).with_suffix(".md").read_text(encoding="utf-8")))


def trees(index: str) -> Iterator[str]:
    """A tree for each chapter of the index; a page is in the first that links to it."""
    yield tree("growd", [INDEX])
    seen = {INDEX, root_doc}
    for title, text in CHAPTER.findall(index):
        found = (posixpath.normpath(f"docs/{path}") for path in PAGE.findall(text))
        pages = [path for path in dict.fromkeys(found) if path not in seen]
        seen.update(pages)
        yield tree(title, pages)


def tree(title: str, pages: list[str]) -> str:
    lines = [f":caption: {title}", ":hidden:", ":maxdepth: 1", "", *(f"/{page}" for page in pages)]
    return "\n\n```{toctree}\n" + "\n".join(lines) + "\n```\n"
