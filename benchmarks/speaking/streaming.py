"""How soon does speech begin, and in how much memory? `python -m benchmarks streaming`

Measured by length of the text and number of listeners. Texts alternate within each repeat and claims are ratios, so
other work on the machine affects all alike. Memory is the peak of a separate process that speaks a text of different
sentences. Each listener hears sentences in real time, in a separate thread.
"""

import argparse
import dataclasses
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from benchmarks.processes import ask
from benchmarks.report import command, finish, options
from benchmarks.speaking.random_voice import voice_of
from benchmarks.speaking.texts import TEXTS, text
from sonorant.extras.codec_lm.synthesis import CodecLmSpeaking
from sonorant.plugins import family_names
from sonorant.speech.bundle import DESCRIPTION
from sonorant.speech.voice import Voice
from tasks.stage import run

TOLERANCE = {"fp32": 1e-5, "fp16": 2e-3, "bf16": 1.6e-2, "int8": 1e-3}
"""Maximum difference between stream and one shot, of full scale: one step of fp16 or bf16; one in 255 for int8."""
MORE_MEMORY = 0.1
"""Maximum increase of the peak memory for ten times the words."""
FIRST_AUDIO_MS = 150.0
"""Maximum time to first audio of a sentence by a codec_lm voice, on one thread, for one listener."""
AS_SOON = 1.4
"""Maximum ratio of the time to first audio of a text to that of its first sentence alone."""
AT_ONCE = (1, 4, 8)
"""Numbers of listeners."""
SHORT = {"sentences": 1, "repeats": 2, "words": 500}


