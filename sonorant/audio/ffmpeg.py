"""Decode m4a, webm, wma and video with PyAV, for `decoding.py`.

The first audio stream is read; its first sample is at second 0. Silence added by an encoder is removed if the container
marks it (edit lists, Opus pre-skip). Shapes: S samples, C channels.
"""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from sonorant.audio.decoding import CONTINUES, PREROLL, SLACK, Header, UndecodableError

GAP = 0.05, 60.0
"""Minimum and maximum jump in time stamps, in seconds, that counts as a gap: a smaller one is rounding, a larger one a
damaged time stamp."""
# Without this list, text may be read as a playlist, which opens other files.
_FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,asf,avi,flv,mpegts,mpeg,aac,loas,ac3,eac3,dts,amr,mp3,ogg,wav,w64,aiff,caf,au"
    ",flac,wv,tta,ape,dsf"
)
_TELLING = ("mov", "matroska", "asf", "avi", "caf", "wv", "tta", "ape", "dsf")
"""Formats that store the length; in others, the packets are counted."""
_PROTECTED = ("drms", "enca")

Samples = NDArray[np.float32]
_Sound = tuple[float | None, Samples]
"""Time stamp in seconds, if any, and samples (C, S) of a decoded frame."""

av.logging.set_level(None)  # errors are raised instead


def header(path: Path, refused: str) -> Header:
    """Read a header as `decoding.header` does. `refused`: reason in the error if FFmpeg cannot read the file either."""
    with _opened(path, refused) as file:
        rate, told = file.rate, file.sound_length
        seconds = next((known for known in (told, file.longest) if known is not None), None)
        if file.continues and file.container.format.name == "wav":
            seconds = file.container.size * 8 / (file.stream.codec_context.bit_rate or 1)
        frames = round((_counted(file) if seconds is None else seconds) * rate)
        least = 0 if told is None else max(frames - round(SLACK * rate), 0)
        form = f"{file.container.format.name} {file.stream.codec_context.name}"
        channels = file.stream.codec_context.channels
    return Header(sample_rate=rate, frames=frames, channels=channels, form=form, least=least)


def decode(path: Path, start: float, end: float | None, refused: str) -> tuple[NDArray[np.float32], int]:
    """Decode a part as `decoding.decode` does. A file in which seeking fails, or misses as in joined MP3s, is decoded
    from its start."""
    found = None
    if start > 2 * PREROLL and refused != CONTINUES:
        with _opened(path, refused) as file, suppress(UndecodableError):  # a seek may split a packet
            found = _part(file, start, end, jump=True)
    if found is None:
        with _opened(path, refused) as file:
            found = _part(file, start, end, jump=False)
    assert found is not None
    return np.ascontiguousarray(found.T), file.rate


def decode_blocks(path: Path, refused: str) -> Iterator[tuple[NDArray[np.float32], int]]:
    with _opened(path, refused) as file:
        opening, sounds = _opening(file)
        last = _last(file, None)
        for position, samples in _placed(sounds, opening[0] or 0.0, file.rate):
            if position >= last:
                break
            yield np.ascontiguousarray(samples[:, : last - position].T), file.rate


@dataclass(frozen=True, kw_only=True)
class _File:
    path: Path
    container: av.container.InputContainer
    stream: av.AudioStream
    continues: bool = False
    """Whether sound follows the stated end, perhaps after packets that are not sound."""

    @property
    def rate(self) -> int:
        return self.stream.codec_context.sample_rate

    @property
    def sound_length(self) -> float | None:
        """Length in seconds of the sound without padding; None if not stored."""
        ticks, unit = self.stream.duration, self.stream.time_base
        if not self.container.format.name.startswith("mov,") or ticks is None or unit is None:
            return None
        return float(ticks * unit)

    @property
    def longest(self) -> float | None:
        """Length in seconds of the longest stream; None if not stored."""
        telling = self.container.format.name.split(",")[0] in _TELLING
        return self.container.duration / av.time_base if telling and self.container.duration is not None else None


