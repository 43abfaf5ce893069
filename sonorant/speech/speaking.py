"""A request to speak: its limits, its manner, and the interface that each family's synthesizer answers it with."""

import dataclasses
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from sonorant.audio.arrays import Floats, Ints
from sonorant.errors import SonorantError
from sonorant.speech.decoding.advance import FinishReason
from sonorant.speech.decoding.settings import DecodingConfig
from sonorant.speech.word_times import Timekeeper
from sonorant.text.arriving import Fragment, Lull

_END = object()


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that one request may take. The defaults let a long book through and nothing without an end."""

    characters: int = 10_000_000
    """Of the text; ten million are some 170 hours of speech."""
    audio_seconds: float = 720_000.0
    """Of speech: checked before computing where the family knows the length, else counted as it comes."""
    work_seconds: float = 36_000.0
    """Spent on computing, by the clock; waiting for text, or for whoever hears the audio, does not count."""
    piece_tokens: int = 4_000
    """Phonemes spoken in one breath; a phrase of 400 characters has some 350."""
    token_seconds: float = 1.0
    """Mean duration of a phrase's phonemes at speed 1, at most: beyond it the durations have run away."""
    silent_characters: int = 20_000
    """In a row of which nothing can be spoken."""
    frames: int = 512
    """Mel frames computed at once, which bounds memory; a frame is `hop` samples."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not getattr(self, field.name) > 0:
                raise SonorantError(f"limit {field.name} must be above 0, not {getattr(self, field.name)}")


class Allowance:
    """What one request has taken. As a context manager it counts the time inside as work, without waits for text. Every
    method raises SonorantError naming the limit that is reached."""

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
        """The text's fragments, counted; a text that is there as a whole is refused as a whole."""
        if not isinstance(text, Iterable):
            raise SonorantError(
                f"the text is of type {type(text).__name__}; give a string, strings, or an ArrivingText, into which "
                "a coroutine can write"
            )
        fragments = iter([text] if isinstance(text, str) else text)
        while (fragment := self._wait_for(fragments)) is not _END:
            if isinstance(fragment, Lull):
                yield fragment
                continue
            if not isinstance(fragment, str):
                raise SonorantError(f"the text holds a fragment of type {type(fragment).__name__}; give strings")
            self.characters += len(fragment)
            if self.characters > self.limits.characters:
                raise SonorantError(
                    f"the text has more than {self.limits.characters} characters, the most for one request; split "
                    "the text"
                )
            yield fragment

    def _wait_for(self, fragments: Iterator[Fragment]) -> object:
        self.work_seconds += time.perf_counter() - self._since
        fragment = next(fragments, _END)
        self._since = time.perf_counter()
        return fragment

    def take_piece(self, characters: int, tokens: int) -> None:
        """Count a phrase of text and its tokens, 0 where nothing of it can be spoken."""
        self._silent = 0 if tokens else self._silent + characters
        if self._silent > self.limits.silent_characters:
            raise SonorantError(
                f"nothing can be spoken in {self._silent} characters in a row, at most "
                f"{self.limits.silent_characters}; leave them out"
            )
        if tokens > self.limits.piece_tokens:
            raise SonorantError(
                f"a sentence of the text has {tokens} phonemes, at most {self.limits.piece_tokens} are spoken in one "
                "breath; divide it by full stops"
            )
        self.check_work()

    def check_durations(self, seconds: float, tokens: int) -> None:
        """Raise where a phrase of so many tokens would last for no time, or too long, in seconds at speed 1."""
        if not 0 < seconds <= tokens * self.limits.token_seconds:
            raise SonorantError(
                f"the voice's durations have run away: {seconds:.1f} seconds for {tokens} phonemes, at most "
                f"{self.limits.token_seconds:g} each; train the acoustic model further"
            )

    def take_audio(self, seconds: float) -> None:
        """Count speech, before it is heard."""
        self.audio_seconds += seconds
        if self.audio_seconds > self.limits.audio_seconds:
            raise SonorantError(
                f"the speech would be longer than {self.limits.audio_seconds:g} seconds, the most for one "
                "request; split the text"
            )

    def check_work(self) -> None:
        """Raise where the time is up; to be called wherever much work is ahead."""
        if self.work_seconds + time.perf_counter() - self._since > self.limits.work_seconds:
            raise SonorantError(
                f"the speech took longer than {self.limits.work_seconds:g} seconds to compute; split the text"
            )


