"""The one exception a person is meant to read. Knows nothing of what went wrong; its raiser does."""


class SonorantError(Exception):
    """Bad input, settings or surroundings. The message is one line: it names the file, row or key, and says what to do."""
