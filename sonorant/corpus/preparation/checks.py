"""Every check of a single utterance, in order: the first that finds something names the reason to reject it.

A check returns what it found, in words for the report, or None. Duplicates need the other utterances and are found in
`prepare`.
"""

from collections.abc import Callable

import numpy as np

from sonorant.audio.channels import Channels, lag_of
from sonorant.audio.containers import cut_off
from sonorant.audio.decoding import UndecodableError
from sonorant.corpus.manifest import Defect, file_exists, may_be_read
from sonorant.corpus.preparation.recording import ExaminedRecording
from sonorant.corpus.preparation.settings import PrepareConfig

_APART = 0.8  # correlation from which two channels that differ hold one sound at two times

Check = Callable[[ExaminedRecording, PrepareConfig], str | None]


def empty_text(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return None if recording.utterance.text.strip() else "no text"


def leaves_folder(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    inside = may_be_read(recording.corpus, recording.utterance)
    return None if inside else "only files inside the corpus folder are read"


def missing_audio(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return None if recording.utterance.audio and file_exists(recording.path) else "no such file"


def empty_file(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return None if recording.path.stat().st_size else "0 bytes"


def ends_early(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    try:
        return cut_off(recording.path)
    except OSError:  # not permitted to read: the check `unreadable` comes next
        return None


def unreadable(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    try:
        _ = recording.header
    except UndecodableError as error:
        return error.reason
    return None


def too_long(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    # By the header, before decoding: a damaged one may name hours, which would not fit in memory.
    seconds = recording.part[1] - recording.part[0]
    return f"{seconds:.2f} s, at most {config.max_seconds:g}" if seconds > config.max_seconds else None


def breaks_off(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    rate, least = recording.header.sample_rate, recording.header.least
    start, end = (round(at * rate) for at in recording.part)
    named = min(end, least) - start
    try:
        decoded = len(recording.samples)
    except UndecodableError as error:
        return error.reason
    return f"its header names {named} samples and it holds {decoded}" if decoded < named else None


def too_short(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    seconds = recording.seconds
    return f"{seconds:.2f} s, at least {config.min_seconds:g}" if seconds < config.min_seconds or seconds == 0 else None


def not_finite(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    count = int(np.count_nonzero(~np.isfinite(recording.samples)))
    return f"{count} of {len(recording.samples)} samples" if count else None


def channels_differ(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    finding, least = recording.channel_finding, config.min_channel_correlation
    if least is None or finding.correlation is None or finding.correlation >= least:
        return None
    found = f"correlation {finding.correlation:.2f}, at least {least:g}"
    if finding.kind is Channels.INVERTED:
        return f"phase-inverted, so that their average is silence ({found}); turn one over, or keep one"
    lag, correlation = lag_of(recording.channels[:, finding.pair], recording.header.sample_rate)
    if abs(correlation) >= _APART:
        return f"one sound {abs(lag) * 1000:.1f} ms apart, as of two microphones at a distance ({found}); keep one"
    return f"different sounds, as of two speakers or microphones ({found}); keep one, or split them"


def silent(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    level = recording.level_db
    return f"loudest 50 ms at {level:.1f} dB, at least {config.silence_db:g}" if level < config.silence_db else None


def clipped(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    share = recording.clipped
    found = f"{share:.2%} of the samples at full scale, at most {config.max_clipped:.2%}"
    return found if share > config.max_clipped else None


def unspeakable(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return " ".join(f"{character!a} ({character})" for character in recording.spoken.unknown) or None


def nothing_spoken(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return None if recording.spoken.phonemes else f"nothing in {recording.utterance.text!r} is spoken"


def speaking_rate(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    rate = recording.characters_per_second
    slowest, fastest = config.min_characters_per_second, config.max_characters_per_second
    found = f"{rate:.1f} characters a second, from {slowest:g} to {fastest:g} expected"
    return None if slowest <= rate <= fastest else found


CHECKS: tuple[tuple[Defect, Check], ...] = (
    (Defect.EMPTY_TEXT, empty_text),
    (Defect.MISSING_AUDIO, missing_audio),
    (Defect.LEAVES_FOLDER, leaves_folder),
    (Defect.EMPTY_FILE, empty_file),
    (Defect.TRUNCATED, ends_early),
    (Defect.UNREADABLE, unreadable),
    (Defect.TOO_LONG, too_long),
    (Defect.TRUNCATED, breaks_off),
    (Defect.TOO_SHORT, too_short),
    (Defect.NOT_FINITE, not_finite),
    (Defect.CHANNELS_DIFFER, channels_differ),
    (Defect.SILENT, silent),
    (Defect.CLIPPED, clipped),
    (Defect.UNSPEAKABLE, unspeakable),
    (Defect.EMPTY_TEXT, nothing_spoken),
    (Defect.SPEAKING_RATE, speaking_rate),
)


def first_defect(recording: ExaminedRecording, config: PrepareConfig) -> tuple[Defect, str] | None:
    """The reason to reject the recording and what was found; None if it is sound."""
    for defect, check in CHECKS:
        found = check(recording, config)
        if found is not None:
            return defect, found
    return None
