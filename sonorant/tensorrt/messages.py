"""What TensorRT says: errors are kept for the exception, the rest goes to the log. Importing it needs TensorRT."""

from __future__ import annotations

import logging
from collections import deque

import tensorrt as trt

_log = logging.getLogger(__name__)


class Messages(trt.ILogger):
    """A logger for builders, parsers and runtimes; it must outlive them."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self.errors: deque[str] = deque(maxlen=8)

    def log(self, severity: trt.ILogger.Severity, msg: str) -> None:
        """TensorRT says something."""
        if severity in (trt.ILogger.INTERNAL_ERROR, trt.ILogger.ERROR):
            self.errors.append(msg)
        _log.log(logging.WARNING if severity == trt.ILogger.WARNING else logging.DEBUG, "%s", msg)

    def told(self) -> str:
        """The errors since this was last asked, the first one first, in one line for an exception."""
        said = []
        while self.errors:
            said.append(" ".join(self.errors.popleft().split()))
        return "; ".join(said)[:300] or "TensorRT gave no reason"