@dataclass(frozen=True)
class Marking:
    """What a text marks in one phrase, token by token: of a family that names it in `Speaking.marks`."""

    rate_N: Floats
    """2.0 is twice as fast."""
    pitch_N: Floats
    """Semitones higher."""
    seconds_N: Floats
    """How long a marked pause lasts; NaN for tokens that are none."""


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a text is spoken. Fields about decoding are for voices that decode code by code (family codec_lm)."""

    speaker: int = 0
    """Id of who speaks."""
    speed: float = 1.0
    """2.0 is twice as fast."""
    pitch: float = 0.0
    """Semitones higher."""
    energy: float = 0.0
    """dB louder, as a person who speaks up."""
    whole: bool = True
    """Give nothing of a sentence before all of it is decoded, so that a bad attempt can be taken back."""
    decoding: DecodingConfig | None = None
    """How codes are chosen; None = the voice's defaults."""
    seed: int | None = None
    """Of the noise that codes are drawn with: the same seed says the same; None = 0."""
    candidates: int = 1
    """How often each sentence is spoken, with other noise, so that the best can be taken."""
    prompt: Ints | None = None
    """Codes (P, G) of a reference that the voice shall go on from."""
    lookahead: int | None = None
    """Code frames that the first part waits for behind its own, and at least those without which what follows would
    change too; None = as many as it depends on."""
    marking: Marking | None = None
    """Of one phrase, where its text marks anything that the family can do within a phrase."""


@dataclass(frozen=True)
class Synthesized:
    """What became of a batch."""

    samples: Floats
    """(B, S) in -1..1, zero past each end."""
    lengths: Ints
    """Samples of each row (B,)."""
    finish_reasons: Ints
    """`FinishReason` of each row (B,)."""
    attempts: Ints
    """How often each row was spoken (B,)."""
    ends: Ints | None = None
    """(B, N): the sample after the last one of each token, -1 for tokens that were not reached; None where the family
    does not tell."""


SLOWEST, FASTEST = 0.5, 2.0
"""Beyond these speeds nothing sounds like a voice any more."""
MOST_PITCH, MOST_ENERGY = 12.0, 12.0
"""Semitones and dB to either side."""


def no_decoding(family: str) -> SonorantError:
    """The refusal of settings of decoding by a family that decodes nothing."""
    return SonorantError(
        f"this voice is of the family {family}, which says a text in one way: "
        "leave out seed, temperature, top-k, top-p, candidates, prompt and lookahead"
    )


class Speaking(Protocol):
    """How the graphs of one family of voices make speech of phonemes. A family may also have `marks`, a frozenset: what
    it can do token by token within a phrase (`Manner.marking`), of `pause`, `rate` and `pitch`. Pauses are silence
    between two phrases where it cannot; rate and pitch are refused."""

    def check(self, manner: Manner) -> None:
        """Raise SonorantError where the voice cannot speak in this manner."""

    def synthesize(
        self,
        tokens: Ints,
        lengths: Ints,
        speaker: Ints,
        speed: Floats,
        pitch: Floats | None = None,
        energy: Floats | None = None,
    ) -> Synthesized:
        """Tokens (B, N, 3), lengths, speaker, and the manner's speed, pitch and energy (B,) -> speech, undefined past a
        row's end, perhaps beyond -1..1."""

    def parts(
        self, tokens: Ints, manner: Manner, taken: Allowance, *, first: bool, times: Timekeeper | None = None
    ) -> Generator[Floats, None, FinishReason]:
        """One phrase's tokens (N, 3) -> samples (S,) in parts of at most `taken.limits.frames` mel frames, and how it
        went. `first`: nothing was heard before, so the first part shall come soon. Output is counted in `taken`.
        `times`: is told when tokens end, as soon as it is decided; only given to voices of which
        `Family.why_untimed` is empty."""
