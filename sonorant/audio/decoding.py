"""Decode sound files: by libsndfile what it knows, by FFmpeg's libraries (`sonorant/audio/ffmpeg.py`) the rest.

Libsndfile comes first because it is small, exact and needed for speaking anyway. Each opens a file by its content, so a
wrong suffix does no harm. Shapes: S samples, C channels.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import soundfile
from numpy.typing import NDArray

from sonorant.errors import SonorantError

# fmt: off
SUFFIXES = (
    ".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".caf", ".au", ".oga", ".opus",
    ".m4a", ".aac", ".wma", ".webm", ".mka", ".mp4", ".m4v", ".mov", ".mkv", ".avi", ".3gp", ".amr", ".ac3",
)
# fmt: on
"""Endings by which a recording that is named without one is looked for, in this order."""
PREROLL = 0.5
"""Seconds decoded before a part, as a codec's first frames after a jump are not yet right (Opus: 80 ms, RFC 7845; MP3:
its bit reservoir), and containers find a place only to within a block."""
_UNKNOWN = "Format not recognised"
FORMATS = "wav, flac, ogg, mp3, m4a, opus, webm, wma, aiff and the sound of videos can"


class UndecodableError(SonorantError):
    """A file that is not sound, or damaged; `reason` is the message without the file."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: cannot be read as audio ({reason}); {FORMATS}")
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a sound file says of itself."""

    sample_rate: int
    """Hz."""
    frames: int
    """Samples of each channel."""
    channels: int
    form: str
    """Container and codec, such as "WAV PCM_16" or "matroska,webm opus"."""
    least: int
    """Samples of each channel that a whole file holds at least; 0 if its container tells the length of all its streams
    together, or of none."""

    @property
    def seconds(self) -> float:
        return self.frames / self.sample_rate


def header(path: Path) -> Header:
    """Read a file's header without decoding its sound. Raises SonorantError if it is absent, UndecodableError if it is
    not a sound file."""
    opened = _open(path)
    if isinstance(opened, str):
        return _ffmpeg(path, opened).header(path, opened)
    with opened as file:
        if file.samplerate < 1:
            raise UndecodableError(path, "sample rate 0")
        form, frames = f"{file.format} {file.subtype}", file.frames
        return Header(sample_rate=file.samplerate, frames=frames, channels=file.channels, form=form, least=frames)


def decode(path: Path, start: float = 0.0, end: float | None = None) -> tuple[NDArray[np.float32], int]:
    """Decode a file, or its part from `start` to `end` (seconds after its first sample; None = its end).

    Returns float32 (S, C), full scale 1.0, and the rate in Hz. NaN, infinity and values beyond full scale are kept. A
    part is read without what comes before and after it, and is shorter or empty where the file ends. Its edges are
    those of the whole decoded and cut; where only time stamps tell where sound is, they are as exact as these (webm: 1
    ms). Raises as `header`.
    """
    opened = _open(path)
    if isinstance(opened, str):
        return _ffmpeg(path, opened).decode(path, start, end, opened)
    with opened as file:
        if file.format == "MP3" and start > 0 and find_spec("av"):
            # After a jump, libsndfile's decoder prints its complaints of the frames before.
            return _ffmpeg(path, _UNKNOWN).decode(path, start, end, _UNKNOWN)
        try:
            return _read(file, start, end), file.samplerate
        except soundfile.SoundFileError as error:
            raise UndecodableError(path, f"decoding breaks off: {_problem(error)}") from None


def decode_blocks(path: Path, seconds: float = 10.0) -> Iterator[tuple[NDArray[np.float32], int]]:
    """As `decode` of the whole file, piece by piece, so that memory does not grow with its length: (S, C) and the rate
    in Hz; pieces are of about `seconds` at most."""
    opened = _open(path)
    if isinstance(opened, str):
        yield from _ffmpeg(path, opened).decode_blocks(path, opened)
        return
    with opened as file:
        try:
            for block in file.blocks(round(seconds * file.samplerate), dtype="float32", always_2d=True):
                yield block, file.samplerate
        except soundfile.SoundFileError as error:
            raise UndecodableError(path, f"decoding breaks off: {_problem(error)}") from None


def seeks_fast(path: Path) -> bool:
    """Whether a part of the file is read in a time that does not depend on where it lies. In MP3 and what FFmpeg reads,
    a jump may look through all that lies before."""
    opened = _open(path)
    if isinstance(opened, str):
        return False
    with opened as file:
        return file.format not in ("MP3", "OGG")


def _read(file: soundfile.SoundFile, start: float, end: float | None) -> NDArray[np.float32]:
    first = min(round(max(start, 0.0) * file.samplerate), file.frames)
    before = min(first, round(PREROLL * file.samplerate)) if file.format in ("MP3", "OGG") else 0
    if first:
        file.seek(first - before)
    count = -1 if end is None else before + max(round(end * file.samplerate) - first, 0)
    return file.read(count, dtype="float32", always_2d=True)[before:]


def _open(path: Path) -> soundfile.SoundFile | str:
    """The file as libsndfile opens it, or why it does not. What it opens and then fails to read is damaged: FFmpeg
    might read a shorter sound from it without a word."""
    if not path.is_file():
        raise SonorantError(f"{path}: no such audio file")
    try:
        return soundfile.SoundFile(path)
    except soundfile.SoundFileError as error:
        return _problem(error)
    except TypeError:  # a name that ends in .raw: soundfile wants to be told the rest
        return "samples without a header"


def _problem(error: soundfile.SoundFileError) -> str:
    """libsndfile's message about a failure, without the path it may begin with."""
    return str(getattr(error, "error_string", error)).strip().removeprefix("Error : ").rstrip(".")


def _ffmpeg(path: Path, refused: str) -> ModuleType:
    """FFmpeg's decoders, which speaking does without."""
    try:
        from sonorant.audio import ffmpeg
    except ImportError:
        hint = "formats other than wav, flac, ogg, mp3 and aiff need PyAV: pip install 'sonorant[pipeline]'"
        raise SonorantError(f"{path}: cannot be read as audio ({refused}); {hint}") from None
    return ffmpeg
