"""A speech request, its limits, and how much of them it has used."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Any

from sonorant.audio.arrays import Ints
from sonorant.errors import SonorantError
from sonorant.text.arriving import Fragment, Lull

SLOWEST, FASTEST = 0.5, 2.0
MOST_PITCH, MOST_ENERGY = 12.0, 12.0
"""Maximum change of pitch (semitones) and energy (dB), up or down."""
CHUNK = 4096
"""Default chunk length in samples, about a fifth of a second."""
MOMENT = 0.2
"""`SpeechRequest.silence` of services."""
_END = object()


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Upper bounds of one request. The defaults allow a long book and stop endless input."""

    characters: int = 10_000_000
    """Maximum number of characters; the default is about 170 hours of speech."""
    audio_seconds: float = 720_000.0
    """Maximum length of the audio. Checked before computing if the length is known, otherwise while computing."""
    work_seconds: float = 36_000.0
    """Maximum computing time, excluding waits for text or for the listener."""
    piece_tokens: int = 4_000
    """Maximum number of phonemes in a phrase; a phrase of 400 characters has about 350."""
    token_seconds: float = 1.0
    """Maximum mean duration of a phrase's phonemes at speed 1."""
    silent_characters: int = 20_000
    """Maximum number of consecutive characters that cannot be spoken."""
    frames: int = 512
    """Maximum number of mel frames computed at a time, which bounds memory."""
    remedy: str = "split the text"
    """Advice in errors about a text that is too long."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            if limit.name != "remedy" and not getattr(self, limit.name) > 0:
                raise SonorantError(f"limit {limit.name} must be above 0, not {getattr(self, limit.name)}")


@dataclass(frozen=True, kw_only=True)
class SpeechRequest:
    """A text and how to speak it. Raises SonorantError for a value that is out of range for every voice."""

    text: str | Iterable[Fragment]
    """Text to speak, which may be SSML or contain phonemes and pauses in double brackets (docs/pronunciation.md). An
    iterable is read as needed; another thread may write an `ArrivingText`."""
    speaker: str | None = None
    """Name of the speaker; None means the voice's first."""
    speed: float = 1.0
    """Speed factor, 0.5 to 2.0; 2.0 is twice as fast. The `codec_lm` family supports only 1.0."""
    pitch: float = 0.0
    """Shift in semitones, -12 to 12. Only the `parallel` family supports pitch and energy."""
    energy: float = 0.0
    """Change in dB, -12 to 12; the timbre changes with it, as in a human voice."""
    markup: bool = True
    """Whether to interpret markup; if False, brackets and tags are ordinary characters."""
    lines: bool = False
    """Whether a line end ends a sentence, as in lists and headings; otherwise only an empty line does."""
    lexicon: Mapping[str, str] = field(default_factory=dict)
    """Words and their phonemes, which override the voice's lexicon."""
    timings: bool = False
    """Whether to fill `Speech.completed` with the time of each word."""
    whole: bool = False
    """Whether to return a sentence only once it is completely decoded, so that failed attempts can be discarded."""
    silence: float = 0.0
    """Seconds of silence for a text in which nothing can be spoken, such as an emoji; 0 makes it an error."""
    chunk: int = CHUNK
    """Samples per chunk. The last chunk may be shorter; if the text arrives in fragments, so may the last chunk of each
    phrase."""
    limits: Limits = field(default_factory=Limits)
    seed: int | None = None
    """Seed of each sentence's noise; None means 0. Only the `codec_lm` family supports this field and those that
    follow."""
    decoding: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the voice's `DecodingConfig`, such as {"temperature": 0.7}."""
    candidates: int = 1
    """Number of attempts at each sentence, of which the best is kept. More than 1 requires `whole`."""
    prompt: Ints | None = None
    """Codes (P, G) of a recording to continue, from `Voice.prompt`."""
    lookahead: int | None = None
    """Number of code frames that must follow the first part before it is returned; None means all that its samples
    depend on. With fewer, speech starts sooner and the end of that part differs slightly."""

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise SonorantError(f"chunk must be at least 1 sample, not {self.chunk}")
        if not SLOWEST <= self.speed <= FASTEST:
            raise SonorantError(f"speed must be {SLOWEST} to {FASTEST}, not {self.speed}")
        for name, most, unit in (("pitch", MOST_PITCH, "semitones"), ("energy", MOST_ENERGY, "dB")):
            if not -most <= (value := getattr(self, name)) <= most:
                raise SonorantError(f"{name} must be {-most:g} to {most:g} {unit}, not {value:g}")

    @property
    def decodes(self) -> bool:
        """Whether the request has settings that only the `codec_lm` family supports."""
        given = (self.seed, self.prompt, self.lookahead)
        return bool(self.decoding) or self.candidates != 1 or any(value is not None for value in given)


