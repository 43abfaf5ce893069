from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

FORMATS: dict[str, dict[str, Any]] = {
    "aac.m4a": {"codec": "aac", "rate": 44100},
    "fragments.mp4": {"codec": "aac", "rate": 44100, "options": {"movflags": "frag_keyframe+empty_moov"}},
    "film.mp4": {"codec": "aac", "rate": 48000, "film": True},
    "alac.m4a": {"codec": "alac", "rate": 44100},
    "pcm.mov": {"codec": "pcm_s16le", "rate": 48000, "film": True},
    "opus.webm": {"codec": "libopus", "rate": 48000},
    "live.webm": {"codec": "libopus", "rate": 48000, "options": {"live": "1"}},
    "film.mkv": {"codec": "libopus", "rate": 48000, "film": True},
    "flac.mka": {"codec": "flac", "rate": 24000},
    "opus.opus": {"codec": "libopus", "rate": 48000, "container": "ogg"},
    "mp3.mp3": {"codec": "libmp3lame", "rate": 22050},
    "wma.wma": {"codec": "wmav2", "rate": 44100},
    "pcm.aiff": {"codec": "pcm_s16be", "rate": 22050},
    "alac.caf": {"codec": "alac", "rate": 44100},
    "aac.aac": {"codec": "aac", "rate": 44100, "container": "adts"},
    "ac3.ac3": {"codec": "ac3", "rate": 48000},
    "amr.3gp": {"codec": "libopencore_amrnb", "rate": 8000},
    "mp3.avi": {"codec": "libmp3lame", "rate": 44100, "film": True},
}
"""File name to arguments of `encode`."""


def sweep(seconds: float, rate: int, channels: int = 1) -> np.ndarray:
    """A tone rising from 100 Hz and a pulsed one: float32 (S, C), different everywhere."""
    time = np.arange(round(seconds * rate)) / rate
    top = min(0.3 * rate, 6000.0)
    rising = 0.4 * np.sin(2 * np.pi * (100 * time + (top - 100) * time**2 / (2 * seconds)))
    beeps = 0.2 * np.sin(2 * np.pi * 440 * time) * (np.sin(2 * np.pi * 3 * time) > 0)
    return np.repeat((rising + beeps).astype(np.float32)[:, None], channels, axis=1)


def encode(
    path: Path,
    samples_SC: np.ndarray,
    *,
    rate: int,
    codec: str,
    container: str | None = None,
    film: bool = False,
    options: dict[str, str] | None = None,
    gap: tuple[float, float] = (0.0, 0.0),
) -> Path:
    """Write float32 (S, C) to `path`; `film` adds pictures; `gap`: the second at which time stamps jump, and by
    how much."""
    layout = "mono" if samples_SC.shape[1] == 1 else "stereo"
    cut = round(gap[0] * rate)
    with av.open(str(path), "w", format=container, options=options or {}) as file:
        pictures: Any = file.add_stream("mpeg4", rate=25, width=64, height=64, pix_fmt="yuv420p") if film else None
        sound: Any = file.add_stream(codec, rate=rate, layout=layout)
        if codec != "libopencore_amrnb":
            sound.bit_rate = 96000
        for number in range(len(samples_SC) * 25 // rate if pictures else 0):
            picture = av.VideoFrame.from_ndarray(np.full((64, 64, 3), number % 255, np.uint8))
            picture.pts = number
            file.mux(pictures.encode(picture))
        if pictures:
            file.mux(pictures.encode(None))
        for first, last, late in ((0, cut, 0.0), (cut, len(samples_SC), gap[1])):
            if last > first:
                data = np.ascontiguousarray(samples_SC[first:last].T, dtype=np.float32)
                frame = av.AudioFrame.from_ndarray(data, format="fltp", layout=layout)
                frame.rate, frame.pts, frame.time_base = rate, first + round(late * rate), Fraction(1, rate)
                file.mux(sound.encode(frame))
        file.mux(sound.encode(None))
    return path


def without_sound(path: Path) -> Path:
    """A film of two seconds without an audio stream."""
    with av.open(str(path), "w") as file:
        pictures = file.add_stream("mpeg4", rate=25, width=64, height=64, pix_fmt="yuv420p")
        for number in range(50):
            picture = av.VideoFrame.from_ndarray(np.full((64, 64, 3), number, np.uint8))
            picture.pts = number
            file.mux(pictures.encode(picture))
        file.mux(pictures.encode(None))
    return path
