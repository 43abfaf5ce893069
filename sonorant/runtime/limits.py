"""How much one request may take, and a count of what it took. Knows nothing of how text is spoken."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType

from sonorant.errors import SonorantError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that one request may take. The defaults let a long book through and nothing without an end."""

    characters: int = 10_000_000
    """Of the text; ten million are some 170 hours of speech."""
    audio_seconds: float = 720_000.0
    """Of speech: known before a piece is computed where the voice's family says how long it will be, else counted as it comes."""
    work_seconds: float = 36_000.0
    """Spent on computing, by the clock; waiting for text, or for whoever hears the audio, does not count."""
    piece_tokens: int = 4_000
    """Phonemes spoken in one breath; a piece of 400 characters has some 350."""
    token_seconds: float = 1.0
    """How long the phonemes of a piece may last on average, at speed 1: beyond it a voice's durations have run away."""
    silent_characters: int = 20_000
    """In a row of which nothing can be spoken."""
    frames: int = 512
    """Mel frames computed at once, which bounds memory; a frame is `hop` samples."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not getattr(self, field.name) > 0:
                raise SonorantError(f"limit {field.name} must be above 0, not {getattr(self, field.name)}")


class Allowance:
    """What one request has taken. As a context manager it counts the time inside as work, but for that spent on waiting for text.

    Every method raises SonorantError naming the limit that is reached.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.characters = 0
        self.audio_seconds = 0.0
        self.work_seconds = 0.0
        self._silent = 0
        self._since = 0.0

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.work_seconds += time.perf_counter() - self._since

    def read(self, text: str | Iterable[str]) -> Iterator[str]:
        """The text's fragments, counted; a text that is there as a whole is refused as a whole."""
        fragments = iter([text] if isinstance(text, str) else text)
        while (fragment := self._wait_for(fragments)) is not None:
            if not isinstance(fragment, str):
                raise SonorantError(f"the text holds a fragment of type {type(fragment).__name__}; give strings")
            self.characters += len(fragment)
            if self.characters > self.limits.characters:
                raise SonorantError(
                    f"the text has more than {self.limits.characters} characters, the most for one request; split the text"
                )
            yield fragment

    def _wait_for(self, fragments: Iterator[str]) -> str | None:
        self.work_seconds += time.perf_counter() - self._since
        fragment = next(fragments, None)
        self._since = time.perf_counter()
        return fragment

    def take_piece(self, characters: int, tokens: int) -> None:
        """Count a piece of text and its tokens, 0 where nothing of it can be spoken."""
        self._silent = 0 if tokens else self._silent + characters
        if self._silent > self.limits.silent_characters:
            raise SonorantError(
                f"nothing can be spoken in {self._silent} characters in a row, at most {self.limits.silent_characters}; leave them out"
            )
        if tokens > self.limits.piece_tokens:
            raise SonorantError(
                f"a sentence of the text has {tokens} phonemes, at most {self.limits.piece_tokens} are spoken in one breath; "
                "divide it by full stops"
            )
        self.check_work()

    def check_durations(self, seconds: float, tokens: int) -> None:
        """Raise where a piece of so many tokens would last for no time, or too long, in seconds at speed 1."""
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
                f"the speech would be longer than {self.limits.audio_seconds:g} seconds, the most for one request; split the text"
            )

    def check_work(self) -> None:
        """Raise where the time is up; to be called wherever much work is ahead."""
        if self.work_seconds + time.perf_counter() - self._since > self.limits.work_seconds:
            raise SonorantError(f"the speech took longer than {self.limits.work_seconds:g} seconds to compute; split the text")
