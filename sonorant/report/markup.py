"""Pieces of HTML: text made safe, tables, sections. Knows nothing of voices and figures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


class Html(str):
    """Text that is HTML already and is not escaped again."""


Cell = str | None
ALONE = ("br", "img", "meta")
"""Elements without content and end."""


def safe(text: str) -> Html:
    """Text as HTML: escaped, unless it is HTML already."""
    return text if isinstance(text, Html) else Html(escape(text))


def join(parts: Sequence[str], between: str = "") -> Html:
    """Parts one after the other, each made safe."""
    return Html(safe(between).join(safe(part) for part in parts))


def element(tag: str, *content: str, **attributes: str | None) -> Html:
    """`<tag attributes>content</tag>`; attributes of value None are left out, `class_` is `class`, other underscores
    are hyphens."""
    names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
    written = "".join(f' {names[name]}="{escape(value)}"' for name, value in attributes.items() if value is not None)
    return Html(f"<{tag}{written}>" + ("" if tag in ALONE else f"{join(content)}</{tag}>"))


def section(anchor: str, title: str, *content: str) -> Html:
    """A part of the page with a heading that links can name."""
    return element("section", element("h2", title, id=anchor), *content, aria_labelledby=anchor)


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], prose: Sequence[str] = ()) -> Html:
    """A table that scrolls by itself where the window is narrow. A row's first cell names it; None is an empty cell.

    `prose`: names of columns that hold words, not figures. A row shorter than the head ends in words: its last cell
    takes what is left.
    """
    kinds = ["prose" if name in prose else None for name in head]
    top = element(
        "tr", *(element("th", name, scope="col", class_=kind) for name, kind in zip(head, kinds, strict=True))
    )
    body = [element("tr", *_cells(row, kinds)) for row in rows]
    inner = element("table", element("caption", caption), element("thead", top), element("tbody", *body))
    return element("div", inner, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _cells(row: Sequence[Cell], kinds: Sequence[str | None]) -> list[Html]:
    cells = [element("th", row[0] or "", scope="row")]
    for place, cell in enumerate(row[1:], 1):
        spanned = len(kinds) - place if place == len(row) - 1 else 1
        absent = "absent" if cell is not None and cell.startswith("not run") else None
        wide = {"colspan": str(spanned), "class_": "prose"} if spanned > 1 else {"class_": kinds[place] or absent}
        cells.append(element("td", "–" if cell is None else cell, **wide))
    return cells


def note(*content: str) -> Html:
    """A remark in small type."""
    return element("p", *content, class_="note")


def badge(words: str, kind: str) -> Html:
    """A short verdict; `kind` is good, bad or none and gives the colour, the words say it too."""
    return element("span", words, class_=f"badge {kind}")
