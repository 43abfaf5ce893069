"""Exceptions with messages for users."""


class SonorantError(Exception):
    """Bad input, settings or environment. The one-line message names the file, row or key, and what to do."""

    def __str__(self) -> str:
        """Return the message with control characters as escapes, because a terminal would obey them."""
        return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in super().__str__())


class Stopped(SonorantError):
    """Work was stopped on request and can be resumed. The message describes how."""
