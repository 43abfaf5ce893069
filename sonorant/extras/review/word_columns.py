"""Compare texts word by word: written with spoken words, and spoken with recognised words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from sonorant.corpus.audit.findings import AuditedWord

_NOT_OF_A_WORD = re.compile(r"[^\w']+")


@dataclass(frozen=True)
class Token:
    text: str
    first: int | None
    """Index of the token's first spoken word; None if it has none."""
    last: int | None
    doubt: float
    """Maximum doubt of the token's spoken words, from 0 (certainly spoken) to 1."""


def tokens(text: str, words: Sequence[AuditedWord]) -> list[Token]:
    """Split a written text at white space and find the spoken words of each token; "1999," has several."""
    parts = text.split()
    places: list[tuple[int, int] | None] = [None] * len(parts)
    written, spoken = [plain(part) for part in parts], [plain(word.text) for word in words]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, written, spoken, autojunk=False).get_opcodes():
        for place in range(i1, i2):
            if tag == "equal" or (tag == "replace" and i2 - i1 == j2 - j1):
                places[place] = (j1 + place - i1, j1 + place - i1)
            elif tag == "replace":
                places[place] = (j1, j2 - 1)
    return [_token(part, place, words) for part, place in zip(parts, places, strict=True)]


def _token(text: str, place: tuple[int, int] | None, words: Sequence[AuditedWord]) -> Token:
    if place is None:
        return Token(text, None, None, 0.0)
    return Token(text, *place, max(word.doubt for word in words[place[0] : place[1] + 1]))


def differences(reference: str, heard: str) -> list[tuple[str, str]]:
    """Return runs of words, each marked `same`, `other` (extra or different) or `missing`."""
    wanted, got = reference.split(), heard.split()
    matcher = SequenceMatcher(None, [plain(word) for word in wanted], [plain(word) for word in got], autojunk=False)
    stretches = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag in ("delete", "replace"):
            stretches.append((" ".join(wanted[i1:i2]), "missing"))
        if j2 > j1:
            stretches.append((" ".join(got[j1:j2]), "same" if tag == "equal" else "other"))
    return stretches


def plain(word: str) -> str:
    """Return a word in lower case, without punctuation."""
    return _NOT_OF_A_WORD.sub("", word).casefold()