class Allowance:
    """How much of its limits a request has used. As a context manager, it measures computing time, excluding waits for
    text. Methods raise SonorantError if a limit is exceeded."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.characters = 0
        self.audio_seconds = 0.0
        self.work_seconds = 0.0
        self._silent = 0
        self._since = 0.0

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.work_seconds += time.perf_counter() - self._since

    def read(self, text: str | Iterable[Fragment]) -> Iterator[Fragment]:
        if not isinstance(text, Iterable):
            raise SonorantError(
                f"the text is of type {type(text).__name__}; give a string, an iterable of strings, or an "
                "ArrivingText, to which a coroutine can write"
            )
        fragments = iter([text] if isinstance(text, str) else text)
        while (fragment := self._wait_for(fragments)) is not _END:
            if isinstance(fragment, Lull):
                yield fragment
                continue
            if not isinstance(fragment, str):
                raise SonorantError(
                    f"the text contains a fragment of type {type(fragment).__name__}; give only strings"
                )
            self.characters += len(fragment)
            if self.characters > self.limits.characters:
                raise SonorantError(
                    f"the text has more than {self.limits.characters} characters, the maximum for one request; "
                    f"{self.limits.remedy}"
                )
            yield fragment

    def _wait_for(self, fragments: Iterator[Fragment]) -> object:
        self.work_seconds += time.perf_counter() - self._since
        fragment = next(fragments, _END)
        self._since = time.perf_counter()
        return fragment

    def take_piece(self, characters: int, tokens: int) -> None:
        """Count a phrase; `tokens` is 0 if nothing in it can be spoken."""
        self._silent = 0 if tokens else self._silent + characters
        if self._silent > self.limits.silent_characters:
            raise SonorantError(
                f"nothing can be spoken in {self._silent} consecutive characters (maximum "
                f"{self.limits.silent_characters}); remove them"
            )
        if tokens > self.limits.piece_tokens:
            raise SonorantError(
                f"a sentence of the text has {tokens} phonemes, but at most {self.limits.piece_tokens} can be spoken "
                "in one breath; split it into shorter sentences"
            )
        self.check_work()

    def check_durations(self, seconds: float, tokens: int) -> None:
        """Check the length `seconds` of a phrase at speed 1."""
        if not 0 < seconds <= tokens * self.limits.token_seconds:
            raise SonorantError(
                f"the voice's durations are out of range: {seconds:.1f} seconds for {tokens} phonemes (maximum "
                f"{self.limits.token_seconds:g} each); train the acoustic model further"
            )

    def take_audio(self, seconds: float) -> None:
        self.audio_seconds += seconds
        if self.audio_seconds > self.limits.audio_seconds:
            raise SonorantError(
                f"the speech would be longer than {self.limits.audio_seconds:g} seconds, the maximum for "
                f"one request; {self.limits.remedy}"
            )

    def check_work(self) -> None:
        if self.work_seconds + time.perf_counter() - self._since > self.limits.work_seconds:
            raise SonorantError(
                f"the speech took longer than {self.limits.work_seconds:g} seconds to compute; {self.limits.remedy}"
            )
