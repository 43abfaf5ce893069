"""A voice's three graphs under TensorRT; see `sonorant.runtime.runtimes.Runtime`. Knows nothing of text; importing it needs TensorRT."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from queue import LifoQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.runtime.bundle import GRAPHS, Bundle
from sonorant.runtime.onnx import OnnxRuntime
from sonorant.tensorrt.device import Stream
from sonorant.tensorrt.engines import Engines
from sonorant.tensorrt.execution import Arrays, Execution, load_engine
from sonorant.tensorrt.messages import Messages
from sonorant.tensorrt.padding import pad, placeholders, sizes_of
from sonorant.tensorrt.profiles import Buckets

STREAMS = 2
"""Requests that the GPU works on at once; more wait. Each stream has memory of its own."""

Lane = dict[str, Execution]


class TensorRTRuntime:
    """Engines of a bundle at work, for any number of threads.

    Inputs are padded to buckets and run by CUDA graphs. What no bucket holds, and several rows, run without; what no profile covers runs
    under ONNX Runtime. `served` counts the three: `recorded`, `unrecorded`, `outside`.
    """

    def __init__(self, bundle: Bundle, engines: Engines, variant: str | None = None, *, streams: int = STREAMS) -> None:
        """`variant`: of the graphs; None = each graph's default. Raises SonorantError naming an engine that is absent or stale."""
        self.served: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._bundle = bundle
        self._described = bundle.description.graphs
        self._variants = {graph: variant or self._described[graph].default_variant for graph in GRAPHS}
        self._buckets = Buckets.of(bundle.description.lengths)
        self._messages = Messages()
        loaded = {graph: engines.load(graph, self._variants[graph]) for graph in GRAPHS}
        self._profiles = {graph: key.profiles for graph, (_, key) in loaded.items()}
        shared = {
            graph: load_engine(file, self._messages, version_compatible=key.config.version_compatible)
            for graph, (file, key) in loaded.items()
        }
        self._lanes: LifoQueue[Lane] = LifoQueue()  # the last used is taken first: its graphs are the warmest
        for _ in range(streams):
            stream = Stream()
            self._lanes.put({graph: Execution(engine, stream, self._messages) for graph, engine in shared.items()})

    def encode(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], speaker: NDArray[np.int64], speed: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Phonemes to states and ends, as `Runtime.encode`."""
        out = self._run("encoder", {"tokens": tokens, "lengths": lengths, "speaker": speaker, "speed": speed})
        return out["states"][:, : tokens.shape[1]], out["ends"][:, : tokens.shape[1]]

    def decode(self, states: NDArray[np.float32], ends: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.float32]:
        """States to mel, as `Runtime.decode`."""
        return self._run("decoder", {"states": states, "ends": ends, "time": time})["mel"][:, :, : len(time)]

    def vocode(self, mel: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """Mel to samples, as `Runtime.vocode`."""
        samples = self._run("vocoder", {"mel": mel, "lengths": lengths})["samples"]
        return samples[:, : mel.shape[2] * self._bundle.description.audio.hop]

    def warm_up(self) -> None:
        """Record the CUDA graphs of all buckets, on every stream, so that no request pays for it."""
        lanes = [self._lanes.get() for _ in range(self._lanes.qsize())]
        for lane in lanes:
            for graph in GRAPHS:
                inputs = self._described[graph].inputs
                varying = [name for name in ("tokens", "frames") if any(name in tensor.shape for tensor in inputs)]
                for sizes in self._buckets.combinations(varying):
                    profile = self._profile(graph, {"batch": 1} | sizes)
                    if profile is not None:
                        lane[graph].run(placeholders(inputs, {"batch": 1} | sizes), profile, record=True)
            self._lanes.put(lane)

    def _run(self, graph: str, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
        tensors = self._described[graph].inputs
        sizes = sizes_of(inputs, tensors)
        padded = self._buckets.padded(sizes)
        recordable = all(padded[name] in self._buckets.ladder(name) for name in sizes)
        profile = self._profile(graph, padded)
        if profile is None:
            self._count("outside")
            return self._outside(graph, inputs)
        with self._lane() as lane:
            outputs, recorded = lane[graph].run(pad(inputs, tensors, padded), profile, record=recordable)
        self._count("recorded" if recorded else "unrecorded")
        return outputs

    def _profile(self, graph: str, sizes: Mapping[str, int]) -> int | None:
        return next((index for index, profile in enumerate(self._profiles[graph]) if profile.covers(sizes)), None)

    def _outside(self, graph: str, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
        """What no profile covers: the same graphs under ONNX Runtime, which takes any size."""
        if graph == "encoder":
            states, ends = self._any_size.encode(**inputs)
            return {"states": states, "ends": ends}
        run: dict[str, Callable[..., NDArray[np.float32]]] = {"decoder": self._any_size.decode, "vocoder": self._any_size.vocode}
        return {self._described[graph].outputs[0].name: run[graph](**inputs)}

    @cached_property
    def _any_size(self) -> OnnxRuntime:
        return OnnxRuntime({graph: self._bundle.graph_file(graph, self._variants[graph]) for graph in GRAPHS})

    @contextmanager
    def _lane(self) -> Iterator[Lane]:
        lane = self._lanes.get()
        try:
            yield lane
        finally:
            self._lanes.put(lane)

    def _count(self, how: str) -> None:
        with self._counting:
            self.served[how] += 1
