"""The interface of a family of voices, found by `sonorant.plugins`.

A voice is two trained models: the predictor turns phonemes into frames (a mel, or codes), the waveform model turns
frames into samples. Methods import their modules when called: speaking needs no torch."""

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

if TYPE_CHECKING:  # rooms that import families
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
"""Log-mel (M, T) and samples (T * hop,) of a recording -> frames without a batch axis, and their number."""


class ModelKind(ABC):
    """One of a family's two models: its settings, and how it is built, trained and judged."""

    name: ClassVar[str]
    """`kind` in `model.json`, section of params.yaml, and of its training `train_<name>`."""
    title: ClassVar[str]
    """Name in messages."""
    VERSION: ClassVar[int] = 1
    """Raise it when the same data and settings give another model, so that no training resumes with other maths."""
    learns_codes: ClassVar[bool] = False
    """Whether its recipe reads a token store."""
    why_no_qat: ClassVar[str] = ""
    """Empty if int8 training is possible."""

    @abstractmethod
    def sizes(self) -> type:
        """Dataclass of its section of params.yaml."""

    @abstractmethod
    def settings(self) -> type[TrainConfig]:
        """Dataclass of the section `train_<name>`."""

    @abstractmethod
    def build(self, description: dict[str, Any]) -> torch.nn.Module:
        """An untrained float model as described by `model.json`."""

    @abstractmethod
    def make_recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None) -> Recipe:
        """See `recipe`, which checks `codes` first."""

    @abstractmethod
    def judge(self, recipe: Any, model: torch.nn.Module, items: Ints) -> Judge:
        """Judges quantised models on utterances `items`; `model`: the float one."""

    def recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None = None) -> Recipe:
        """`model`: fields of `sizes` and, for int8 layers, `quantization` of `model.json`; `train`: fields of
        `settings`; `codes`: token store. Raises SonorantError if `codes` are needed and missing."""
        if self.learns_codes and codes is None:
            raise SonorantError(f"a {self.title} learns codes: give --codes, the token store of train_waveform")
        return self.make_recipe(model, train, features, codes if self.learns_codes else None)

    def check(self, sizes: Any, audio: MelConfig) -> None:  # noqa: B027 - most kinds have nothing to check
        """Raise SonorantError for settings that cannot work, such as a missing codec."""

    def pretrained(self, sizes: Any) -> str | None:
        """The pretrained model in the settings; None: train."""
        return None

    def take(self, sizes: Any, features: Path, out: Path, provenance: dict[str, Any]) -> None:
        """Save the pretrained model in `out` as if trained here."""
        raise NotImplementedError(f"{self.name}: no pretrained models of this kind")


class Family(ABC):
    """A family of voice."""

    name: ClassVar[str]
    """`voice.family` in params.yaml and `family` in `voice.json`."""
    predictor: ClassVar[ModelKind]
    """From phonemes to frames."""
    waveform: ClassVar[ModelKind]
    """From frames to samples."""
    graphs: ClassVar[tuple[str, ...]]
    """In the order of a synthesis; the last gives samples."""
    optional_graphs: ClassVar[tuple[str, ...]] = ()
    """Those of `graphs` that some voices lack."""
    autoregressive: ClassVar[bool]
    """Whether frames are decoded one by one: `voice.json` then has `decoding`."""

    @property
    def kinds(self) -> tuple[ModelKind, ModelKind]:
        return self.predictor, self.waveform

    @property
    def waveform_graphs(self) -> tuple[str, ...]:
        """Those of `graphs` exported from the waveform model."""
        return self.graphs[-1:]

    @abstractmethod
    def loaders(self) -> Mapping[str, Callable[[Bundle, LoadOptions], Any]]:
        """Loader of each runtime, by name."""

    @abstractmethod
    def speaking(self, bundle: Bundle, runtime: Any) -> Speaking:
        """The synthesizer of a loaded runtime; for one thread at a time."""

    def why_untimed(self, description: VoiceDescription) -> str:
        """Empty if the voice gives word times: `Speaking.parts` then takes `times`, and `Synthesized` has `ends`."""
        return f"voices of the family {self.name} have no word times"

    def prompt(self, recording: Path, bundle: Bundle) -> Ints:
        """Codes (P, G) of a recording's beginning, for a voice to continue."""
        raise SonorantError(f"{recording}: a voice of the family {self.name} takes no prompt; leave it out")

    @abstractmethod
    def models(self, predictor: Path, waveform: Path) -> Models:
        """Both trained folders, ready for export."""

    def whole_graph(self, bundle: Bundle, variant: str | None = None) -> ModelProto:
        """The voice as one ONNX graph for one utterance; `variant`: None = the default.

        Inputs: tokens (1, N, 3) int64, speaker (1,) int64, speed, pitch (semitones) and energy (dB) (1,) float32.
        Output: samples (1, S) float32. Raises SonorantError if the family has no such graph, and as
        `Bundle.graph_file`.
        """
        raise SonorantError(
            f"{bundle.folder}: a voice of the family {self.name} decodes step by step and is no single graph; those of "
            "the family parallel are"
        )

    @abstractmethod
    def interface(self, description: VoiceDescription) -> Interface:
        """Names and dtypes of each graph's inputs and outputs."""

    @abstractmethod
    def candidate(self) -> type[Candidate]:
        """Parity checks of one variant under one runtime."""

    @abstractmethod
    def hear(self, description: VoiceDescription, waveform: Path) -> Hear:
        """From a recording to input of the waveform graph. `waveform`: trained folder."""

    @abstractmethod
    def write_codes(self, waveform: Path, features: Path, out: Path) -> None:
        """Write a corpus' token store; a family without codes calls `sonorant.features.codes.write_no_codes`."""


@dataclass(frozen=True, kw_only=True)
class VoiceConfig:
    """Section `voice` of the settings."""

    family: str = "parallel"
    """A name of `sonorant.plugins.family_names`."""

    def __post_init__(self) -> None:
        from sonorant.plugins import load_family

        with as_value_error():
            load_family(self.family)


@contextmanager
def as_value_error() -> Iterator[None]:
    """Turn a SonorantError into a ValueError, to which the parser adds file and section."""
    try:
        yield
    except SonorantError as error:
        raise ValueError(str(error)) from None
