"""Runtimes for a voice's graphs. A candidate is named `<runtime>/<variant>`. Each family has separate loaders."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from sonorant.audio.arrays import Floats, Ints
from sonorant.errors import SonorantError
from sonorant.plugins import added, load, load_family
from sonorant.processes import at_most_cores
from sonorant.speech.bundle import Bundle

BASELINE = "onnxruntime/fp32"
"""Candidate that every voice has; speed and errors of the others are relative to it."""
REFERENCE = "torch/fp32"
"""Candidate that runs the trained models, with which `verify` compares the others. Bundles do not contain it."""


@dataclass(frozen=True, kw_only=True)
class RuntimeRow:
    name: str
    engine: Literal["onnxruntime", "torch", "tensorrt"]
    device: Literal["cpu", "cuda"] = "cpu"
    needs: str = ""
    """Additional packages and programs that are required; empty if none."""
    standalone: bool = True
    """Whether the runtime needs only the bundle; if False, it reads the trained folders and cannot be shipped."""
    strict: bool = False
    """Whether a graph fails if the runtime's static check finds anything."""
    compiles: bool = False
    """Whether the runtime compiles a graph for each shape."""

    @property
    def on_cpu_kernels(self) -> bool:
        """Whether the runtime uses ONNX Runtime's CPU kernels, which compute int8 in integers and fp16 in fp32."""
        return self.engine == "onnxruntime" and self.device == "cpu"


RUNTIMES = {
    row.name: row
    for row in (
        RuntimeRow(name="onnxruntime", engine="onnxruntime"),
        RuntimeRow(name="onnxruntime-cuda", engine="onnxruntime", device="cuda", needs="onnxruntime-gpu"),
        RuntimeRow(name="torch", engine="torch", needs="torch", standalone=False),
        RuntimeRow(name="torch-static", engine="torch", needs="torch", standalone=False),
        RuntimeRow(name="torch-compiled", engine="torch", needs="torch, g++", standalone=False, compiles=True),
        RuntimeRow(name="torch-cuda", engine="torch", device="cuda", needs="torch", standalone=False),
        RuntimeRow(
            name="torch-cuda-compiled",
            engine="torch",
            device="cuda",
            needs="torch, g++",
            standalone=False,
            compiles=True,
        ),
        # Replays the kernels of torch-cuda.
        RuntimeRow(name="torch-cuda-graphs", engine="torch", device="cuda", needs="torch", standalone=False),
    )
}
"""Built-in runtimes, in the order shown in reports."""


@dataclass(frozen=True, kw_only=True)
class ExtraRuntime:
    row: RuntimeRow
    loaders: Mapping[str, Callable[[Bundle, "LoadOptions"], Any]]
    """Functions that load the runtime, by family name."""
    check_graph: Callable[[Path], list[str]] = lambda path: []
    """Function that returns the findings of a static check of an ONNX file; empty if the runtime should accept it."""


@cache
def extra_runtimes() -> dict[str, ExtraRuntime]:
    return {name: load(place) for name, place in added("runtimes").items()}


def all_runtimes() -> dict[str, RuntimeRow]:
    return RUNTIMES | {name: extra.row for name, extra in extra_runtimes().items()}


def runtime_row(name: str) -> RuntimeRow:
    """Return the row of a runtime. Raises SonorantError listing all names if the name is unknown."""
    if name in RUNTIMES:
        return RUNTIMES[name]
    rows = all_runtimes()
    if name not in rows:
        raise SonorantError(f"unknown runtime '{name}'; use one of: {', '.join(rows)}")
    return rows[name]


class Runtime(Protocol):
    """Runs encoder, decoder and vocoder on numpy arrays. Padding changes no value. `B` batch, `N` tokens, `C` channels,
    `M` mel bins, `T` frames, `S` samples."""

    def encode(
        self, tokens: Ints, lengths: Ints, speaker: Ints, speed: Floats, pitch: Floats, energy: Floats
    ) -> tuple[Floats, Ints]:
        """Tokens (B, N, 3), lengths, speaker, speed, pitch and energy (B,) -> states (B, N, C), and exclusive end
        frames of the tokens (B, N), constant over padded tokens."""

    def decode(self, states: Floats, ends: Ints, time: Ints) -> Floats:
        """Output of `encode`, consecutive frame numbers (T,) -> log-mel (B, M, T), with silence outside an
        utterance."""

    def vocode(self, mel: Floats, lengths: Ints) -> Floats:
        """Log-mel (B, M, T), number of real frames per row (B,) -> samples (B, S), about -1 to 1, S = T * hop."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Options for loading a runtime. Each runtime reads only those that apply to it."""

    threads: int | None = None
    """CPU threads per operator (for torch, in the whole process), at most one per usable core; None means one per
    physical core."""
    variant: str | None = None
    """Variant of the graphs, such as fp32 or int8; None means the default."""
    trained: tuple[Path, Path] | None = None
    """Trained folders of predictor and waveform model (for int8, the quantised ones), for runtimes that are not
    `standalone`."""
    batches: tuple[int, ...] = (1,)
    """Supported numbers of rows per request, for runtimes with fixed shapes."""
    warm_up: bool = False
    """Whether to prepare all shapes while loading, for runtimes with fixed shapes."""
    slots: tuple[int, ...] | None = None
    """Numbers of cache slots to prepare, for torch runtimes with fixed shapes and the `codec_lm` family; None means
    powers of two as needed."""
    cache_folder: Path | None = None
    """Folder for compiled code, for torch runtimes with fixed shapes; None means the model's folder in the user's
    cache."""
    engines: Path | None = None
    """Folder of the bundle's TensorRT engines; None means the bundle's folder in the user's cache."""

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise SonorantError(f"threads must be at least 1, not {self.threads}")
        for name, sizes in (("batches", self.batches), ("slots", self.slots)):
            if sizes is not None and (not sizes or min(sizes) < 1):
                raise SonorantError(f"{name} must be one or more numbers of at least 1, not {sizes}")


def load_runtime(name: str, bundle: Bundle, options: LoadOptions) -> Any:
    """Load a runtime for the bundle's family. Raises SonorantError if the runtime is unknown, does not support the
    family, or requires trained folders that are not given."""
    row, family = runtime_row(name), load_family(bundle.description.family)
    loaders = dict(family.loaders())
    if name not in loaders and name not in RUNTIMES:
        extra = extra_runtimes()[name].loaders
        loaders |= {name: extra[family.name]} if family.name in extra else {}
    if name not in loaders:
        able = ", ".join(other for other in RUNTIMES if other in loaders)
        raise SonorantError(f"the runtime {name} does not support the family {family.name}; use one of: {able}")
    if not row.standalone and options.trained is None:
        raise SonorantError(
            "the torch runtimes require the folders of the trained models; for a bundle alone, use onnxruntime"
        )
    return loaders[name](bundle, replace(options, threads=at_most_cores(options.threads, "threads")))
