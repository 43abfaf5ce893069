"""What Sonorant asks of a family of voice. Each family answers with one object, see `sonorant.plugins`.

A voice is two trained models: the predictor turns phonemes into frames (a mel, or a codec's codes), the waveform model
turns frames into samples. Methods import what they need when they are called: speaking needs no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Integers, Ints
from sonorant.errors import SonorantError

if TYPE_CHECKING:  # a family is asked by rooms that it is itself built on
    import torch
    from onnx import ModelProto

    from sonorant.audio.mel import MelConfig
    from sonorant.export.bundling import Models
    from sonorant.export.candidate import Candidate, Expected, Trained
    from sonorant.export.graph_files import Interface
    from sonorant.export.quantization.utterance_losses import Judge
    from sonorant.speech.bundle import Bundle, VoiceDescription
    from sonorant.speech.runtimes import LoadOptions
    from sonorant.speech.speaking import Speaking
    from sonorant.training.config import TrainConfig
    from sonorant.training.recipe import Recipe


Hear = Callable[[Floats, Floats], tuple[NDArray[Any], int]]
"""A recording's log-mel (M, T) and samples (T * hop,) -> its frames without a batch axis, and how many they are."""


class ModelKind(ABC):
    """One of the two models of a family: its settings, and how it is built, trained and judged."""

    name: ClassVar[str]
    """`kind` in `model.json`; also its section of params.yaml, and `train_<name>` that of its training."""
    title: ClassVar[str]
    """For readers."""
    VERSION: ClassVar[int] = 1
    """Version of the recipe's mathematics: raise it when the same data and settings give another model. Part of the
    fingerprint, so that no training continues under other mathematics."""
    learns_codes: ClassVar[bool] = False
    """Whether its recipe reads the token store that the waveform model's stage wrote."""
    why_no_qat: ClassVar[str] = ""
    """Why its weights must not be trained on in int8; empty where they may."""

    @abstractmethod
    def sizes(self) -> type:
        """The dataclass of its section of params.yaml."""

    @abstractmethod
    def settings(self) -> type[TrainConfig]:
        """The dataclass of the section `train_<name>`."""

    @abstractmethod
    def build(self, description: dict[str, Any]) -> torch.nn.Module:
        """An untrained float model of the sizes that a `model.json` names."""

    @abstractmethod
    def make_recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None) -> Recipe:
        """See `recipe`, which refuses missing codes first."""

    @abstractmethod
    def judge(self, recipe: Any, model: torch.nn.Module, items: Ints) -> Judge:
        """The judge for quantised models, on utterances `items` of the recipe's store; `model` is the float one."""

    def recipe(self, model: dict[str, Any], train: dict[str, Any], features: Path, codes: Path | None = None) -> Recipe:
        """How such a model is trained. `model`: fields of `sizes` and, for int8 layers, `quantization` of `model.json`;
        `train`: fields of `settings`; `codes`: token store, for kinds that learn codes. Raises SonorantError if `codes`
        are needed and absent."""
        if self.learns_codes and codes is None:
            raise SonorantError(f"a {self.title} learns codes: give --codes, the token store of train_waveform")
        return self.make_recipe(model, train, features, codes if self.learns_codes else None)

    def check(self, sizes: Any, audio: MelConfig) -> None:  # noqa: B027 - most kinds have nothing to check
        """Raise SonorantError where settings that are well formed cannot work, such as a codec that is not there."""

    def pretrained(self, sizes: Any) -> str | None:
        """The model that the settings name to be taken as it is instead of trained; None: train."""
        return None

    def take(self, sizes: Any, features: Path, out: Path, provenance: dict[str, Any]) -> None:
        """Write the pretrained model into `out` as if it had been trained here."""
        raise NotImplementedError(f"{self.name}: nothing of this kind is taken from elsewhere")


