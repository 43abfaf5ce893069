"""Decode sound files with libsndfile or, if it fails, FFmpeg. Both detect formats by content. Shapes: S samples, C
channels."""

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
"""Suffixes to try, in this order, for a recording named without a suffix."""
PREROLL = 0.5
"""Seconds to decode before the requested part, because the first frames after a seek are wrong in Opus and MP3, and
containers seek only to a block."""
_UNKNOWN = "Format not recognised"


class UndecodableError(SonorantError):
    """The file is damaged or contains no sound. `reason` is the message without the path."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: cannot be read as audio ({reason}); convert it to wav or flac")
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Header:
    sample_rate: int
    frames: int
    """Samples per channel."""
    channels: int
    form: str
    """Container and codec, such as "WAV PCM_16" or "matroska,webm opus"."""
    least: int
    """Minimum samples per channel of a complete file; 0 if not stored in the container."""

    @property
    def seconds(self) -> float:
        return self.frames / self.sample_rate


def header(path: Path) -> Header:
    """Read a header without decoding. Raises SonorantError if the file does not exist, UndecodableError if it contains
    no sound."""
    opened = _open(path)
    if isinstance(opened, str):
        return _ffmpeg(path, opened).header(path, opened)
    with opened as file:
        if file.samplerate < 1:
            raise UndecodableError(path, "sample rate 0")
        form, frames = f"{file.format} {file.subtype}", file.frames
        return Header(sample_rate=file.samplerate, frames=frames, channels=file.channels, form=form, least=frames)


def decode(path: Path, start: float = 0.0, end: float | None = None) -> tuple[NDArray[np.float32], int]:
    """Decode a file from `start` to `end` (seconds; None means the file's end) to float32 (S, C), full scale 1.0, and
    the rate in Hz. NaN, infinity and values beyond full scale are kept. A part equals the same part of the whole file,
    within 1 ms in formats with only time stamps (webm). Raises errors as `header` does."""
    opened = _open(path)
    if isinstance(opened, str):
        return _ffmpeg(path, opened).decode(path, start, end, opened)
    with opened as file:
        if file.format == "MP3" and start > 0 and find_spec("av"):
            # After a seek, libsndfile's MP3 decoder prints warnings about the preceding frames.
            return _ffmpeg(path, _UNKNOWN).decode(path, start, end, _UNKNOWN)
        try:
            return _read(file, start, end), file.samplerate
        except soundfile.SoundFileError as error:
            raise UndecodableError(path, f"decoding failed: {_problem(error)}") from None


def decode_blocks(path: Path) -> Iterator[tuple[NDArray[np.float32], int]]:
    """Decode a whole file in constant memory: yield pieces (S, C) of at most about 10 s, and the rate in Hz."""
    opened = _open(path)
    if isinstance(opened, str):
        yield from _ffmpeg(path, opened).decode_blocks(path, opened)
        return
    with opened as file:
        try:
            for block in file.blocks(10 * file.samplerate, dtype="float32", always_2d=True):
                yield block, file.samplerate
        except soundfile.SoundFileError as error:
            raise UndecodableError(path, f"decoding failed: {_problem(error)}") from None


def seeks_fast(path: Path) -> bool:
    """Return whether the time to read a part is independent of its position."""
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
    """Open the file with libsndfile, or return the reason for failure. A file that opens but fails later is damaged;
    FFmpeg might decode only its beginning."""
    if not path.is_file():
        raise SonorantError(f"{path}: no such audio file")
    try:
        return soundfile.SoundFile(path)
    except soundfile.SoundFileError as error:
        return _problem(error)
    except TypeError:  # a name ending in .raw
        return "samples without a header"


def _problem(error: soundfile.SoundFileError) -> str:
    return str(getattr(error, "error_string", error)).strip().removeprefix("Error : ").rstrip(".")


def _ffmpeg(path: Path, refused: str) -> ModuleType:
    """Import FFmpeg's decoders, which synthesis does not need."""
    try:
        from sonorant.audio import ffmpeg
    except ImportError:
        hint = "formats other than wav, flac, ogg, mp3 and aiff require PyAV; run: pip install 'sonorant[pipeline]'"
        raise SonorantError(f"{path}: cannot be read as audio ({refused}); {hint}") from None
    return ffmpeg
