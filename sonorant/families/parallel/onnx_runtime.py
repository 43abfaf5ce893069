"""The `parallel` family under ONNX Runtime, on the CPU or a GPU."""

from pathlib import Path

import numpy as np

from sonorant.families.parallel.synthesis import OUTPUTS, Arrays, GraphRuntime
from sonorant.speech.onnx_sessions import CPU, ON_CUDA, Providers, check_cuda, open_session


class OnnxRuntime(GraphRuntime):
    """One session per graph. Thread-safe."""

    providers: Providers = (CPU,)

    def __init__(self, graphs: dict[str, Path], *, threads: int | None = None) -> None:
        """`threads`: threads per operator; None means one per physical core."""
        self.sessions = {graph: open_session(graphs[graph], threads, self.providers) for graph in OUTPUTS}

    def run(self, graph: str, inputs: Arrays) -> Arrays:
        outputs = OUTPUTS[graph]
        return dict(zip(outputs, self.sessions[graph].run(outputs, dict(inputs)), strict=True))


class OnnxCudaRuntime(OnnxRuntime):
    """ONNX Runtime on an NVIDIA GPU; operators without a GPU kernel run on the CPU."""

    providers = ON_CUDA

    def __init__(self, graphs: dict[str, Path], *, threads: int | None = None) -> None:
        """Raises SonorantError if the installed package does not support CUDA, or CUDA does not start."""
        check_cuda()
        super().__init__(graphs, threads=threads)

    def run(self, graph: str, inputs: Arrays) -> Arrays:
        """Run a graph; its outputs stay on the GPU until all are computed, and are copied once."""
        binding = self.sessions[graph].io_binding()
        for name, value in inputs.items():
            binding.bind_cpu_input(name, np.ascontiguousarray(value))
        for name in OUTPUTS[graph]:
            binding.bind_output(name, "cuda")
        self.sessions[graph].run_with_iobinding(binding)
        return dict(zip(OUTPUTS[graph], binding.copy_outputs_to_cpu(), strict=True))
