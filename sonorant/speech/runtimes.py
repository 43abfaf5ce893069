"""What can run a voice's graphs: a row of `RUNTIMES` each. A candidate is `<runtime>/<variant>`. The loaders belong to
the families, because each has graphs of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Ints
from sonorant.errors import SonorantError
from sonorant.plugins import added, load, load_family
from sonorant.speech.bundle import Bundle
from sonorant.speech.decoding.session import Stepper

BASELINE = "onnxruntime/fp32"
"""Without it there is no voice; the others' speed and errors are relative to it."""
REFERENCE = "torch/fp32"
"""The trained models themselves, which `verify` compares with; a bundle does not hold them."""


@dataclass(frozen=True, kw_only=True)
class RuntimeRow:
    """What a runtime needs and can do, in every family that it can load."""

    name: str
    """Named by what computes and, where that is not the CPU, on what."""
    engine: Literal["onnxruntime", "torch", "tensorrt"]
    """What computes."""
    device: Literal["cpu", "cuda"] = "cpu"
    needs: str = ""
    """What must be there beside what every installation has; empty: it runs wherever Sonorant does."""
    standalone: bool = True
    """Whether a bundle is enough to load it; others read the trained folders, so they cannot ship."""
    strict: bool = False
    """Whether it refuses a graph that its static check has findings of."""
    compiles: bool = False
    """Whether it compiles for each shape, which takes seconds to minutes."""

    @property
    def on_cpu_kernels(self) -> bool:
        """Whether ONNX Runtime's CPU kernels compute: in integers for int8, in fp32 between casts for fp16."""
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
"""Runtimes of the core by name, in the order in which they are reported."""


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
    """Runtimes of plug-ins by name."""
    return {name: load(place) for name, place in added("runtimes").items()}


def all_runtimes() -> dict[str, RuntimeRow]:
    """Every runtime, those of plug-ins last."""
    return RUNTIMES | {name: extra.row for name, extra in extra_runtimes().items()}


def runtime_row(name: str) -> RuntimeRow:
    """The row of a runtime. Raises SonorantError listing the names if there is none."""
    if name in RUNTIMES:
        return RUNTIMES[name]
    rows = all_runtimes()
    if name not in rows:
        raise SonorantError(f"unknown runtime '{name}'; there are: {', '.join(rows)}")
    return rows[name]


class Runtime(Protocol):
    """Runs the three graphs on numpy arrays. Padding is exact: a row is as it would be alone. `B` batch, `N` tokens,
    `C` channels, `M` mel bins, `T` frames, `S` samples."""

    def encode(
        self,
        tokens: Ints,
        lengths: Ints,
        speaker: Ints,
        speed: Floats,
        pitch: Floats | None = None,
        energy: Floats | None = None,
    ) -> tuple[Floats, Ints]:
        """Tokens (B, N, 3), lengths, speaker, speed (B,) and, where the graph has them, pitch and energy (B,) -> states
        (B, N, C), and the frame after each token's last one (B, N), constant over padded tokens."""

    def decode(self, states: Floats, ends: Ints, time: Ints) -> Floats:
        """Output of `encode`, frame numbers (T,) in a row -> log-mel (B, M, T), silence outside an utterance."""

    def vocode(self, mel: Floats, lengths: Ints) -> Floats:
        """Log-mel (B, M, T), real frames of each row (B,) -> samples (B, S), about -1 to 1, S = T * hop."""


class TokenRuntime(Protocol):
    """Runs the graphs of the family codec_lm. `F` code frames, `G` codebooks; the rest as in `Runtime`."""

    def encode(self, tokens: Ints, lengths: Ints, speaker: Ints) -> Floats:
        """What is said: tokens (B, N, 3), lengths, speaker (B,) -> states (B, N, C)."""

    def stepper(self) -> Stepper:
        """A new decoder from states to codes, with its own cache. Any number of threads may have one each."""

    def decode(self, codes: Ints, lengths: Ints) -> Floats:
        """Codes (B, F, G), real frames of each row (B,) -> frames (B, D, T), which `SourceRows` completes for `vocode`.
        For voices with a source alone."""

    def vocode(self, frames: NDArray[Any], lengths: Ints) -> Floats:
        """Frames with the source's rows (B, R, T), or codes (B, F, G) of voices without a source, and real frames of
        each row (B,) -> samples (B, S), about -1 to 1."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How a runtime is loaded; each runtime reads the options that concern it."""

    threads: int | None = None
    """CPU threads inside an operator; None = one a physical core. torch has one pool of them for the whole process."""
    variant: str | None = None
    """Precision, such as fp32 or int8; None = the bundle's default, or what the trained folders hold."""
    trained: tuple[Path, Path] | None = None
    """Trained folders of predictor and waveform model (int8: the quantised ones), for runtimes not `standalone`."""
    batches: tuple[int, ...] = (1,)
    """Runtimes of fixed shapes: rows that requests may have."""
    warm_up: bool = False
    """Runtimes of fixed shapes: prepare all of them while loading, so that no request waits for it."""
    slots: tuple[int, ...] | None = None
    """Torch runtimes of fixed shapes, family codec_lm: slots of their caches; None = powers of two as needed."""
    cache_folder: Path | None = None
    """The same: where torch keeps compiled code, for this process; None = a folder of the model in the user's cache."""
    explain: bool = False
    """The same: log where a graph breaks, and why something is compiled again."""
    engines: Path | None = None
    """tensorrt: folder of the bundle's engines; None = its folder in the user's cache."""

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise SonorantError(f"threads must be at least 1, not {self.threads}")
        for name, sizes in (("batches", self.batches), ("slots", self.slots)):
            if sizes is not None and (not sizes or min(sizes) < 1):
                raise SonorantError(f"{name} must be one or several numbers of at least 1, not {sizes}")


def load_runtime(name: str, bundle: Bundle, options: LoadOptions) -> Any:
    """Load a runtime by name; its interface is that of the bundle's family, such as `Runtime` or `TokenRuntime`. Raises
    SonorantError if the name is unknown, the family or lacking trained folders rule it out, or as its loader does."""
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
