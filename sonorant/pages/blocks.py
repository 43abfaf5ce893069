"""What a page is put together from: each block holds plain text and figures, its template turns them into HTML."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

POLICY = (
    "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
"""Makes the browser itself refuse scripts and every address outside the file."""


@dataclass(frozen=True)
class Badge:
    """A short verdict. The kind gives its colour; the words say it too."""

    words: str
    kind: Literal["good", "bad", "none"]


Cell = str | Badge | None
"""A table's cell; None is shown as a dash."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a page."""

    template: ClassVar[str]


Part = str | Block
"""A string is a remark in small type."""


@dataclass(frozen=True, kw_only=True)
class Table(Block):
    """A table that scrolls by itself where the window is narrow. A row's first cell is its name."""

    template = "table.html"
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    """The last cell of a row shorter than the head spans the remaining columns."""
    prose: Sequence[str] = ()
    """Columns that hold words, not figures."""


@dataclass(frozen=True, kw_only=True)
class Fold(Block):
    """Parts behind a line that opens them, without a script."""

    template = "fold.html"
    summary: str
    parts: Sequence[Part]


@dataclass(frozen=True, kw_only=True)
class Group(Block):
    """Parts under a heading of their own within a section."""

    template = "group.html"
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page that the contents link to."""

    anchor: str
    title: str
    parts: Sequence[Part]


def not_run(caption: str, absent: Iterable[tuple[str, str]]) -> list[Part]:
    """A folded table of (name, why it has no figures), a row for each reason; nothing if there are no names."""
    names: dict[str, list[str]] = {}
    for name, why in absent:
        names.setdefault(why, []).append(name)
    if not names:
        return []
    rows = [["\n".join(alike), why] for why, alike in names.items()]
    table = Table(caption=f"{caption}: not run", head=["candidate", "why"], rows=rows, prose=["why"])
    return [Fold(summary=f"{sum(map(len, names.values()))} not run", parts=[table])]


def render(package: str, template: str, **values: Any) -> str:
    """The HTML of a template of `package`, or of this one, with everything from outside escaped."""
    return _environment(package).get_template(template).render(policy=POLICY, **values)


@cache
def _environment(package: str) -> Environment:
    loader = ChoiceLoader([PackageLoader(name, ".") for name in dict.fromkeys((package, "sonorant.pages"))])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
