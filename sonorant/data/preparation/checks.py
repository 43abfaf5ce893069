"""Every check of a single utterance, in the order they are made: the first that finds something names the reason.

A check returns what it found, in words for the report, or None. Duplicates need the other utterances and are found in `prepare`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import soundfile

from sonorant.audio.wav import decoding_problem
from sonorant.data.manifest import Defect, file_exists, path_inside
from sonorant.data.preparation.candidate import Candidate
from sonorant.data.preparation.config import PrepareConfig
from sonorant.data.preparation.container import cut_off
from sonorant.errors import SonorantError

Check = Callable[[Candidate, PrepareConfig], str | None]


def empty_text(candidate: Candidate, config: PrepareConfig) -> str | None:
    return None if candidate.utterance.text.strip() else "no text"


def leaves_folder(candidate: Candidate, config: PrepareConfig) -> str | None:
    outside = path_inside(candidate.corpus, candidate.utterance.audio or "") is None
    return "only files inside the corpus folder are read" if outside else None


def missing_audio(candidate: Candidate, config: PrepareConfig) -> str | None:
    return None if candidate.utterance.audio and file_exists(candidate.path) else "no such file"


def empty_file(candidate: Candidate, config: PrepareConfig) -> str | None:
    return None if candidate.path.stat().st_size else "0 bytes"


def ends_early(candidate: Candidate, config: PrepareConfig) -> str | None:
    try:
        return cut_off(candidate.path)
    except OSError:  # a file that may not be read is not one that ends early: `unreadable` comes next
        return None


def unreadable(candidate: Candidate, config: PrepareConfig) -> str | None:
    try:
        return None if candidate.header.samplerate > 0 else "sample rate 0"
    except soundfile.SoundFileError as error:
        return decoding_problem(error)


def too_long(candidate: Candidate, config: PrepareConfig) -> str | None:
    # By the header, before anything is decoded: a broken one may name hours that would not fit in memory.
    seconds = candidate.header.frames / candidate.header.samplerate
    return f"{seconds:.2f} s, at most {config.max_seconds:g}" if seconds > config.max_seconds else None


def breaks_off(candidate: Candidate, config: PrepareConfig) -> str | None:
    frames = candidate.header.frames
    try:
        decoded = len(candidate.samples)
    except SonorantError:
        return f"decoding breaks off before the {frames} samples its header names"
    return f"its header names {frames} samples and it holds {decoded}" if decoded < frames else None


def too_short(candidate: Candidate, config: PrepareConfig) -> str | None:
    seconds = candidate.seconds
    return f"{seconds:.2f} s, at least {config.min_seconds:g}" if seconds < config.min_seconds or seconds == 0 else None


def not_finite(candidate: Candidate, config: PrepareConfig) -> str | None:
    count = int(np.count_nonzero(~np.isfinite(candidate.samples)))
    return f"{count} of {len(candidate.samples)} samples" if count else None


def silent(candidate: Candidate, config: PrepareConfig) -> str | None:
    level = candidate.level_db
    return f"loudest 50 ms at {level:.1f} dB, at least {config.silence_db:g}" if level < config.silence_db else None


def clipped(candidate: Candidate, config: PrepareConfig) -> str | None:
    share = candidate.clipped
    return f"{share:.2%} of the samples at full scale, at most {config.max_clipped:.2%}" if share > config.max_clipped else None


def unspeakable(candidate: Candidate, config: PrepareConfig) -> str | None:
    return " ".join(f"{character!a} ({character})" for character in candidate.spoken.unknown) or None


def nothing_spoken(candidate: Candidate, config: PrepareConfig) -> str | None:
    return None if candidate.spoken.phonemes else f"nothing in {candidate.utterance.text!r} is spoken"


def speaking_rate(candidate: Candidate, config: PrepareConfig) -> str | None:
    rate, slowest, fastest = candidate.characters_per_second, config.min_characters_per_second, config.max_characters_per_second
    return None if slowest <= rate <= fastest else f"{rate:.1f} characters a second, from {slowest:g} to {fastest:g} expected"


CHECKS: tuple[tuple[Defect, Check], ...] = (
    (Defect.EMPTY_TEXT, empty_text),
    (Defect.LEAVES_FOLDER, leaves_folder),
    (Defect.MISSING_AUDIO, missing_audio),
    (Defect.EMPTY_FILE, empty_file),
    (Defect.TRUNCATED, ends_early),
    (Defect.UNREADABLE, unreadable),
    (Defect.TOO_LONG, too_long),
    (Defect.TRUNCATED, breaks_off),
    (Defect.TOO_SHORT, too_short),
    (Defect.NOT_FINITE, not_finite),
    (Defect.SILENT, silent),
    (Defect.CLIPPED, clipped),
    (Defect.UNSPEAKABLE, unspeakable),
    (Defect.EMPTY_TEXT, nothing_spoken),
    (Defect.SPEAKING_RATE, speaking_rate),
)


def first_defect(candidate: Candidate, config: PrepareConfig) -> tuple[Defect, str] | None:
    """Return the reason to reject the candidate and what was found, or None if it is sound."""
    for defect, check in CHECKS:
        found = check(candidate, config)
        if found is not None:
            return defect, found
    return None
