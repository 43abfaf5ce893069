"""Encode speech chunk by chunk, as a stream or in a file: raw samples, WAV, and FFmpeg's formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.wav import pcm16, wav_header
from sonorant.files import atomic_file

if TYPE_CHECKING:
    from av import AudioStream


@dataclass(frozen=True, kw_only=True)
class Encoding:
    media_type: str
    container: str = ""
    """FFmpeg's name for the container; empty means raw 16-bit samples."""
    codec: str = ""
    options: dict[str, str] = field(default_factory=dict)
    streamed: dict[str, str] = field(default_factory=dict)
    """Further options where the output cannot be rewound."""
    bits_per_second: int | None = None


ENCODINGS = {
    "wav": Encoding(media_type="audio/wav"),
    "pcm": Encoding(media_type="audio/pcm"),
    # No header with the length, which is unknown in a stream.
    "mp3": Encoding(
        media_type="audio/mpeg",
        container="mp3",
        codec="libmp3lame",
        streamed={"write_xing": "0"},
        bits_per_second=64_000,
    ),
    # Pages shorter than a second; bitexact avoids a random serial number.
    "opus": Encoding(
        media_type="audio/ogg",
        container="ogg",
        codec="libopus",
        options={"page_duration": "200000", "fflags": "+bitexact"},
        bits_per_second=32_000,
    ),
    "flac": Encoding(media_type="audio/flac", container="flac", codec="flac"),
}
"""Encodings by their names in OpenAI's API."""
ENDINGS = {"": "wav", **{f".{name}": name for name in ENCODINGS}, ".ogg": "opus", ".raw": "pcm"}
"""Encodings by the endings of file names."""


@contextmanager
def sound_file(path: Path, rate: int, name: str) -> Iterator[Callable[[Floats], None]]:
    """Yield a function that appends samples float32 (S,) at `rate` Hz to a file in the encoding `name`, which appears
    at `path` on success. A pipe or device is written immediately; its header leaves the length unknown."""
    special = path.exists() and not path.is_file()
    with nullcontext(path) if special else atomic_file(path.resolve()) as place, place.open("wb") as file:
        encoder = open_encoder(name, rate, file=None if special else file)

        def append(samples: Floats) -> None:
            file.write(encoder.encode(samples))
            if special:
                file.flush()

        yield append
        file.write(encoder.end())
        if name == "wav" and not special:
            size = file.tell() - len(wav_header(rate, 0))
            file.seek(0)
            file.write(wav_header(rate, size // 2))


def open_encoder(
    name: str, rate: int, out_rate: int | None = None, file: IO[bytes] | None = None
) -> Plain | Compressed:
    """Return a deterministic encoder of samples float32 (S,) in -1..1 at `rate` Hz. `out_rate`: sample rate in Hz of
    wav and pcm; None means `rate`. Other formats use the next higher rate that they support, and are written to `file`,
    if given, with their length."""
    encoding = ENCODINGS[name]
    return (
        Compressed(encoding, rate, file) if encoding.container else Plain(rate, out_rate or rate, header=name == "wav")
    )


class Plain:
    """Encoder for 16-bit little-endian samples; the WAV header has no length."""

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
    def __init__(self) -> None:
        self.written = bytearray()

    def write(self, data: bytes) -> int:
        self.written += data
        return len(data)

    def take(self) -> bytes:
        taken = bytes(self.written)
        self.written.clear()
        return taken


class Compressed:
    """Encoder for formats that FFmpeg writes."""

    def __init__(self, encoding: Encoding, rate: int, file: IO[bytes] | None = None) -> None:
        import av

        rates = av.Codec(encoding.codec, "w").audio_rates or [rate]
        self._rate, self._given = rate, 0
        self._sink = _Sink()
        options = encoding.options | ({} if file else encoding.streamed)
        self._container: Any = av.open(file or self._sink, "w", format=encoding.container, options=options)
        coded = min((known for known in rates if known >= rate), default=max(rates))
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
