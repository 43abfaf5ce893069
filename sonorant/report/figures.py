"""Numbers as readers want them: units, signs, intervals. Knows nothing of where they come from."""

from __future__ import annotations

from collections.abc import Iterable

from sonorant.report.document import Document
from sonorant.report.markup import Html, element, join


def with_interval(summary: Document, key: str, form: str = ".1f") -> str:
    """`12.3 [9.9, 15.2]` from the keys `<key>` and `<key>_ci95`."""
    low, high = summary[f"{key}_ci95"].interval()
    return f"{summary[key].number():{form}} [{low:{form}}, {high:{form}}]"


def megabytes(size: float) -> str:
    """Bytes as MB (10^6)."""
    return f"{size / 1e6:.2f} MB"


def optional(parent: Document, key: str, form: str) -> str | None:
    """A number by `form`, the words that stand in its place, or None where the key is absent."""
    found = parent.get(key)
    if found is None:
        return None
    return found.not_run or f"{found.number():{form}}"


def grouped(absent: Iterable[tuple[str, str]]) -> list[tuple[Html, str]]:
    """(name, words in place of its figures) -> one entry for names of the same words, a name a line."""
    names: dict[str, list[str]] = {}
    for name, words in absent:
        names.setdefault(words, []).append(name)
    return [(join(alike, element("br")), words) for words, alike in names.items()]
