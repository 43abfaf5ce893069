"""Text that arrives while it is spoken: one thread writes it, for a language model or a person, another speaks it."""

import threading
from collections import deque
from collections.abc import Iterator
from enum import Enum
from types import TracebackType

from sonorant.errors import SonorantError


class Lull(Enum):
    """What a source may give in place of text while it has none."""

    SHORT = "short"
    """There is none now. Whoever speaks may turn to something else before they ask again."""
    LONG = "long"
    """There will be none for a while: what ends like a sentence has ended, though no word follows it."""


Fragment = str | Lull


class ArrivingText:
    """A text that is written like a file, while `Voice.stream` speaks it. As a context manager it ends with its block,
    and an error in the block is raised where the text is spoken. Any thread may write; one speaks, once."""

    def __init__(self, patience: float | None = None) -> None:
        """`patience`: seconds without text after which what ends like a sentence is spoken; None = never, so how fast a
        text arrives changes nothing. Raises SonorantError if it is below 0."""
        if patience is not None and not patience >= 0:
            raise SonorantError(f"patience must be at least 0 seconds, not {patience}")
        self._patience = patience
        self._unread: deque[Fragment] = deque()
        self._changed = threading.Condition()
        self._over = self._abandoned = False
        self._error: BaseException | None = None

    def write(self, text: str) -> None:
        """Add text. Raises SonorantError after the end, and once nobody speaks it any more."""
        if not isinstance(text, str):
            raise SonorantError(f"text is written as strings, not as {type(text).__name__}")
        if text:
            self._add(text)

    def pause(self) -> None:
        """Say that no text follows for a while: what ends like a sentence is spoken. Raises as `write`."""
        self._add(Lull.LONG)

    def close(self, error: BaseException | None = None) -> None:
        """End the text; or break it off with an error, which is raised where it is spoken."""
        with self._changed:
            self._over, self._error = True, self._error or error
            self._changed.notify_all()

    def __enter__(self) -> "ArrivingText":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait, for so long at most, until there is text to read or the text is over; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._unread) or self._over, seconds)

    def __iter__(self) -> Iterator[Fragment]:
        """What was written, in order. Where there is none it says so once, and waits when it is asked again."""
        try:
            while True:
                if not self.wait(0):
                    yield Lull.SHORT
                    if not self.wait(self._patience):
                        yield Lull.LONG
                        self.wait()
                if not self._unread:
                    break
                yield self._unread.popleft()
            if self._error is not None:
                raise self._error
        finally:
            self._abandon()

    def _add(self, fragment: Fragment) -> None:
        with self._changed:
            if self._abandoned:
                raise SonorantError("nobody speaks this text any more; stop writing it")
            if self._over:
                raise SonorantError("the text has ended; write into another")
            self._unread.append(fragment)
            self._changed.notify_all()

    def _abandon(self) -> None:
        with self._changed:
            self._abandoned = True
            self._unread.clear()
