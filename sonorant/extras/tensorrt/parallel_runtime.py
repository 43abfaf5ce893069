"""Run the graphs of the family `parallel` under TensorRT. Importing this requires TensorRT."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from queue import LifoQueue

import tensorrt as trt

from sonorant.errors import SonorantError
from sonorant.extras.tensorrt.builder import Messages
from sonorant.extras.tensorrt.device import Stream
from sonorant.extras.tensorrt.engines import Engines
from sonorant.extras.tensorrt.execution import Execution, load_engine
from sonorant.families.parallel.onnx_runtime import OnnxRuntime
from sonorant.families.parallel.synthesis import Arrays, GraphRuntime, vocoder_rows
from sonorant.speech.buckets import Bucketed, Buckets
from sonorant.speech.bundle import Bundle
from sonorant.speech.runtimes import LoadOptions

_log = logging.getLogger(__name__)

STREAMS = 2
"""Number of requests computed at a time. Each stream has separate memory and CUDA graphs."""

Lane = dict[str, Execution]


def load_engines(bundle: Bundle, engines: Engines, options: LoadOptions) -> Bucketed:
    """Load a bundle's engines with buckets. Raises SonorantError for a missing or stale engine, `batches` larger than
    the engines' maximum, or too little GPU memory."""
    work = _Work(bundle, engines, options)
    buckets = Buckets.of(bundle.description.lengths, options.batches)
    recording, plain = (TensorRTRuntime(work, record=record) for record in (True, False))
    runtime = Bucketed(recording, plain, buckets, work.prepared, vocoder_rows(bundle.description))
    if options.warm_up:
        runtime.warm_up()
    return runtime


@dataclass(frozen=True)
class TensorRTRuntime(GraphRuntime):
    """Runs graphs under TensorRT, and shapes outside every profile under ONNX Runtime. Thread-safe."""

    work: _Work
    record: bool

    def run(self, graph: str, inputs: Arrays) -> Arrays:
        return self.work.run(graph, inputs, self.record)


class _Work:
    def __init__(self, bundle: Bundle, engines: Engines, options: LoadOptions) -> None:
        described = bundle.description.graphs
        variants = {graph: options.variant or described[graph].default_variant for graph in bundle.graphs}
        loaded = {graph: engines.load(graph, variants[graph]) for graph in bundle.graphs}
        _check_batches(options.batches, min(key.config.max_batch for _, key in loaded.values()), engines)
        self._messages = Messages()
        self._inputs = {graph: described[graph].inputs for graph in bundle.graphs}
        self._profiles = {graph: key.profiles for graph, (_, key) in loaded.items()}
        self._bundle, self._variants, self._threads = bundle, variants, options.threads
        shared = {
            graph: load_engine(file, self._messages, version_compatible=key.config.version_compatible)
            for graph, (file, key) in loaded.items()
        }
        self._all_lanes = [self._new_lane(shared, Stream()) for _ in range(STREAMS)]
        self._lanes: LifoQueue[Lane] = LifoQueue()  # the most recently used lane has the warmest memory
        for lane in self._all_lanes:
            self._lanes.put(lane)
        self._met: set[tuple[str, tuple[tuple[int, ...], ...]]] = set()
        self._recording = threading.Lock()

    def _new_lane(self, shared: Mapping[str, trt.ICudaEngine], stream: Stream) -> Lane:
        return {graph: Execution(engine, stream, self._messages) for graph, engine in shared.items()}

    def prepared(self) -> int:
        """Return the number of shapes with a CUDA graph on every stream."""
        return min(sum(execution.prepared for execution in lane.values()) for lane in self._all_lanes)

    def run(self, graph: str, inputs: Arrays, record: bool) -> Arrays:
        """Run a graph on inputs of any size. With `record`, shapes that were run before are replayed as a CUDA
        graph."""
        profile = self._profile(graph, inputs)
        if profile is None:
            return self._any_size.run(graph, inputs)
        met = graph, tuple(array.shape for array in inputs.values())
        if record and met not in self._met:
            return self._record(met, inputs, profile)
        with self._lane() as lane:
            return lane[graph].run(inputs, profile, record=record)

    def _record(self, met: tuple[str, tuple[tuple[int, ...], ...]], inputs: Arrays, profile: int) -> Arrays:
        """Run a graph on every stream, so that each stream records a CUDA graph."""
        with self._recording:  # two threads taking all lanes would deadlock
            lanes = [self._lanes.get() for _ in range(STREAMS)]
            try:
                outputs = [lane[met[0]].run(inputs, profile, record=True) for lane in lanes]
                self._met.add(met)
            finally:
                for lane in lanes:
                    self._lanes.put(lane)
        return outputs[0]

    def _profile(self, graph: str, inputs: Arrays) -> int | None:
        sizes = {
            name: size
            for tensor in self._inputs[graph]
            for name, size in zip(tensor.shape, inputs[tensor.name].shape, strict=True)
            if isinstance(name, str)
        }
        return next((index for index, profile in enumerate(self._profiles[graph]) if profile.covers(sizes)), None)

    @contextmanager
    def _lane(self) -> Iterator[Lane]:
        lane = self._lanes.get()
        try:
            yield lane
        finally:
            self._lanes.put(lane)

    @cached_property
    def _any_size(self) -> OnnxRuntime:
        """Runtime for shapes outside every profile; uses fp32 if the CPU lacks kernels for the precision, such as
        bfloat16."""
        try:
            return self._on_cpu(self._variants)
        except SonorantError as error:
            if not all("fp32" in self._bundle.description.graphs[graph].variants for graph in self._bundle.graphs):
                raise
            _log.warning("shapes outside every TensorRT profile are computed in fp32: %s", error)
            return self._on_cpu(dict.fromkeys(self._bundle.graphs, "fp32"))

    def _on_cpu(self, variants: Mapping[str, str]) -> OnnxRuntime:
        files = {graph: self._bundle.graph_file(graph, variant) for graph, variant in variants.items()}
        return OnnxRuntime(files, threads=self._threads)


def _check_batches(batches: tuple[int, ...], most: int, engines: Engines) -> None:
    if max(batches) > most:
        raise SonorantError(
            f"batches of {max(batches)} rows exceed the maximum of the engines in {engines.folder}, {most}; "
            "request smaller ones, or build them again with a larger engine.max_batch in params.yaml"
        )
