"""Elements of HTML and SVG: a tree that is escaped when it is written."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from growd.runtime.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Element = ET.Element
Content = Element | str | None

STYLE: Final = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: #fff; color: #171c16;
  font: 15px/1.45 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 1.75rem 0 .5rem; border-bottom: 2px solid #1c6b3c; padding-bottom: .15rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .35rem 0; }
.faint { color: #566052; font-size: .9em; }
table { border-collapse: collapse; width: 100%; margin: .35rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: #566052; font-size: .9em; padding: .15rem 0; }
th, td { text-align: left; vertical-align: top; padding: .2rem .45rem; border-bottom: 1px solid #d5dbd2; }
thead th { border-bottom: 1.5px solid #566052; font-weight: 600; }
.number { text-align: right; white-space: nowrap; }
.whole { white-space: nowrap; }
.pairs td { overflow-wrap: anywhere; }
.days td, .days th { padding: .08rem .45rem; font-size: .85em; }
.days th { white-space: nowrap; }
.scroll, figure { overflow-x: auto; }
figure { margin: .5rem 0; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 11px system-ui, sans-serif; fill: #3c443a; }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; padding: 0; margin: .35rem 0;
  font-size: .85em; }
.key svg { display: inline-block; width: 26px; height: 12px; vertical-align: -1px; margin-right: .35rem; }
.photos { display: flex; flex-wrap: wrap; gap: .5rem; }
.photos img { max-width: 16rem; max-height: 12rem; border: 1px solid #d5dbd2; }
.photos figure { flex: 1 1 10rem; max-width: 20rem; margin: 0; }
.photos figure img { display: block; max-width: 100%; max-height: 20rem; }
.entry { white-space: pre-wrap; }
@media screen and (max-width: 40rem) {
  body { padding: .6rem; }
  figure > svg { width: 40rem; }
  .photos img { max-width: 100%; max-height: 80vh; }
  .rows thead { display: none; }
  .rows tr { display: block; padding: .3rem 0; border-bottom: 1px solid #d5dbd2; }
  .rows th, .rows td { display: block; border: 0; padding: .05rem .2rem; }
  .rows td { display: flex; gap: .75rem; text-align: left; white-space: normal; overflow-wrap: anywhere; }
  .rows td::before { content: attr(data-head); flex: 0 0 7.5rem; color: #566052; }
  .rows td:empty { display: none; }
  .sides, .sides thead, .sides tbody, .sides caption { display: block; }
  .sides tr { display: flex; flex-wrap: wrap; border-bottom: 1px solid #d5dbd2; }
  .sides th, .sides td { border: 0; flex: 1 1 0; min-width: 0; padding: .1rem .2rem; white-space: normal;
    overflow-wrap: anywhere; }
  .sides tbody th, .sides thead th:first-child { flex: 0 0 100%; }
  .sides thead { position: sticky; top: 0; background: #fff; font-size: .8em; }
}
@page { size: A4; margin: 14mm 14mm 16mm; }
@media print {
  body { max-width: none; padding: 0; font-size: 9.5pt; }
  h2, h3 { break-after: avoid; }
  figure, .together { break-inside: avoid; }
  tr { break-inside: avoid; }
  caption, thead, tbody tr:first-child { break-after: avoid; }
  thead { display: table-header-group; }
  .scroll { overflow: visible; }
  a { color: inherit; text-decoration: none; }
}
"""
_KEPT_TOGETHER: Final = 12  # rows of a table that is not printed over two pages
_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_FILE_POLICY: Final = f"default-src 'none'; img-src data:; style-src 'sha256-{_HASH}'; base-uri 'none'"
POLICY: Final = f"{_FILE_POLICY}; form-action 'none'; frame-ancestors 'none'; sandbox"
"""The Content-Security-Policy of a report: no scripts, and nothing from elsewhere."""


def element(tag: str, *content: Content, **attributes: str | float | None) -> Element:
    """An element; None content and attributes are left out, and `class_` is the attribute `class`."""
    made = Element(
        tag, {_name(name): _text(value) for name, value in attributes.items() if value is not None}
    )
    return add(made, *content)


def add(parent: Element, *content: Content) -> Element:
    """Append content to an element, and return it."""
    for each in content:
        if isinstance(each, str):
            if len(parent):
                parent[-1].tail = (parent[-1].tail or "") + printable(each)
            else:
                parent.text = (parent.text or "") + printable(each)
        elif each is not None:
            parent.append(each)
    return parent


def table(
    heads: Sequence[str], rows: Iterable[Sequence[Content]], *, numbers: Sequence[int] = (), kind: str = "",
    caption: str = "",
) -> Element:  # fmt: skip
    """A table; `numbers` are the columns that are aligned to the right. The first column heads the rows."""
    kind = kind or "rows"

    def kind_of(column: int) -> str | None:
        return "number" if column in numbers else None

    head = element(
        "tr", *(element("th", text, scope="col", class_=kind_of(n)) for n, text in enumerate(heads))
    )
    body = element("tbody")
    for row in rows:
        cells = (
            element("td", cell, class_=kind_of(n), data_head=heads[n] if kind == "rows" else None)
            if n
            else element("th", cell, scope="row")
            for n, cell in enumerate(row)
        )
        body.append(element("tr", *cells))
    made = element("table", class_=f"{kind} together" if len(body) <= _KEPT_TOGETHER else kind)
    if caption:
        made.append(element("caption", caption))
    return element("div", add(made, element("thead", head), body), class_="scroll")


def pairs(rows: Iterable[tuple[str, Content]]) -> Element:
    """A table of names and values, without those that are empty."""
    body = element("tbody")
    for name, value in rows:
        if value is not None and value != "":
            body.append(element("tr", element("th", name, scope="row"), element("td", value)))
    return element("table", body, class_="pairs")


def document(title: str, language: str, *content: Content) -> bytes:
    """A whole page as UTF-8."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_FILE_POLICY),
        element("meta", name="viewport", content="width=device-width"),
        element("title", title),
        element("style"),
    )
    head[-1].text = STYLE
    page = element("html", head, element("body", element("main", *content)), lang=language)
    written: bytes = ET.tostring(page, encoding="utf-8", method="html")
    return b"<!doctype html>\n" + written


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _text(value: str | float) -> str:
    return printable(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
