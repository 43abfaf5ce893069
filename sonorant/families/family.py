"""The interface of a family of voices, found by `sonorant.plugins`.

A voice consists of two trained models: the predictor turns phonemes into frames (a mel, or codes), and the waveform
model turns frames into samples. Methods import their modules when called, because speaking needs no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Ints
from sonorant.errors import SonorantError

if TYPE_CHECKING:  # packages that import families
    import torch
    from onnx import ModelProto

    from sonorant.audio.mel import MelConfig
    from sonorant.export.bundling import Models
    from sonorant.export.candidate import Candidate
    from sonorant.export.graph_files import Interface
    from sonorant.export.quantization.utterance_losses import Judge
    from sonorant.speech.bundle import Bundle, VoiceDescription
    from sonorant.speech.runtimes import LoadOptions
    from sonorant.speech.speaking import Speaking
    from sonorant.training.config import TrainConfig
    from sonorant.training.recipe import Recipe


Hear = Callable[[Floats, Floats], tuple[NDArray[Any], int]]
"""Function from a recording's log-mel (M, T) and samples (T * hop,) to frames without a batch axis, and their
number."""


class ModelKind(ABC):
    """One of a family's two models: settings, construction, training and evaluation."""

    name: ClassVar[str]
    """`kind` in `model.json` and section of params.yaml; the training section is `train_<name>`."""
    title: ClassVar[str]
    """Name of the model in messages."""
    VERSION: ClassVar[int] = 1
    """Version of the training recipe's maths; a run resumes only with the same version."""
    learns_codes: ClassVar[bool] = False
    """Whether the model's recipe reads a token store."""
    why_no_qat: ClassVar[str] = ""
    """Why int8 training is impossible; otherwise empty."""

    @abstractmethod
    def sizes(self) -> type:
        """Return the dataclass of the params.yaml section `name`."""

    @abstractmethod
    def settings(self) -> type[TrainConfig]:
        """Return the dataclass of the section `train_<name>`."""

    @abstractmethod
    def build(self, description: dict[str, Any]) -> torch.nn.Module:
        """Build an untrained float model as described by `model.json`."""

    @abstractmethod
    def make_recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None) -> Recipe:
        """Return the training recipe; called by `recipe`, which checks `codes`."""

    @abstractmethod
    def judge(self, recipe: Any, model: torch.nn.Module, items: Ints) -> Judge:
        """Return a judge that measures quantised models on the utterances `items`; `model` is the float model."""

    def recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None = None) -> Recipe:
        """Return the training recipe. `model`: fields of `sizes` and, for int8 layers, `quantization` of `model.json`;
        `train`: fields of `settings`; `codes`: token store. Raises SonorantError if `codes` is required but missing."""
        if self.learns_codes and codes is None:
            raise SonorantError(f"a {self.title} is trained on codes; give --codes, the token store of train_waveform")
        return self.make_recipe(model, train, features, codes if self.learns_codes else None)

    def check(self, sizes: Any, audio: MelConfig) -> None:  # noqa: B027 - most kinds have nothing to check
        """Raise SonorantError for settings that cannot work, such as a missing codec."""

    def pretrained(self, sizes: Any) -> str | None:
        """Return the name of the pretrained model in the settings, if any."""
        return None

    def take(self, sizes: Any, features: Path, out: Path, provenance: dict[str, Any]) -> None:
        """Save the pretrained model in `out` in the format of trained models."""
        raise NotImplementedError(f"{self.name}: no pretrained models of this kind")


class Family(ABC):
    name: ClassVar[str]
    """`voice.family` in params.yaml and `family` in `voice.json`."""
    predictor: ClassVar[ModelKind]
    waveform: ClassVar[ModelKind]
    graphs: ClassVar[tuple[str, ...]]
    """Graph names in order of synthesis; the last returns samples."""
    optional_graphs: ClassVar[tuple[str, ...]] = ()
    """Names in `graphs` that some voices lack."""
    autoregressive: ClassVar[bool]
    """Whether frames are decoded one at a time; if so, `voice.json` has `decoding`."""

    @property
    def kinds(self) -> tuple[ModelKind, ModelKind]:
        return self.predictor, self.waveform

    @property
    def waveform_graphs(self) -> tuple[str, ...]:
        return self.graphs[-1:]

    @abstractmethod
    def loaders(self) -> Mapping[str, Callable[[Bundle, LoadOptions], Any]]:
        """Return runtime loaders by name."""

    @abstractmethod
    def speaking(self, bundle: Bundle, runtime: Any) -> Speaking:
        """Return the synthesiser of a loaded runtime; not thread-safe."""

    def why_untimed(self, description: VoiceDescription) -> str:
        """Return why the voice has no word times; if empty, `Speaking.parts` accepts `times` and `Synthesized` has
        `ends`."""
        return f"voices of the family {self.name} have no word times"

    def prompt(self, recording: Path, bundle: Bundle) -> Ints:
        """Return the codes (P, G) of the start of a recording, for the voice to continue."""
        raise SonorantError(f"{recording}: a voice of the family {self.name} does not support prompts; leave it out")

    @abstractmethod
    def models(self, predictor: Path, waveform: Path) -> Models:
        """Load the trained models from both folders for export."""

    def whole_graph(self, bundle: Bundle, variant: str | None = None) -> ModelProto:
        """Return the voice as one ONNX graph for one utterance; `variant`: None means the default.

        Inputs: tokens (1, N, 3) int64, speaker (1,) int64, speed, pitch (semitones) and energy (dB) (1,) float32.
        Output: samples (1, S) float32. Raises SonorantError if the family cannot be exported as one graph, and as
        `Bundle.graph_file` does.
        """
        raise SonorantError(
            f"{bundle.folder}: a voice of the family {self.name} decodes step by step and cannot be one graph; use a "
            "voice of the family parallel"
        )

    @abstractmethod
    def interface(self, description: VoiceDescription) -> Interface:
        """Return the dtypes of each graph's inputs and outputs by name."""

    @abstractmethod
    def candidate(self) -> type[Candidate]:
        """Return the class that checks the parity of one variant."""

    @abstractmethod
    def hear(self, description: VoiceDescription, waveform: Path) -> Hear:
        """Return a function that converts recordings to the waveform graph's input. `waveform`: trained folder."""

    @abstractmethod
    def write_codes(self, waveform: Path, features: Path, out: Path) -> None:
        """Write the token store of a corpus; families without codes call `sonorant.features.codes.write_no_codes`."""


@dataclass(frozen=True, kw_only=True)
class VoiceConfig:
    family: str = "parallel"
    """Family of the voice, one of `sonorant.plugins.family_names`."""

    def __post_init__(self) -> None:
        from sonorant.plugins import load_family

        with as_value_error():
            load_family(self.family)


@contextmanager
def as_value_error() -> Iterator[None]:
    """Convert SonorantErrors to ValueErrors, to which the parser adds file and section."""
    try:
        yield
    except SonorantError as error:
        raise ValueError(str(error)) from None