@contextmanager
def _opened(path: Path, refused: str) -> Iterator[_File]:
    continues = refused == CONTINUES
    # Bytes and seconds to probe: in a film, sound may begin long after the picture.
    look = {"protocol_whitelist": "file", "format_whitelist": _FORMATS, "probesize": "32M", "analyzeduration": "60M"}
    look["ignore_length"] = str(int(continues))
    try:
        container = av.open(f"file:{path}", options=look, metadata_errors="replace")
    except av.FFmpegError:
        raise UndecodableError(path, refused) from None
    with closing(container):
        if not container.streams.audio:
            raise UndecodableError(path, "it contains no audio stream")
        stream = container.streams.audio[0]
        if stream.codec_context is None:
            raise UndecodableError(path, "its codec is unknown")
        if stream.codec_context.codec_tag in _PROTECTED:
            raise UndecodableError(path, "it is copy-protected (DRM)")
        if stream.codec_context.sample_rate < 1:
            raise UndecodableError(path, "its audio stream is empty")
        yield _File(path=path, container=container, stream=stream, continues=continues)


def _counted(file: _File) -> float:
    packets = file.container.demux(file.stream)
    return sum(float(packet.duration * packet.time_base) for packet in packets if packet.duration)


def _part(file: _File, start: float, end: float | None, *, jump: bool) -> Samples | None:
    """Return samples (C, S) of the part; None if seeking failed or went past the part's start."""
    rate, (opening, sounds) = file.rate, _opening(file)
    origin = opening[0] or 0.0
    if jump:
        try:
            unit = file.stream.time_base or Fraction(1, file.rate)
            file.container.seek(int((origin + start - PREROLL) / unit), stream=file.stream)
        except av.FFmpegError:
            return None
        sounds = _sounds(file)
    first, last = round(max(start, 0.0) * rate), _last(file, end)
    pieces: list[Samples] = []
    begin = first
    for position, samples in _placed(sounds, origin, rate):
        if position >= last:
            break
        if position + samples.shape[1] > first:
            begin = begin if pieces else position
            pieces.append(samples)
    if jump and (not pieces or begin > first):
        return None
    whole = np.concatenate(pieces, axis=1) if pieces else opening[1][:, :0]
    return whole[:, first - begin : max(last - begin, 0)]


def _opening(file: _File) -> tuple[_Sound, Iterator[_Sound]]:
    sounds = _sounds(file)
    opening = next(sounds, None)
    if opening is None:
        raise UndecodableError(file.path, "its audio stream is empty")
    return opening, chain([opening], sounds)


def _last(file: _File, end: float | None) -> int:
    ends = [seconds for seconds in (end, file.sound_length) if seconds is not None]
    return round(min(ends) * file.rate) if ends else sys.maxsize


def _placed(sounds: Iterator[_Sound], origin: float, rate: int) -> Iterator[tuple[int, Samples]]:
    position, expected = None, origin
    for time, samples in sounds:
        if position is None:
            position = round(((time or origin) - origin) * rate)
        elif time is not None:
            gap = round((time - origin) * rate) - position
            # Check both, because clocks may run slower than the samples, and time stamps may jitter.
            if GAP[0] < time - expected < GAP[1] and GAP[0] * rate < gap < GAP[1] * rate:
                yield position, np.zeros((len(samples), gap), np.float32)
                position += gap
        yield position, samples
        position += samples.shape[1]
        expected = (expected if time is None else time) + samples.shape[1] / rate


def _sounds(file: _File) -> Iterator[_Sound]:
    resampler, seconds = av.AudioResampler(format="fltp"), 0.0
    try:
        for packet in file.container.demux(file.stream):
            with suppress(*[av.InvalidDataError] * file.continues):
                for frame in packet.decode():
                    for samples in resampler.resample(frame):
                        yield frame.time, samples.to_ndarray().astype(np.float32, copy=False)
                    seconds = frame.time or seconds
    except (av.FFmpegError, ValueError) as error:  # ValueError: rate or channels change
        problem = str(getattr(error, "strerror", None) or error)
        raise UndecodableError(file.path, f"decoding failed after {seconds:.2f} s: {problem}") from None
