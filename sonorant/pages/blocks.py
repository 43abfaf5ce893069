"""Page blocks of plain text, tables and charts, rendered by templates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

POLICY = (
    "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
"""Content security policy that blocks scripts and external addresses."""


@dataclass(frozen=True)
class Badge:
    """A coloured verdict with text."""

    words: str
    kind: Literal["good", "bad", "none"]


Cell = str | Badge | None
"""Table cell; None is shown as a dash."""


@dataclass(frozen=True, kw_only=True)
class Block:
    template: ClassVar[str]


Part = str | Block
"""Part of a page; a string is shown as a note in small type."""


@dataclass(frozen=True, kw_only=True)
class Table(Block):
    """A scrollable table; the first cell of a row is its header."""

    template = "table.html"
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    """Rows of cells; the last cell of a short row spans the remaining columns."""
    prose: Sequence[str] = ()
    """Names of the columns that contain running text."""


@dataclass(frozen=True, kw_only=True)
class Fold(Block):
    """Parts folded under a summary."""

    template = "fold.html"
    summary: str
    parts: Sequence[Part]


@dataclass(frozen=True, kw_only=True)
class Group(Block):
    template = "group.html"
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, kw_only=True)
class Section:
    anchor: str
    title: str
    parts: Sequence[Part]


def not_run(caption: str, absent: Iterable[tuple[str, str]]) -> list[Part]:
    """Return a folded table of names grouped by the reason why they were not run; an empty list if there are none."""
    names: dict[str, list[str]] = {}
    for name, why in absent:
        names.setdefault(why, []).append(name)
    if not names:
        return []
    rows = [["\n".join(alike), why] for why, alike in names.items()]
    table = Table(caption=f"{caption}: not run", head=["candidate", "why"], rows=rows, prose=["why"])
    return [Fold(summary=f"{sum(map(len, names.values()))} not run", parts=[table])]


def render(package: str, template: str, **values: Any) -> str:
    """Render a template of `package` or of this package, with all values escaped."""
    return _environment(package).get_template(template).render(policy=POLICY, **values)


@cache
def _environment(package: str) -> Environment:
    loader = ChoiceLoader([PackageLoader(name, ".") for name in dict.fromkeys((package, "sonorant.pages"))])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
