"""Decode sound files with libsndfile or, if it fails, FFmpeg. Both detect formats by content. Shapes: S samples, C
channels."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import soundfile
from numpy.typing import NDArray

from sonorant.audio.containers import continues
from sonorant.errors import SonorantError, needing

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
SLACK = 0.1
"""Seconds by which a file may be shorter than its stored length, such as an MP3 cut out of a stream."""
CONTINUES = "it continues behind its stated end"
_UNKNOWN = "Format not recognised"
_JOINED = 0.5  # minimum seconds that FFmpeg finds behind the end of an MP3
_DENSEST = 2**14  # maximum samples in a byte: silence as FLAC


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
    with _opened(path) as (file, refused):
        if file is None:
            return _ffmpeg(path, refused).header(path, refused)
        if file.samplerate < 1:
            raise UndecodableError(path, "sample rate 0")
        form, frames = f"{file.format} {file.subtype}", file.frames
        least = max(frames - round(SLACK * file.samplerate), 0) if file.subtype.startswith("MPEG") else frames
        return Header(sample_rate=file.samplerate, frames=frames, channels=file.channels, form=form, least=least)


def decode(path: Path, start: float = 0.0, end: float | None = None) -> tuple[NDArray[np.float32], int]:
    """Decode a file from `start` to `end` (seconds; None means the file's end) to float32 (S, C), full scale 1.0, and
    the rate in Hz. NaN, infinity and values beyond full scale are kept. A part equals the same part of the whole file,
    within 1 ms in formats with only time stamps (webm). Raises errors as `header` does."""
    with _opened(path) as (file, refused):
        if file is None:
            return _ffmpeg(path, refused).decode(path, start, end, refused)
        if file.format == "MP3" and start > 0 and find_spec("av"):
            # After a seek, libsndfile's MP3 decoder prints warnings about the preceding frames.
            return _ffmpeg(path, _UNKNOWN).decode(path, start, end, _UNKNOWN)
        return _read(file, start, end), file.samplerate


def decode_blocks(path: Path) -> Iterator[tuple[NDArray[np.float32], int]]:
    """Decode a whole file in constant memory: yield pieces (S, C) of at most about 10 s, and the rate in Hz."""
    with _opened(path) as (file, refused):
        if file is None:
            yield from _ffmpeg(path, refused).decode_blocks(path, refused)
            return
        left = file.frames
        while left > 0 and len(block := file.read(min(left, 10 * file.samplerate), "float32", always_2d=True)):
            yield block, file.samplerate
            left -= len(block)


def seeks_fast(path: Path) -> bool:
    """Return whether the time to read a part is independent of its position."""
    with _opened(path) as (file, _):
        return file is not None and file.seekable() and file.format not in ("MP3", "OGG")


def _read(file: soundfile.SoundFile, start: float, end: float | None) -> NDArray[np.float32]:
    first = min(round(max(start, 0.0) * file.samplerate), file.frames)
    before = min(first, round(PREROLL * file.samplerate)) if file.format in ("MP3", "OGG") else 0
    if not file.seekable():
        before = first
    elif first:
        file.seek(first - before)
    count = file.frames if end is None else before + max(round(end * file.samplerate) - first, 0)
    return file.read(count, dtype="float32", always_2d=True)[before:]


@contextmanager
def _opened(path: Path) -> Iterator[tuple[soundfile.SoundFile | None, str]]:
    """Open the file with libsndfile; yield None and the reason if FFmpeg must read it. Any decoder's error becomes an
    UndecodableError. A file that fails after opening is damaged; FFmpeg might decode only its beginning."""
    if not path.is_file():
        raise SonorantError(f"{path}: no such audio file; restore it or correct the path")
    file, refused = None, ""
    try:
        file = soundfile.SoundFile(path)
        refused = _misread(path, file)
    except soundfile.SoundFileError as error:
        refused = _problem(error)
    except TypeError:  # a name ending in .raw
        refused = "samples without a header"
    try:
        with file or nullcontext():
            yield None if refused else file, refused
    except (SonorantError, MemoryError):
        raise
    except Exception as error:  # decoders raise errors of any type
        raise UndecodableError(path, f"decoding failed: {_problem(error)}") from None


def _misread(path: Path, file: soundfile.SoundFile) -> str:
    """Return why libsndfile does not read the file to its end; empty if it does."""
    found = path.stat()
    seconds = file.frames / file.samplerate if file.format == "MP3" else None
    if _continues(path, found.st_size, found.st_mtime_ns, seconds):
        return CONTINUES
    return "its length is not stored" if file.frames > _DENSEST * found.st_size else ""


@lru_cache(maxsize=1024)
def _continues(path: Path, size: int, modified: int, seconds: float | None) -> bool:
    if seconds is None:
        return continues(path)
    with suppress(Exception):  # PyAV is missing, or FFmpeg cannot read what libsndfile can
        counted: Header = _ffmpeg(path, CONTINUES).header(path, CONTINUES)
        return counted.seconds > seconds + _JOINED
    return False


def _problem(error: Exception) -> str:
    said = getattr(error, "error_string", None) or getattr(error, "strerror", None) or error
    return " ".join(str(said).split()).removeprefix("Error : ").rstrip(".")


def _ffmpeg(path: Path, refused: str) -> ModuleType:
    """Import FFmpeg's decoders, which synthesis does not need."""
    with needing("pipeline", f"{path}: not wav, flac, ogg, mp3 or aiff ({refused});"):
        from sonorant.audio import ffmpeg
    return ffmpeg
