"""Runtimes of a voice's graphs. A candidate is `<runtime>/<variant>`. Each family has its own loaders."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from sonorant.audio.arrays import Floats, Ints
from sonorant.errors import SonorantError
from sonorant.plugins import added, load, load_family
from sonorant.speech.bundle import Bundle

BASELINE = "onnxruntime/fp32"
"""Every voice has it; speed and errors of the others are relative to it."""
REFERENCE = "torch/fp32"
"""The trained models, which `verify` compares with; a bundle does not hold them."""


@dataclass(frozen=True, kw_only=True)
class RuntimeRow:
    """Requirements and abilities of a runtime."""

    name: str
    engine: Literal["onnxruntime", "torch", "tensorrt"]
    device: Literal["cpu", "cuda"] = "cpu"
    needs: str = ""
    """Extra packages and programs; empty = none."""
    standalone: bool = True
    """False: reads the trained folders, so it cannot ship."""
    strict: bool = False
    """Whether findings of its static check fail a graph."""
    compiles: bool = False
    """Whether it compiles for each shape."""

    @property
    def on_cpu_kernels(self) -> bool:
        """ONNX Runtime's CPU kernels: integers for int8, fp32 between casts for fp16."""
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
"""In the order of reports."""


@dataclass(frozen=True, kw_only=True)
class ExtraRuntime:
    """A runtime that a plug-in brings."""

    row: RuntimeRow
    loaders: Mapping[str, Callable[[Bundle, "LoadOptions"], Any]]
    """By name of a family."""
    check_graph: Callable[[Path], list[str]] = lambda path: []
    """Findings of a static check of an ONNX file; empty = the runtime should accept it."""


@cache
def extra_runtimes() -> dict[str, ExtraRuntime]:
    return {name: load(place) for name, place in added("runtimes").items()}


def all_runtimes() -> dict[str, RuntimeRow]:
    return RUNTIMES | {name: extra.row for name, extra in extra_runtimes().items()}


def runtime_row(name: str) -> RuntimeRow:
    """The row of a runtime. Raises SonorantError listing the names."""
    if name in RUNTIMES:
        return RUNTIMES[name]
    rows = all_runtimes()
    if name not in rows:
        raise SonorantError(f"unknown runtime '{name}'; there are: {', '.join(rows)}")
    return rows[name]


class Runtime(Protocol):
    """Runs encoder, decoder and vocoder on numpy arrays. Padding changes no value. `B` batch, `N` tokens, `C` channels,
    `M` mel bins, `T` frames, `S` samples."""

    def encode(
        self, tokens: Ints, lengths: Ints, speaker: Ints, speed: Floats, pitch: Floats, energy: Floats
    ) -> tuple[Floats, Ints]:
        """Tokens (B, N, 3), lengths, speaker, speed, pitch and energy (B,) -> states (B, N, C), and the frame after
        each token's last one (B, N), constant over padded tokens."""

    def decode(self, states: Floats, ends: Ints, time: Ints) -> Floats:
        """Output of `encode`, consecutive frame numbers (T,) -> log-mel (B, M, T), silence outside an utterance."""

    def vocode(self, mel: Floats, lengths: Ints) -> Floats:
        """Log-mel (B, M, T), real frames of each row (B,) -> samples (B, S), about -1 to 1, S = T * hop."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Each runtime reads the options that concern it."""

    threads: int | None = None
    """CPU threads inside an operator, for torch in the whole process; None = one a physical core."""
    variant: str | None = None
    """Such as fp32 or int8; None = the default."""
    trained: tuple[Path, Path] | None = None
    """Trained folders of predictor and waveform model (int8: the quantised ones), for runtimes not `standalone`."""
    batches: tuple[int, ...] = (1,)
    """Runtimes of fixed shapes: rows of a request."""
    warm_up: bool = False
    """Runtimes of fixed shapes: prepare all of them while loading."""
    slots: tuple[int, ...] | None = None
    """Torch runtimes of fixed shapes, family codec_lm: slots of the caches; None = powers of two as needed."""
    cache_folder: Path | None = None
    """The same: folder of compiled code; None = one for the model in the user's cache."""
    engines: Path | None = None
    """tensorrt: folder of the bundle's engines; None = its folder in the user's cache."""

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise SonorantError(f"threads must be at least 1, not {self.threads}")
        for name, sizes in (("batches", self.batches), ("slots", self.slots)):
            if sizes is not None and (not sizes or min(sizes) < 1):
                raise SonorantError(f"{name} must be one or several numbers of at least 1, not {sizes}")


def load_runtime(name: str, bundle: Bundle, options: LoadOptions) -> Any:
    """Load a runtime with the interface of the bundle's family. Raises SonorantError if it is unknown, does not support
    the family, or lacks the trained folders."""
    row, family = runtime_row(name), load_family(bundle.description.family)
    loaders = dict(family.loaders())
    if name not in loaders and name not in RUNTIMES:
        extra = extra_runtimes()[name].loaders
        loaders |= {name: extra[family.name]} if family.name in extra else {}
    if name not in loaders:
        able = ", ".join(other for other in RUNTIMES if other in loaders)
        raise SonorantError(f"the runtime {name} does not speak the family {family.name}; these do: {able}")
    if not row.standalone and options.trained is None:
        raise SonorantError(
            "the torch runtimes need the folders of the trained models; a bundle alone is spoken by onnxruntime"
        )
    return loaders[name](bundle, options)
