"""Functions of tensors compiled by torch for each shape they meet. Knows nothing of voices, nor of which shapes will come."""

from __future__ import annotations

import os
import shutil
import threading
from typing import Any

import torch

from sonorant.errors import SonorantError
from sonorant.runtime.torch import Function

MOST_SHAPES = 1024
"""Shapes of one function that may be compiled. torch's limit of 8 is there to notice shapes that vary; here they are fixed on purpose."""


class Compiler:
    """Compiles whole functions, for fixed shapes only, and counts how often."""

    def __init__(self) -> None:
        """Raises SonorantError naming the C++ compiler if it is absent: torch builds kernels and launchers with it."""
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            raise SonorantError(f"torch.compile needs {compiler}, a C++ compiler; install it, or name another in CXX")
        self.prepared = 0
        """Shapes compiled so far, all functions together."""
        self._lock = threading.Lock()

    def __call__(self, function: Function) -> Function:
        """The same function; at its first call with new shapes it is compiled, which takes seconds to minutes."""
        # Isolated, so that another voice in this process is neither searched through nor counted.
        limits: dict[str, Any] = {"recompile_limit": MOST_SHAPES, "isolate_recompiles": True}
        return torch.compile(function, fullgraph=True, dynamic=False, backend=self._compile, **limits)

    def _compile(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        with self._lock:
            self.prepared += 1
        return torch._dynamo.lookup_backend("inductor")(graph, inputs)
