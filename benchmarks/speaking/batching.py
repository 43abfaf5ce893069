"""Do batches pay on a processor: several texts in rows of one call, against one after the other?

Each part of a voice is timed for 2, 4 and 8 texts in rows and, in the same round, for each text alone, on one thread,
as a process of `sonorant serve` works: encoder, decoder and vocoder of the family parallel, the language model's steps
and the codec of the family codec_lm. `gain` is how many times as fast rows are. Then 24 texts are spoken, 4 or 8 of
them in turns, chunk by chunk, and one after the other. Claims: rows of a language model's steps pay (at least 1.3 times
with 4 rows), also in turns, where its steps are joined, and each row has the bits that it has alone; rows of a vocoder
do not pay (at most 1.3 times). docs/serving.md says what follows.
"""

import argparse
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import command, finish, options
from benchmarks.speaking.random_voice import shipped, voice_of
from benchmarks.turns import ratio, take_turns
from sonorant.extras.codec_lm.decoding.session import Session
from sonorant.extras.codec_lm.synthesis import CodecLmSpeaking
from sonorant.families.parallel.synthesis import ParallelSpeaking, vocoder_frames
from sonorant.speech.streaming import Speech
from sonorant.speech.voice import Voice

ROWS = (2, 4, 8)
PHONEMES = 60
TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "Good morning.",
    "She had put the letter back where she found it, and nobody ever knew.",
    "It rained for three days.",
    "On the other side of the river the lights went out one by one.",
    "Is there any more tea?",
    "He walked as far as the old bridge, where he used to wait for his brother.",
    "Nothing came of it.",
)
STEPS = 120
"""Code frames, some 4 s: a sentence."""
FRAMES = 256
"""Mel frames of a stream's later parts."""
PAYS = 1.3
SHORT: dict[str, Any] = {"seconds": 0.2, "rounds": 1}
Part = Callable[[int], object]
"""Computes so many texts in rows."""


def parts_of(voice: Voice) -> dict[str, Part]:
    """What a voice computes for a text, part by part."""
    speaking = voice.speaking
    if isinstance(speaking, CodecLmSpeaking):
        return _parts_of_codec_lm(speaking)
    assert isinstance(speaking, ParallelSpeaking)
    return _parts_of_parallel(speaking)


def _text(rows: int) -> tuple[Any, Any, Any]:
    """Tokens (B, N, 3), lengths (B,) and speakers (B,) of texts that are all the same."""
    tokens = np.zeros((rows, PHONEMES, 3), np.int64)
    tokens[:, :, 0] = 3 + np.arange(PHONEMES) % 20
    return tokens, np.full(rows, PHONEMES), np.zeros(rows, np.int64)


def _parts_of_parallel(speaking: ParallelSpeaking) -> dict[str, Part]:
    runtime, even = speaking.runtime, np.arange(1, PHONEMES + 1) * FRAMES // PHONEMES

    def encode(rows: int) -> Any:
        still = np.zeros(rows, np.float32)
        return runtime.encode(*_text(rows), still + 1, still, still)[0]

    def decode(rows: int) -> Any:
        ends = np.tile(even, (rows, 1)).astype(np.int64)
        return runtime.decode(states[:rows], ends, np.arange(FRAMES))

    states = encode(max(ROWS))
    mel = decode(max(ROWS))
    frames = np.concatenate(list(vocoder_frames([mel], speaking.description)), axis=-1)

    def vocode(rows: int) -> Any:
        return runtime.vocode(frames[:rows], np.full(rows, frames.shape[-1]))

    return {"encoder": encode, "decoder": decode, "vocoder": vocode}


def _parts_of_codec_lm(speaking: CodecLmSpeaking) -> dict[str, Part]:
    runtime, decoding = speaking.runtime, speaking.decoding
    states = runtime.encode(*_text(max(ROWS)))
    codes = np.arange(max(ROWS) * STEPS * decoding.codebooks).reshape(max(ROWS), STEPS, -1) % decoding.codes

    def step(rows: int) -> Any:
        keys = [(0, row, 0) for row in range(rows)]
        lengths = np.full(rows, PHONEMES)
        session = Session(runtime.stepper(), states[:rows], lengths, decoding, decoding.defaults, keys)
        return session.more(STEPS)

    def sound(rows: int) -> Any:
        return speaking.sounding.whole(codes[:rows], np.full(rows, STEPS), STEPS)

    return {"encoder": lambda rows: runtime.encode(*_text(rows)), "steps": step, "codec": sound}


