"""Exceptions with messages for users."""


class SonorantError(Exception):
    """Bad input, settings or environment. The one-line message names the file, row or key, and what to do."""


class Stopped(SonorantError):
    """Work was stopped on request and can be resumed. The message describes how."""
