"""What transcripts contain besides words: HTML entities and tags, marks of sounds such as [laughter] or <unk>, and text
decoded twice."""

import html
import json
import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sonorant.corpus.decisions import Decided
from sonorant.corpus.manifest import Defect
from sonorant.errors import SonorantError

_KNOWN = json.loads((Path(__file__).parent / "marks.json").read_text(encoding="utf-8"))
_ENTITY = re.compile(r"&(?:#\d+|#[xX][\da-fA-F]+|[A-Za-z]\w+);")
_BREAKING, _INLINE = (re.compile(rf"</?(?:{_KNOWN[kind]})\b[^<>]*>", re.IGNORECASE) for kind in ("breaking", "inline"))
_SOUND = re.compile(
    r"[\[{](?:WORDS)(?![^\W_])[^\[\]{}]*[\]}]|[(*](?:WORDS)[)*]|<[a-z/|!?][^<>]*>".replace("WORDS", _KNOWN["sounds"]),
    re.IGNORECASE,
)
_CODECS = ("cp1252", "latin1", "macintosh", "cp850")
_ORDINARY = re.compile(r"(?:(?<=[A-ZÀ-Þ])[Ã-ÅÈ]|\b[ÄÅ])[…‘’“”–—›»](?!\w)")  # AMANHÃ…
_EVIDENCE = re.compile("[¡-ſȘ-ț‐-™]|[Ͱ-\uffff]{2}")  # l’é in macintosh is one letter


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


def without_decoded_twice(decided: Decided) -> Decided:
    """Mark UTF-8 that was decoded in another encoding ("fÃ¼r") as defective. Raise SonorantError if most texts that are
    not ASCII are."""
    utterances, notes = list(decided.utterances), list(decided.notes)
    foreign = [place for place, utterance in enumerate(utterances) if not utterance.text.isascii()]
    for codec in _CODECS:
        found = {place: meant for place in foreign if (meant := _meant(utterances[place].text, codec))}
        for place, meant in found.items():
            if len(found) * 2 > len(foreign):
                raise SonorantError(
                    f"corpus.path: {len(found)} of {len(foreign)} texts with characters outside ASCII were decoded "
                    f"twice, such as {utterances[place].text!r} for {meant!r}; convert the files: iconv -f UTF-8 -t "
                    f"{codec} old > new"
                )
            if utterances[place].defect is None:
                utterances[place] = replace(utterances[place], defect=Defect.DECODED_TWICE)
                notes[place] = f"UTF-8 that was decoded as {codec}; write {meant!r}"
    return replace(decided, utterances=utterances, notes=notes)


def _meant(text: str, codec: str) -> str | None:
    """Return a text decoded twice as meant, None for others."""
    with suppress(UnicodeError):  # the no-break space, second byte of à, has become a blank
        first, rest = (
            re.sub("(?<![A-ZÀ-Þ].)(?<=[ÃÂ]) ", "\xa0 ", part).encode(codec).decode("utf-8")
            for part in (text, _ORDINARY.sub("", text))
        )
        return first if _EVIDENCE.search(rest) else None
    return None
