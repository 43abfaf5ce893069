"""Transcribe every clip, and compare the transcript with its text."""

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from rapidfuzz.distance import Levenshtein

import sonorant.audio
import sonorant.audio.recognizers
import sonorant.corpus.sound
from sonorant.audio.recognizers import Recognizer, load_recognizer
from sonorant.corpus.cache import code_of, compute_missing, key_of
from sonorant.corpus.manifest import Utterance, corpus_files
from sonorant.corpus.sound import read_sound
from sonorant.errors import SonorantError


def hear(
    corpus: Path, utterances: Sequence[Utterance], clips: Sequence[str], name: str, cache: Path
) -> list[str] | str:
    """Transcribe each utterance with the recogniser `name`, or return `not run: <why>`. `clips` are cache keys."""
    languages = sorted({utterance.language for utterance in utterances})
    if len(languages) > 1:
        return f"not run: the corpus mixes {', '.join(languages)}, but a recogniser supports one language"
    try:
        revision = load_recognizer(name, languages[0]).revision
    except SonorantError as error:
        return f"not run: {error}"
    code = code_of(sonorant.audio.recognizers, sonorant.audio, sonorant.corpus.sound)
    return compute_missing(
        partial(_hear, corpus, name, languages[0]),
        utterances,
        [key_of(code, revision, languages[0], clip) for clip in clips],
        cache,
        label=f"transcribing ({name})",
        unit="clip",
        reads=corpus_files(corpus, utterances),
    )


def _hear(corpus: Path, name: str, language: str, utterance: Utterance) -> str:
    return _loaded(name, language).transcribe(*read_sound(corpus, utterance))


@lru_cache(maxsize=1)
def _loaded(name: str, language: str) -> Recognizer:
    return load_recognizer(name, language)


def compare_words(said: Sequence[str], heard: Sequence[str]) -> dict[str, float]:
    """Return the word error rate, and the longest runs of words missing from either text at the start, inside and at
    the end."""
    steps: list[Any] = Levenshtein.opcodes(said, heard).as_list()
    equal = [place for place, step in enumerate(steps) if step[0] == "equal"]
    first, last = (equal[0], equal[-1]) if equal else (len(steps), -1)
    runs = {"start": steps[:first], "inside": steps[first:last] if equal else [], "end": steps[last + 1 :]}
    found = {"heard_wrong": Levenshtein.distance(said, heard) / max(1, len(said)), "heard_words": float(len(heard))}
    for where, part in runs.items():
        found[f"unheard_{where}"] = float(max((end - start for _, start, end, _, _ in part), default=0))
        found[f"more_heard_{where}"] = float(max((end - start for _, _, _, start, end in part), default=0))
    return found
