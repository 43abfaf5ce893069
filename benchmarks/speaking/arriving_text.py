"""How soon is a phrase heard whose text arrives token by token: `python -m benchmarks arriving_text`.

From the token that makes a phrase's end certain to the phrase's first audio, beside the first audio of the same
sentence given as a whole text. Both take turns in one process, and the claims are ratios, so other work on the machine
affects both alike. Tokens are words with the blank before them, and signs, as language models have them; each is given
as soon as it is asked for, so no figure holds a wait for text.
"""

import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from benchmarks.report import command, finish, options
from benchmarks.speaking.random_voice import shipped, voice_of
from benchmarks.speaking.streaming import TOLERANCE
from benchmarks.speaking.texts import TEXTS
from sonorant.plugins import family_names
from sonorant.speech.voice import Voice
from sonorant.text.phrases import Phrase, split_phrases
from tasks.stage import run

AS_SOON = 1.4
"""How much later than a whole sentence one that arrives may be heard; as in `benchmarks streaming`."""
TOKENS_BEHIND = 1
"""Tokens behind a full stop with which a phrase's end is certain."""
SHORT = {"repeats": 2}
_TOKEN = re.compile(r"\s?\w+|\s?[^\w\s]+")


def main() -> None:
    """Measure in turns, print, judge."""
    parser = command(__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="times that each sentence is heard, of each voice")
    given = options(parser, SHORT)
    result: dict[str, Any] = {"repeats": given.repeats}
    for family in family_names():
        with voice_of(shipped(family), family) as (job, weights):
            voice = Voice.load(job["bundle"], threads=1)
            result[family] = {"weights": weights, **_heard(voice, given.repeats)}
    finish("arriving_text", result, _claims(result), given)


def _claims(result: dict[str, Any]) -> dict[str, bool]:
    claims = {}
    for family in family_names():
        found = result[family]
        soon = f"{family}: a phrase that arrives is heard as soon as alone (median ratio at most {AS_SOON})"
        certain = f"{family}: its end is certain at most {TOKENS_BEHIND} token behind its full stop"
        same = f"{family}: it sounds as in the whole text, within {found['tolerance']}"
        claims[soon] = found["arriving_over_whole"] <= AS_SOON
        claims[certain] = max(found["tokens_behind"]) <= TOKENS_BEHIND
        claims[same] = found["largest_difference"] <= found["tolerance"]
    return claims


def _heard(voice: Voice, repeats: int) -> dict[str, Any]:
    text = TEXTS["paragraph"]
    sentences = [one.spoken.text for one in split_phrases(text, voice.frontend) if isinstance(one, Phrase)]
    voice.say(TEXTS["short"])
    arriving, whole = np.zeros((2, repeats, len(sentences)))
    for number in tqdm(range(repeats), desc=voice.description.family, unit="run"):
        arriving[number], samples, behind = _token_by_token(voice, text)
        whole[number] = [_first_audio(voice, sentence) for sentence in sentences]
    at_once = np.concatenate(list(voice.stream(text)))
    return {
        "phrases": len(sentences),
        "arriving_ms": _milliseconds(arriving),
        "whole_ms": _milliseconds(whole),
        "arriving_over_whole": round(float(np.median(arriving / whole)), 3),
        "tokens_behind": behind,
        "largest_difference": float(np.abs(samples - at_once).max()),
        "tolerance": TOLERANCE[voice.description.graphs["vocoder"].default_variant],
    }


def _token_by_token(voice: Voice, text: str) -> tuple[list[float], NDArray[np.float32], list[int]]:
    """Seconds from the last token that was asked for to the first audio behind it, phrase by phrase; all samples; and
    how many tokens behind the full stop of each phrase but the last that token was."""
    given: list[tuple[str, float]] = []

    def tokens() -> Iterator[str]:
        for token in _TOKEN.findall(text):
            given.append((token, time.perf_counter()))
            yield token
        given.append(("", time.perf_counter()))

    seconds, chunks, behind, asked = [], [], [], 0
    for chunk in voice.stream(tokens()):
        if len(given) > asked:
            seconds.append(time.perf_counter() - given[-1][1])
            since = [token for token, _ in given[asked:]]
            behind.append(len(since) - 1 - max(place for place, token in enumerate(since) if token == "."))
            asked = len(given)
        chunks.append(chunk)
    return seconds, np.concatenate(chunks), behind[:-1]


def _first_audio(voice: Voice, sentence: str) -> float:
    begin = time.perf_counter()
    speech = voice.stream(sentence)
    next(speech)
    seconds = time.perf_counter() - begin
    speech.close()
    return seconds


def _milliseconds(seconds: NDArray[np.float64]) -> dict[str, float]:
    p50, p95 = np.percentile(seconds * 1000, [50, 95])
    return {"p50": round(float(p50), 2), "p95": round(float(p95), 2)}


if __name__ == "__main__":
    run(main)
