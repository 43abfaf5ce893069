"""Functions of tensors compiled by torch, and the folder that keeps them. Knows nothing of voices, nor of which shapes will come."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from sonorant.errors import SonorantError

MOST_SHAPES = 1024
"""Shapes of one function that may be compiled. torch's limit of 8 is there to notice shapes that vary; here they are fixed on purpose."""

Work = TypeVar("Work", bound=Callable[..., Any])


class Compiler:
    """Compiles whole functions, for the shapes they meet, and counts how often.

    A size is a constant of what is compiled, unless the tensor's dimension was marked (`torch._dynamo.mark_dynamic`).
    """

    def __init__(self) -> None:
        """Raises SonorantError naming the C++ compiler if it is absent: torch builds kernels and launchers with it."""
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            raise SonorantError(f"torch.compile needs {compiler}, a C++ compiler; install it, or name another in CXX")
        self.taken = 0
        """Graphs, of all functions together, that torch had kept from before."""
        self.made = 0
        """Graphs that it had not."""
        self._lock = threading.Lock()

    @property
    def prepared(self) -> int:
        """Shapes compiled so far, all functions together."""
        return self.taken + self.made

    def __call__(self, function: Work) -> Work:
        """The same function; at its first call with shapes that no compiled one takes it is compiled, in seconds to minutes."""
        # Isolated, so that another voice in this process is neither searched through nor counted.
        limits: dict[str, Any] = {"recompile_limit": MOST_SHAPES, "isolate_recompiles": True}
        return cast(Work, torch.compile(function, fullgraph=True, dynamic=False, backend=self._compile, **limits))

    def _compile(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        with self._lock:
            before = _found()
            compiled = torch._dynamo.lookup_backend("inductor")(graph, inputs)
            if _found() > before:
                self.taken += 1
            else:
                self.made += 1
        return compiled


def _found() -> int:
    """How often torch found a graph, or what it compiles to, among what it keeps."""
    counters = torch._dynamo.utils.counters
    return counters["aot_autograd"]["autograd_cache_hit"] + counters["inductor"]["fxgraph_cache_hit"]


def keep_compiled(folder: Path) -> None:
    """Have torch keep what it compiles in `folder`, and take it from there in another process: for all that this process compiles.

    torch checks that what it takes was made from the same code by the same version for the same machine.
    """
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder.resolve())


def log_compilation() -> None:
    """Have torch log, to stderr, where a graph breaks and why something is compiled again."""
    torch._logging.set_logs(graph_breaks=True, recompiles=True)
