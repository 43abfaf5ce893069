"""Encode speech chunk by chunk: raw samples, WAV, and FFmpeg's formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.wav import pcm16, wav_header
from sonorant.errors import SonorantError

if TYPE_CHECKING:
    from av import AudioStream

OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
"""Hz."""
MP3_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)


class Encoder(Protocol):
    """Encodes samples float32 (S,) in -1..1, deterministically."""

    def encode(self, samples: Floats) -> bytes:
        """Return the bytes that are complete; may be empty."""

    def end(self) -> bytes:
        """Return the rest."""


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """An audio format."""

    media_type: str
    container: str = ""
    """FFmpeg's name; empty: 16-bit samples, written here."""
    codec: str = ""
    rates: tuple[int, ...] = ()
    """Supported Hz; empty: any."""
    options: dict[str, str] = field(default_factory=dict)
    """Of the container."""
    bits_per_second: int | None = None


ENCODINGS = {
    "wav": Encoding(media_type="audio/wav"),
    "pcm": Encoding(media_type="audio/pcm"),
    # A stream cannot hold the header with the length.
    "mp3": Encoding(
        media_type="audio/mpeg",
        container="mp3",
        codec="libmp3lame",
        rates=MP3_RATES,
        options={"write_xing": "0"},
        bits_per_second=64_000,
    ),
    # The default delays a page by a second; without bitexact the stream's serial number is random.
    "opus": Encoding(
        media_type="audio/ogg",
        container="ogg",
        codec="libopus",
        rates=OPUS_RATES,
        options={"page_duration": "200000", "fflags": "+bitexact"},
        bits_per_second=32_000,
    ),
    "flac": Encoding(media_type="audio/flac", container="flac", codec="flac"),
}
"""By their names in OpenAI's interface."""


def open_encoder(name: str, rate: int, out_rate: int | None = None) -> Encoder:
    """An encoder of samples at `rate` Hz; `out_rate`: Hz of the sound, None = the nearest that the format has. Raises
    SonorantError for an unknown name."""
    if name not in ENCODINGS:
        raise SonorantError(f"unknown format '{name}'; there are: {', '.join(ENCODINGS)}")
    encoding = ENCODINGS[name]
    if encoding.container:
        return _Compressed(encoding, rate, out_rate or rate)
    return _Plain(rate, out_rate or rate, header=name == "wav")


class _Plain:
    """16-bit samples, little-endian; WAV with a header of unknown length."""

    def __init__(self, rate: int, out_rate: int, *, header: bool) -> None:
        self._head = wav_header(out_rate, None) if header else b""
        self._resample: Callable[..., Floats] | None = None
        if out_rate != rate:
            import soxr

            self._resample = soxr.ResampleStream(rate, out_rate, 1, dtype="float32").resample_chunk

    def encode(self, samples: Floats) -> bytes:
        if self._resample:
            samples = self._resample(samples)
        head, self._head = self._head, b""
        return head + pcm16(samples).tobytes()

    def end(self) -> bytes:
        left = self._resample(np.zeros(0, np.float32), last=True) if self._resample else np.zeros(0, np.float32)
        head, self._head = self._head, b""
        return head + pcm16(left).tobytes()


class _Sink:
    """An unseekable file that FFmpeg writes to."""

    def __init__(self) -> None:
        self.written = bytearray()

    def write(self, data: bytes) -> int:
        self.written += data
        return len(data)

    def take(self) -> bytes:
        taken = bytes(self.written)
        self.written.clear()
        return taken


class _Compressed:
    """An FFmpeg stream."""

    def __init__(self, encoding: Encoding, rate: int, out_rate: int) -> None:
        import av

        rates = encoding.rates or (out_rate,)
        self._rate, self._given = rate, 0
        self._sink = _Sink()
        self._container: Any = av.open(self._sink, "w", format=encoding.container, options=encoding.options)
        coded = min((known for known in rates if known >= out_rate), default=rates[-1])
        self._stream = cast("AudioStream", self._container.add_stream(encoding.codec, rate=coded))
        self._stream.layout = "mono"
        if encoding.bits_per_second:
            self._stream.bit_rate = encoding.bits_per_second

    def encode(self, samples: Floats) -> bytes:
        from av import AudioFrame

        if len(samples):
            frame = AudioFrame.from_ndarray(pcm16(samples)[None], format="s16", layout="mono")
            frame.sample_rate, frame.pts = self._rate, self._given
            self._given += len(samples)
            self._container.mux(self._stream.encode(frame))
        return self._sink.take()

    def end(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._sink.take()
