"""Every check of a single utterance, in order: the first that finds something names the reason to reject it.

A check returns what it found, in words for the report, or None. Duplicates need the other utterances and are found in
`prepare`. libsndfile silently reads a truncated WAV or Ogg file as a shorter recording, so truncation is found from
what the container says about its length: RIFF WAVE (Microsoft, 1991), Ogg (RFC 3533), MP3's Xing/Info header (LAME).
FLAC's decoder does complain.
"""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np
import soundfile

from sonorant.audio.wav import decoding_problem, read_audio
from sonorant.data.manifest import Defect, Utterance, file_exists, path_inside
from sonorant.data.splits import SplitBy
from sonorant.errors import SonorantError
from sonorant.text import Frontend, SpokenText

LEVEL_SECONDS = 0.05
FULL_SCALE = 0.999
# Written by programs that stream and cannot go back to fill in the length.
_UNKNOWN_LENGTH = (0, 0x7FFFFFFF, 0xFFFFFFFF)


def cut_off(path: Path) -> str | None:
    """What a truncated file (of at least one byte) lacks; None if it is whole or its format does not tell."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        match data[:4]:
            case b"RIFF":
                return _wav(data)
            case b"OggS":
                return _ogg(data)
            case magic if magic[:3] == b"ID3" or magic[:1] == b"\xff":
                return _mp3(data)
    return None


def _wav(data: mmap) -> str | None:
    position = 12
    while position + 8 <= len(data):
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        held = len(data) - position - 8
        if data[position : position + 4] == b"data":
            short = held < size and size not in _UNKNOWN_LENGTH
            return f"its data chunk should hold {size} bytes and holds {held}" if short else None
        position += 8 + size + size % 2
    return "it ends before its data chunk"


def _ogg(data: mmap) -> str | None:
    page = data.rfind(b"OggS")
    header = data[page : page + 27]
    if len(header) < 27:
        return "it ends within a page header"
    segments = data[page + 27 : page + 27 + header[26]]
    if len(segments) < header[26] or len(data) - page - 27 - header[26] < sum(segments):
        return "it ends within a page"
    end_of_stream = header[5] & 4
    return None if end_of_stream else "its last page is not marked as the end"


def _mp3(data: mmap) -> str | None:
    start = 0
    if data[:3] == b"ID3" and len(data) >= 10:
        start = 10 + sum((byte & 0x7F) << shift for byte, shift in zip(data[6:10], (21, 14, 7, 0), strict=True))
    first_frame = data[start : start + 256]
    mark = next((at for at in (first_frame.find(b"Xing"), first_frame.find(b"Info")) if at >= 0), None)
    if mark is None or len(first_frame) < mark + 16:
        return None
    has_frames, has_bytes = (flags := first_frame[mark + 7]) & 1, flags & 2
    if not has_bytes:
        return None
    (size,) = struct.unpack_from(">I", first_frame, mark + (12 if has_frames else 8))
    held = len(data) - start
    return f"its header names {size} bytes and it holds {held}" if held < size else None


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Section `prepare` of params.yaml: what an utterance must be to be trained on, and the splits."""

    min_seconds: float
    """Shortest duration in seconds."""
    max_seconds: float
    """Longest duration in seconds."""
    min_characters_per_second: float
    """Slowest speech: characters of the spoken text, with blanks, a second."""
    max_characters_per_second: float
    """Fastest speech, in the same measure."""
    silence_db: float
    """A recording is silent if the RMS of its loudest 50 ms is below this, dB of full scale."""
    max_clipped: float
    """Fraction of samples at full scale above which a recording is clipped."""
    max_rejected: float
    """Fraction of rejected utterances above which preparation fails."""
    validation: float
    """Fraction held out to watch training, by hash."""
    test: float
    """Fraction held out for evaluation, by hash."""
    split_by: SplitBy = "text"
    """What the hash is of. `text`: all takes of a sentence are in one split; `speaker`: all of a speaker; `id`: each
    utterance for itself, so that other takes of a held-out sentence may be learned."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_seconds < self.max_seconds:
            raise ValueError(
                f"min_seconds ({self.min_seconds}) must be at least 0 and less than max_seconds ({self.max_seconds})"
            )
        slow, fast = self.min_characters_per_second, self.max_characters_per_second
        if not 0 <= slow < fast:
            raise ValueError(
                f"min_characters_per_second ({slow}) must be at least 0 and "
                f"less than max_characters_per_second ({fast})"
            )
        if self.silence_db >= 0:
            raise ValueError(f"silence_db ({self.silence_db}) is in dB of full scale, so less than 0")
        for name in ("max_clipped", "max_rejected", "validation", "test"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} ({getattr(self, name)}) is a fraction, from 0 to 1")
        if self.validation + self.test >= 1:
            held_out = f"validation ({self.validation}) and test ({self.test})"
            raise ValueError(f"{held_out} leave nothing to train on; their sum must be below 1")


class ExaminedRecording:
    """Measurements of one utterance, each made once and when first asked for."""

    def __init__(self, utterance: Utterance, corpus: Path, frontend: Frontend) -> None:
        self.utterance = utterance
        self.corpus = corpus
        self.frontend = frontend

    @property
    def path(self) -> Path:
        """The audio file."""
        return self.corpus / (self.utterance.audio or "")

    @cached_property
    def header(self) -> soundfile._SoundFileInfo:
        """The file's own description. Raises soundfile.SoundFileError if it cannot be opened as audio."""
        return soundfile.info(str(self.path))

    @property
    def part(self) -> tuple[float, float]:
        """Start and end of the utterance in its file, in seconds by the header."""
        whole = self.header.frames / self.header.samplerate
        return min(self.utterance.start or 0.0, whole), min(self.utterance.end or whole, whole)

    @cached_property
    def samples(self) -> np.ndarray:
        """Mono float32 (S,) at the recording's rate. Raises SonorantError if decoding fails."""
        return read_audio(self.path, start=self.utterance.start or 0.0, end=self.utterance.end)[0]

    @property
    def seconds(self) -> float:
        """Duration as decoded."""
        return len(self.samples) / self.header.samplerate

    @cached_property
    def level_db(self) -> float:
        """RMS of the loudest 50 ms in dB of full scale (a sine at full scale: -3); -200 for digital silence."""
        window = max(min(round(LEVEL_SECONDS * self.header.samplerate), len(self.samples)), 1)
        blocks = self.samples[: len(self.samples) // window * window].astype(np.float64).reshape(-1, window)
        loudest = np.square(blocks).mean(axis=1).max(initial=0.0)
        return float(10 * np.log10(max(loudest, 1e-20)))

    @property
    def clipped(self) -> float:
        """Fraction of samples at or beyond full scale."""
        return float(np.mean(np.abs(self.samples) >= FULL_SCALE))

    @cached_property
    def spoken(self) -> SpokenText:
        """The text as the frontend speaks it."""
        return self.frontend.speak(self.utterance.text)

    @property
    def characters_per_second(self) -> float:
        """Speaking rate: characters of the spoken text, with blanks, a second."""
        return len(self.spoken.text) / self.seconds

    @cached_property
    def sound(self) -> str:
        """Hex SHA-256 of the decoded samples: equal for copies, also in another lossless format."""
        return hashlib.sha256(self.samples.tobytes()).hexdigest()


Check = Callable[[ExaminedRecording, PrepareConfig], str | None]


def empty_text(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    return None if recording.utterance.text.strip() else "no text"


def leaves_folder(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    outside = path_inside(recording.corpus, recording.utterance.audio or "") is None
    return "only files inside the corpus folder are read" if outside else None


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
        return None if recording.header.samplerate > 0 else "sample rate 0"
    except soundfile.SoundFileError as error:
        return decoding_problem(error)


def too_long(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    # By the header, before decoding: a damaged one may name hours, which would not fit in memory.
    seconds = recording.part[1] - recording.part[0]
    return f"{seconds:.2f} s, at most {config.max_seconds:g}" if seconds > config.max_seconds else None


def breaks_off(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    start, end = (round(at * recording.header.samplerate) for at in recording.part)
    frames = end - start
    try:
        decoded = len(recording.samples)
    except SonorantError:
        return f"decoding breaks off before the {frames} samples its header names"
    return f"its header names {frames} samples and it holds {decoded}" if decoded < frames else None


def too_short(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    seconds = recording.seconds
    return f"{seconds:.2f} s, at least {config.min_seconds:g}" if seconds < config.min_seconds or seconds == 0 else None


def not_finite(recording: ExaminedRecording, config: PrepareConfig) -> str | None:
    count = int(np.count_nonzero(~np.isfinite(recording.samples)))
    return f"{count} of {len(recording.samples)} samples" if count else None


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


def first_defect(recording: ExaminedRecording, config: PrepareConfig) -> tuple[Defect, str] | None:
    """The reason to reject the recording and what was found; None if it is sound."""
    for defect, check in CHECKS:
        found = check(recording, config)
        if found is not None:
            return defect, found
    return None
