"""Audio files that end before they should. Decodes nothing: it reads what the container says about its own length.

libsndfile reads a cut-off WAV or Ogg file without a word, as a shorter recording. Formats: RIFF WAVE (Microsoft, 1991), Ogg
(RFC 3533), the Xing/Info header of MP3 (LAME). FLAC is missing because its decoder does complain.
"""

from __future__ import annotations

import struct
from mmap import ACCESS_READ, mmap
from pathlib import Path

_UNKNOWN_LENGTH = (0, 0x7FFFFFFF, 0xFFFFFFFF)  # written by programs that stream, and cannot go back to fill in the length


def cut_off(path: Path) -> str | None:
    """Return what a file (of at least one byte) that ends too early lacks, or None for a whole one or one that does not tell."""
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
            return (
                f"its data chunk should hold {size} bytes and holds {held}" if held < size and size not in _UNKNOWN_LENGTH else None
            )
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