def main() -> None:
    parser = command(__doc__)
    add = parser.add_argument
    add("--voice", type=Path, default=Path("artifacts/voice"), help="voice bundle; random weights where it is absent")
    add("--family", choices=family_names(), default="parallel", help="that of the random voice")
    add("--sentences", type=int, default=8, help="sentences that each listener hears, in real time")
    add("--repeats", type=int, default=30, help="timed runs of each figure")
    add("--words", type=int, default=10_000, help="length of the longest text")
    given = options(parser, SHORT)
    there = (given.voice / DESCRIPTION).is_file()
    with voice_of(given.voice if there else None, given.family) as (job, weights):
        voice = Voice.load(job["bundle"], threads=1)
        result: dict[str, Any] = {
            "family": voice.description.family,
            "weights": weights,
            "variant": voice.description.graphs["vocoder"].default_variant,
            "first_speech": _first_speech(voice, given),
            "memory": {
                f"words_{words}": ask("benchmarks.speaking.fresh_process", "read", job["bundle"], str(words))
                for words in (given.words // 10, given.words)
            },
            "listeners": {str(count): listen_at_once(voice, count, given.sentences) for count in AT_ONCE},
            "largest_difference": _difference(voice),
        }
        if voice.description.decoding is not None:
            result["lookahead_db"] = _lookahead_db(voice)
    finish(f"streaming_{result['family']}", result, _claims(result, given.words), given)


def _claims(result: dict[str, Any], words: int) -> dict[str, bool]:
    first, (few, many) = result["first_speech"], result["memory"].values()
    tolerance = TOLERANCE[result["variant"]]
    all_words = f"{words} words are first heard as soon as their first sentence alone (ratio at most {AS_SOON})"
    paragraph = f"a paragraph is first heard as soon as its first sentence alone (ratio at most {AS_SOON})"
    memory = f"{words} words take at most {1 + MORE_MEMORY} times the memory of a tenth of them"
    claims = {
        all_words: first["words_over_sentence"] <= AS_SOON,
        paragraph: first["paragraph_over_sentence"] <= AS_SOON,
        "a long sentence is first heard in at most half the time it takes as a whole": first["long_over_whole"] <= 0.5,
        memory: many["peak_mib"] <= (1 + MORE_MEMORY) * few["peak_mib"],
        f"streamed speech differs from one shot by at most {tolerance}": result["largest_difference"] <= tolerance,
    }
    if result["family"] == "codec_lm":
        p95 = result["listeners"]["1"]["first_p95_ms"]
        claims[f"a sentence is first heard within {FIRST_AUDIO_MS:g} ms (p95)"] = p95 <= FIRST_AUDIO_MS
    return claims


def _first_speech(voice: Voice, arguments: argparse.Namespace) -> dict[str, Any]:
    sentence = next(text(10))
    texts = {
        "short": TEXTS["short"],
        "sentence": sentence,
        "paragraph": "".join(text(100)),
        "words": "".join(text(arguments.words)),
        "long": TEXTS["long"],
    }
    times: dict[str, list[float]] = {name: [] for name in (*texts, "whole")}
    voice.say(TEXTS["short"])
    for _ in tqdm(range(arguments.repeats), desc="first speech", unit="run"):
        for name, spoken in texts.items():
            start = time.perf_counter()
            speech = voice.stream(spoken)
            next(speech)
            times[name].append(time.perf_counter() - start)
            speech.close()
        start = time.perf_counter()
        voice.say(TEXTS["long"])
        times["whole"].append(time.perf_counter() - start)
    figures = {f"{name}_ms": round(float(np.median(taken)) * 1000, 2) for name, taken in times.items()}
    pairs = (("words", "sentence"), ("paragraph", "sentence"), ("long", "short"), ("long", "whole"))
    return figures | {f"{one}_over_{other}": _ratio(times[one], times[other]) for one, other in pairs}


def _ratio(one: list[float], other: list[float]) -> float:
    return round(float(np.median(np.array(one) / np.array(other))), 3)


def listen_at_once(voice: Voice, listeners: int, sentences: int) -> dict[str, Any]:
    """`first_p50_ms`, `first_p95_ms` and `broke_off`, the fraction of sentences with a gap, over `sentences` per
    listener."""
    spoken = list(text(10 * (sentences + 1)))[1:]

    def listen(number: int) -> list[tuple[float, float]]:
        # People start neither at the same instant nor one sentence apart.
        time.sleep(np.random.default_rng(number).uniform(0, 1.5) if number else 0)
        return [_listen(voice, sentence) for sentence in spoken]

    with ThreadPoolExecutor(listeners) as pool:
        heard = np.array([one for row in pool.map(listen, range(listeners)) for one in row])
    p50, p95 = np.percentile(heard[:, 0] * 1000, [50, 95])
    broke_off = float(np.mean(heard[:, 1] > 0))
    return {"first_p50_ms": round(p50, 1), "first_p95_ms": round(p95, 1), "broke_off": round(broke_off, 3)}


def _listen(voice: Voice, sentence: str) -> tuple[float, float]:
    """Seconds until the first samples, and seconds of silence in the middle because later ones were late."""
    begin = time.perf_counter()
    first = ends = waited = 0.0
    for chunk in voice.stream(sentence):
        now = time.perf_counter() - begin
        if not first:
            first = ends = now
        waited += max(0.0, now - ends)
        ends = max(now, ends) + len(chunk) / voice.sample_rate
        # The next chunk is requested while this one plays.
        time.sleep(max(0.0, begin + ends - len(chunk) / voice.sample_rate - time.perf_counter()))
    return first, waited


def _difference(voice: Voice) -> float:
    """Largest difference of any sample, over texts and chunk sizes."""
    texts, how = [*TEXTS.values(), "".join(text(50))], _one_attempt(voice)
    return max(
        _largest(voice.say(spoken, **how), voice.stream(spoken, chunk=chunk, **how))
        for spoken in texts
        for chunk in (1_000, 4_096, 50_000)
    )


def _lookahead_db(voice: Voice) -> dict[str, float]:
    """Signal-to-difference ratio over the first part of a long text, for each lookahead in code frames below the
    full one."""
    assert isinstance(voice.speaking, CodecLmSpeaking)
    how, receptive_field = _one_attempt(voice), voice.speaking.sounding.lookahead
    exact = np.concatenate(list(voice.stream(TEXTS["long"], **how)))
    found = {}
    for lookahead in range(0, receptive_field, max(1, receptive_field // 8)):
        short = np.concatenate(list(voice.stream(TEXTS["long"], lookahead=lookahead, **how)))
        differs = np.flatnonzero(short != exact)
        first = slice(0, differs[-1] + 1 if len(differs) else 1)
        power, error = (float(np.square(values[first]).sum()) for values in (exact, short - exact))
        found[str(lookahead)] = round(10 * float(np.log10((power + 1e-12) / (error + 1e-12))), 1)
    return found


def _one_attempt(voice: Voice) -> dict[str, Any]:
    """Settings without a second attempt, which a stream cannot make."""
    decoding = voice.description.decoding
    return {} if decoding is None else {"decoding": dataclasses.replace(decoding.defaults, retries=0)}


def _largest(whole: NDArray[np.float32], chunks: Iterator[NDArray[np.float32]]) -> float:
    return float(np.abs(np.concatenate(list(chunks)) - whole).max())


if __name__ == "__main__":
    run(main)