def same_bits(speaking: CodecLmSpeaking) -> bool:
    """Whether texts in rows have the codes, and to the bit the probabilities, that each has alone."""
    random = np.random.default_rng(0)
    lengths = np.array([12, 60, 33, 5, 48, 21, 27, 9])
    tokens, speakers = np.zeros((len(lengths), lengths.max(), 3), np.int64), np.zeros(len(lengths), np.int64)
    tokens[:, :, 0] = random.integers(3, 23, tokens.shape[:2])

    def decoded(rows: slice) -> Session:
        longest = lengths[rows].max()
        states = speaking.runtime.encode(tokens[rows, :longest], lengths[rows], speakers[rows])
        stepper, keys = speaking.runtime.stepper(), [(0, 0, 0)] * len(states)
        session = Session(stepper, states, lengths[rows], speaking.decoding, speaking.decoding.defaults, keys)
        while not session.ended:
            session.more(STEPS)
        return session

    together = decoded(slice(None)).log_probability_B
    alone = [decoded(slice(row, row + 1)).log_probability_B[0] for row in range(len(lengths))]
    return bool(np.array_equal(together, np.array(alone)))


def _each_alone(part: Part, rows: int) -> None:
    for _ in range(rows):
        part(1)


def gains(voice: Voice, seconds: float) -> dict[str, dict[str, Any]]:
    """For each part and number of rows, how many times as fast rows are as each text alone."""
    found: dict[str, dict[str, Any]] = {}
    for name, part in parts_of(voice).items():
        found[name] = {}
        for rows in ROWS:
            one_by_one = partial(_each_alone, part, rows)
            times = take_turns({"alone": one_by_one, "rows": partial(part, rows)}, seconds)
            gain = ratio(times["alone"], times["rows"])
            found[name][f"{rows} rows"] = {
                "gain": gain["speedup"],
                "gain_ci95": gain["speedup_ci95"],
                "alone_ms": round(float(np.median(times["alone"])) * 1000 / rows, 3),
            }
            print(f"{name}, {rows} rows: {gain['speedup']} times, {gain['speedup_ci95']}", flush=True)
    return found


def gain_of_turns(voice: Voice, seconds: float, rounds: int) -> dict[str, Any]:
    """How many times as fast 24 texts are spoken with 4 and 8 of them in turns, chunk by chunk, as one by one."""
    work = {f"{count} in turns": partial(_speak, voice, rounds, count) for count in (1, *ROWS[1:])}
    times, found = take_turns(work, seconds, least=3), {}
    for name in list(work)[1:]:
        gain = ratio(times["1 in turns"], times[name])
        found[name] = {"gain": gain["speedup"], "gain_ci95": gain["speedup_ci95"]}
        print(f"{name}: {gain['speedup']} times, {gain['speedup_ci95']}", flush=True)
    return found


def _speak(voice: Voice, rounds: int, at_once: int) -> None:
    """Speak all texts so many times over, so many at once in turns; whoever was not heard yet goes first."""
    waiting, speaking = list(TEXTS) * rounds, deque[Speech]()
    while waiting or speaking:
        if waiting and len(speaking) < at_once:
            speaking.appendleft(voice.stream(waiting.pop()))
        speech = speaking.popleft()
        if next(speech, None) is not None:
            speaking.append(speech)


def measure(family: str, bundle: Path | None, seconds: float, rounds: int) -> dict[str, Any]:
    """The gains of a family's voice: `bundle` where it is of that family, else one of random weights."""
    with voice_of(bundle, family) as (job, weights):
        print(f"{family}: weights {weights}", flush=True)
        voice = Voice.load(job["bundle"], threads=1)
        found: dict[str, Any] = {"weights": weights}
        if isinstance(voice.speaking, CodecLmSpeaking):
            found["same_bits"] = same_bits(voice.speaking)
        return found | {"gains": gains(voice, seconds), "in_turns": gain_of_turns(voice, seconds, rounds)}


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each part and number of rows (default 8)")
    parser.add_argument("--rounds", type=int, default=3, help="of the 8 texts that are spoken in turns (default 3)")
    given: argparse.Namespace = options(parser, SHORT)
    families = ("parallel", "codec_lm")
    result = {family: measure(family, shipped(family), given.seconds, given.rounds) for family in families}
    steps = result["codec_lm"]["gains"]["steps"]["4 rows"]["gain_ci95"]
    vocoder = result["parallel"]["gains"]["vocoder"]["4 rows"]["gain_ci95"]
    turns = result["codec_lm"]["in_turns"]["4 in turns"]["gain_ci95"]
    claims = {
        "a row of a language model's steps has the bits that it has alone": result["codec_lm"]["same_bits"],
        f"4 texts of the family codec_lm in turns are spoken at least {PAYS} times as fast": turns[0] >= PAYS,
        f"4 rows of a language model's steps are at least {PAYS} times as fast as 4 alone": steps[0] >= PAYS,
        f"4 rows of a vocoder are at most {PAYS} times as fast as 4 alone": vocoder[1] <= PAYS,
    }
    finish("batching", result, claims, given)


if __name__ == "__main__":
    main()
