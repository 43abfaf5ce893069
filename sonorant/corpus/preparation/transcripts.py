"""What transcripts contain besides words: HTML entities and tags, marks of sounds such as [laughter] or <unk>, and text
decoded twice."""

import html
import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sonorant.corpus.decisions import Decided
from sonorant.corpus.manifest import Defect, Utterance
from sonorant.errors import SonorantError

_KNOWN = json.loads((Path(__file__).parent / "marks.json").read_text(encoding="utf-8"))
_ENTITY = re.compile(r"&(?:#\d+|#[xX][\da-fA-F]+|[A-Za-z]\w+);")
_BREAKING, _INLINE = (re.compile(rf"</?(?:{_KNOWN[kind]})\b[^<>]*>", re.IGNORECASE) for kind in ("breaking", "inline"))
_SOUND = re.compile(
    r"[\[{](?:WORDS)(?![^\W_])[^\[\]{}]*[\]}]|[(*](?:WORDS)[)*]|<[a-z/|!?][^<>]*>".replace("WORDS", _KNOWN["sounds"]),
    re.IGNORECASE,
)
_CODECS = ("cp1252", "latin1", "macintosh", "cp850")


def without_marks(decided: Decided, how: str) -> tuple[Decided, Counter[str]]:
    """Decode entities and remove tags and marks; count them. If `how` is reject, a mark of a sound is a defect."""
    counts: Counter[str] = Counter()
    utterances, notes = list(decided.utterances), list(decided.notes)
    for place, utterance in enumerate(utterances):
        text, layout, sounds = plain(utterance.text)
        counts.update(layout + sounds)
        if layout or sounds:
            utterances[place] = replace(utterance, text=" ".join(text.split()))
        if sounds and how == "reject" and utterance.defect is None:
            utterances[place], notes[place] = replace(utterance, defect=Defect.MARKED), " ".join(sounds)
    return replace(decided, utterances=utterances, notes=notes), counts


def plain(text: str) -> tuple[str, list[str], list[str]]:
    """Return the text without marks, its entities and tags of layout, and its marks of sounds."""
    layout = _ENTITY.findall(text)
    for _ in range(2):  # &amp;quot;
        text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    for tags, blank in ((_BREAKING, " "), (_INLINE, "")):
        layout += tags.findall(text)
        text = tags.sub(blank, text)
    return _SOUND.sub(" ", text), layout, _SOUND.findall(text)


def refuse_decoded_twice(utterances: Sequence[Utterance]) -> None:
    """Raise SonorantError if most texts that are not ASCII are UTF-8 that was decoded in another encoding ("fÃ¼r")."""
    foreign = [utterance.text for utterance in utterances if not utterance.text.isascii()]
    for codec in _CODECS:
        found = [(text, meant) for text in foreign if (meant := _meant(text, codec))]
        if len(found) * 2 > len(foreign):
            raise SonorantError(
                f"corpus.path: {len(found)} of {len(foreign)} texts with characters outside ASCII were decoded twice, "
                f"such as {found[0][0]!r} for {found[0][1]!r}; convert the files: iconv -f UTF-8 -t {codec} old > new"
            )


def _meant(text: str, codec: str) -> str | None:
    with suppress(UnicodeError):  # the no-break space, second byte of à, has become a blank
        return re.sub("(?<=[ÃÂ]) ", "\xa0", text).encode(codec).decode("utf-8")
    return None
