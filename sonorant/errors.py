"""The exceptions a person is meant to read. Knows nothing of what went wrong; its raiser does."""


class SonorantError(Exception):
    """Bad input, settings or surroundings. The message is one line: it names the file, row or key, and says what to
    do."""


class Stopped(SonorantError):
    """Work that was asked to stop and did, with all it needs to go on. The message says how."""
