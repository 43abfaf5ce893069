"""Text that arrives while it is spoken: one thread writes it, another speaks it."""

import threading
from collections import deque
from collections.abc import Iterator
from enum import Enum
from types import TracebackType

from sonorant.errors import SonorantError


class Lull(Enum):
    """A gap in arriving text."""

    SHORT = "short"
    """No text is available yet."""
    LONG = "long"
    """No text for a while; text that looks like a complete sentence is treated as one."""


Fragment = str | Lull


class ArrivingText:
    """Text that is written, like a file, while `Voice.stream` speaks it. Any thread may write; only one may read, and
    only once. Leaving a `with` block closes it; an error in the block is raised in the reader."""

    def __init__(self, patience: float | None = None) -> None:
        """`patience`: seconds without text after which a sentence that looks complete is spoken; None means never.
        Raises SonorantError if `patience` is negative."""
        if patience is not None and not patience >= 0:
            raise SonorantError(f"patience must be at least 0 seconds, not {patience}")
        self._patience = patience
        self._unread: deque[Fragment] = deque()
        self._changed = threading.Condition()
        self._over = self._abandoned = False
        self._error: BaseException | None = None

    def write(self, text: str) -> None:
        """Add text. Raises SonorantError after `close`, and after the reader has stopped."""
        if not isinstance(text, str):
            raise SonorantError(f"write strings, not {type(text).__name__}")
        if text:
            self._add(text)

    def pause(self) -> None:
        """Speak the text so far if it looks like a complete sentence. Raises SonorantError as `write` does."""
        self._add(Lull.LONG)

    def close(self, error: BaseException | None = None) -> None:
        """End the text, or abort it with `error`, which is raised in the reader."""
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
        """Wait until there is text to read or the text has ended. Return False if neither happens within `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._unread) or self._over, seconds)

    def __iter__(self) -> Iterator[Fragment]:
        """Yield the fragments in order. If there are none, yield `Lull.SHORT` once, then wait."""
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
                raise SonorantError("this text is no longer read; stop writing")
            if self._over:
                raise SonorantError("the text has ended; write to a new one")
            self._unread.append(fragment)
            self._changed.notify_all()

    def _abandon(self) -> None:
        with self._changed:
            self._abandoned = True
            self._unread.clear()
