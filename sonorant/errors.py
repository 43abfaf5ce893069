"""Exceptions whose message is meant for a person."""


class SonorantError(Exception):
    """Bad input, settings or environment. The one-line message names the file, row or key, and says what to do."""


class Stopped(SonorantError):
    """Work that stopped because it was asked to, and can go on. The message says how."""
