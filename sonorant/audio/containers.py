"""Detect truncated sound files from their containers, because decoders often read them as shorter recordings.

Supported: RIFF WAVE and AVI, AIFF, CAF, AU, Ogg (RFC 3533), MP3's Xing/Info header (LAME), m4a, mp4 and mov (ISO/IEC
14496-12), Matroska and WebM (RFC 9559, RFC 8794), ASF (wma). FLAC's decoder detects truncation itself.
"""

from collections.abc import Callable
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Literal

# Written by streaming programs when the length is unknown.
_UNKNOWN_LENGTH = (0, 0x7FFFFFFF, 0xFFFFFFFF)
_TO_THE_END = 0xFFFFFFFFFFFFFFFF
_ASF_FILE_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
_ENTERED = {0x18538067: "segment", 0x1F43B675: "cluster"}
"""Matroska elements of possibly unknown length, whose children follow."""


def cut_off(path: Path) -> str | None:
    """Describe what is missing from a truncated, non-empty file; return None if the file is complete or its format
    stores no length."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        start = data[:16]
        look = next((look for place, magic, look in _FORMATS if start.startswith(magic, place)), None)
        return look(data) if look else None


def continues(path: Path) -> bool:
    """Return whether sound follows the end that a header states: a WAV whose header was not completed or whose length
    exceeds 4 GiB, or joined Ogg or FLAC files."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        match data[:4]:
            case b"RIFF":
                return _wav_continues(data)
            case b"OggS":
                return 0 <= data.find(b"OggS\0\0") < data.rfind(b"OggS\0\2")  # pages within and at the start of streams
            case _:
                return data[:4] == b"fLaC" and data.find(b"fLaC", 4) > 0


def _wav_continues(data: mmap) -> bool:
    sound, after = _wav_layout(data)
    if sound is None:
        return False
    rest = len(data) - sum(sound)
    # Chunks or a tag may follow the sound, but a tag is shorter.
    chunks = len(data) - 8 < after <= len(data) + 1
    return rest > 0 and not chunks and (rest > sound[1] or sound[1] in _UNKNOWN_LENGTH)


def _wav_layout(data: mmap) -> tuple[tuple[int, int] | None, int]:
    """Return first byte and stated size of a WAV's sound, and where its last chunk ends."""
    sound, position = None, 12
    while position + 8 <= len(data) and (sound is None or min(data[position : position + 4]) >= 32):
        size = _number(data, position + 4, "little")
        if sound is None and data[position : position + 4] == b"data":
            sound = position + 8, size
        position += 8 + size + size % 2
    return sound, position


def _number(data: bytes | mmap, place: int, order: Literal["little", "big"] = "big", width: int = 4) -> int:
    return int.from_bytes(data[place : place + width], order)


def _lacks(what: str, size: int, held: int, *, wraps: bool = False) -> str | None:
    """`wraps`: whether more than 4 GiB behind the stated size are sound too."""
    missing = (held < size and size not in _UNKNOWN_LENGTH) or (wraps and held - size >= 2**32)
    return f"its {what} should contain {size} bytes but contains {held}" if missing else None


def _wav(data: mmap) -> str | None:
    sound, _ = _wav_layout(data)
    return _lacks("data chunk", sound[1], len(data) - sound[0]) if sound else "it ends before its data chunk"


def _au(data: mmap) -> str | None:
    return _lacks("sound", _number(data, 8), max(len(data) - _number(data, 4), 0), wraps=True)


def _caf(data: mmap) -> str | None:
    position = 8
    while position + 12 <= len(data):
        size, held = _number(data, position + 4, width=8), len(data) - position - 12
        if size == _TO_THE_END or held < size:
            return None if size == _TO_THE_END else _lacks(f"{_name(data[position : position + 4])} chunk", size, held)
        position += 12 + size
    return None if position == len(data) else "it ends within a chunk's header"


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
    size = _number(first_frame, mark + (12 if has_frames else 8))
    held = len(data) - start
    return f"its header states {size} bytes but it contains {held}" if held < size else None


def _iso_media(data: mmap) -> str | None:
    position, names = 0, set()
    while position + 8 <= len(data):
        size, name = _number(data, position), data[position + 4 : position + 8]
        if size == 1:
            size = _number(data, position + 8, width=8)
        if size == 0:  # until the end of the file
            size = len(data) - position
        if size < 8 or len(data) - position < size:
            return _lacks(f"{_name(name)} box", size, len(data) - position)
        names.add(name)
        position += size
    return None if b"moov" in names else "it ends before its index (the moov box)"


def _matroska(data: mmap) -> str | None:
    position = 0
    while position < len(data):
        # An element begins with id and size; the leading zeros of the first byte give the length of each.
        at_size = position + 9 - data[position].bit_length()
        if at_size > position + 4:  # damaged, not truncated
            return None
        id = _number(data, position, width=at_size - position)
        start = at_size + (9 - data[at_size].bit_length() if at_size < len(data) else 1)
        if start > at_size + 8:
            return None
        if start > len(data):
            return "it ends within an element's header"
        unknown = (1 << 7 * (start - at_size)) - 1
        size = _number(data, at_size, width=start - at_size) & unknown
        if size != unknown and len(data) - start < size:
            return _lacks(_ENTERED.get(id, "last element"), size, len(data) - start)
        if size == unknown and id not in _ENTERED:
            return None
        position = start if id in _ENTERED else start + size
    return None


def _asf(data: mmap) -> str | None:
    place = data.find(_ASF_FILE_PROPERTIES)
    if place < 0 or len(data) < place + 92:
        return "it ends within its header"
    size = _number(data, place + 40, "little", 8)
    broadcast = data[place + 88] & 1  # made while streaming, without a valid size
    return None if broadcast or not size else _lacks("file", size, len(data))


def _name(mark: bytes) -> str:
    return mark.decode("ascii", errors="replace").strip()


_FORMATS: tuple[tuple[int, bytes, Callable[[mmap], str | None]], ...] = (
    (8, b"AVI ", lambda data: _lacks("RIFF chunk", _number(data, 4, "little"), len(data) - 8)),
    (0, b"RIFF", _wav),
    (0, b"FORM", lambda data: _lacks("FORM chunk", _number(data, 4), len(data) - 8, wraps=True)),
    (0, b"OggS", _ogg),
    (0, b"caff", _caf),
    (0, b".snd", _au),
    (0, b"\x1a\x45\xdf\xa3", _matroska),
    (0, b"ID3", _mp3),
    (0, b"\xff", _mp3),
    (0, bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c"), _asf),
    *((4, box, _iso_media) for box in (b"ftyp", b"moov", b"mdat", b"wide")),
)
"""Position and bytes that identify a format, and its check."""