class Family(ABC):
    """A family of voice."""

    name: ClassVar[str]
    """`voice.family` in params.yaml and `family` in `voice.json`."""
    predictor: ClassVar[ModelKind]
    """From phonemes to frames."""
    waveform: ClassVar[ModelKind]
    """From frames to samples."""
    graphs: ClassVar[tuple[str, ...]]
    """Names of a bundle's graphs in the order of a synthesis; the last one makes the samples."""
    optional_graphs: ClassVar[tuple[str, ...]] = ()
    """Those of `graphs` that some voices do without."""
    autoregressive: ClassVar[bool]
    """Whether frames are decoded one by one: `voice.json` then says how, and sentences that run away are counted."""

    @property
    def kinds(self) -> tuple[ModelKind, ModelKind]:
        """Predictor and waveform model."""
        return self.predictor, self.waveform

    @property
    def waveform_graphs(self) -> tuple[str, ...]:
        """Those of `graphs` that the waveform model is written as; the last one."""
        return self.graphs[-1:]

    def check_pair(self, predictor: Any, waveform: Any) -> None:  # noqa: B027 - any pair will do, unless a family says
        """Raise SonorantError if models of these sizes, as of `ModelKind.sizes`, do not fit each other."""

    @abstractmethod
    def loaders(self) -> Mapping[str, Callable[[Bundle, LoadOptions], Any]]:
        """By name of a runtime: what loads it with a bundle of this family."""

    @abstractmethod
    def speaking(self, bundle: Bundle, runtime: Any) -> Speaking:
        """The synthesizer of a loaded runtime; for one thread at a time."""

    def why_untimed(self, description: VoiceDescription) -> str:
        """Why the voice does not tell when its words are spoken; empty where it does: then `Speaking.parts` takes
        `times`, and `Synthesized` has `ends`."""
        return f"a voice of the family {self.name} does not tell when its words are spoken"

    def prompt(self, recording: Path, bundle: Bundle) -> Ints:
        """Codes (P, G) of a recording's beginning, for a voice to go on from."""
        raise SonorantError(f"{recording}: a voice of the family {self.name} takes no prompt; leave it out")

    @abstractmethod
    def models(self, predictor: Path, waveform: Path) -> Models:
        """Both trained folders, ready to be written as graphs."""

    def whole_graph(self, bundle: Bundle, variant: str | None = None) -> ModelProto:
        """The voice as one graph of one utterance, for programs that take no more; `variant`: None = what ships.

        Inputs: tokens (1, N, 3) int64, speaker (1,) int64, speed (1,) float32 (2.0 is twice as fast), and where the
        voice predicts them pitch (1,) float32 semitones and energy (1,) float32 dB. Output: samples (1, S) float32,
        full scale 1. Raises SonorantError for a family whose voices are no single graph, and as `Bundle.graph_file`.
        """
        raise SonorantError(
            f"{bundle.folder}: a voice of the family {self.name} decodes step by step and is no single graph; those of "
            "the family parallel are"
        )

    @abstractmethod
    def interface(self, description: VoiceDescription) -> Interface:
        """Names and dtypes of the inputs and outputs of each graph."""

    @abstractmethod
    def candidate(self) -> type[Candidate]:
        """The parity checks of one runtime with one variant."""

    @abstractmethod
    def expect(self, bundle: Bundle, trained: Trained, utterances: Sequence[Integers], name: str) -> Expected:
        """What the trained models compute, which candidates are compared with; `name` is for readers."""

    @abstractmethod
    def hear(self, description: VoiceDescription, waveform: Path) -> Hear:
        """How a recording becomes frames that the voice's waveform graph takes. `waveform`: trained folder."""

    @abstractmethod
    def write_codes(self, waveform: Path, features: Path, out: Path) -> None:
        """Write the token store of a corpus, the second output of the stage `train_waveform`. A family without codes
        calls `sonorant.features.codes.write_no_codes`."""


@dataclass(frozen=True, kw_only=True)
class VoiceConfig:
    """Which family a voice is of: section `voice` of the settings."""

    family: str
    """A name of `sonorant.families.family_names`."""

    def __post_init__(self) -> None:
        from sonorant.plugins import load_family

        with as_value_error():
            load_family(self.family)


@contextmanager
def as_value_error() -> Iterator[None]:
    """Turn a SonorantError into the ValueError that settings raise, so that file and section are named."""
    try:
        yield
    except SonorantError as error:
        raise ValueError(str(error)) from None
