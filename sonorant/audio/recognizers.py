"""Speech recognisers, which transcribe clips in several processes. All have an open vocabulary, so that error rates are
meaningful."""

import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.wav import resample
from sonorant.checked import Count, Text
from sonorant.errors import SonorantError, install
from sonorant.processes import spread

RATE = 16_000
"""Sample rate of every recogniser's input in Hz."""


@dataclass(frozen=True, kw_only=True)
class RecognizerConfig:
    """Section `recognizer` of params.yaml."""

    name: Text = "pocketsphinx"
    """`pocketsphinx`, `faster-whisper:<model>` or `onnx-asr:<model>`, where `<model>` is a hub name or a local
    folder."""
    sentences: Count = 160
    """Number of held-out sentences to recognise, selected by a hash of their ids."""

    def __post_init__(self) -> None:
        split_name(self.name)


@dataclass(frozen=True)
class Hypothesis:
    text: str
    confidence: float | None
    """Confidence from 0 to 1, as defined by the recogniser; None if it reports none."""


class Recognizer(Protocol):
    """A speech recogniser. Deterministic: a result does not depend on earlier clips."""

    name: str
    """Name as configured; for a folder, only its last part."""
    revision: str
    """Versions of the package and the model."""

    def transcribe(self, samples: Floats, rate: int) -> str:
        """Return the text of samples (S,) in -1..1 at `rate` Hz; may be empty."""
        return self.recognize(samples, rate).text

    def recognize(self, samples: Floats, rate: int) -> Hypothesis:
        """Return the text of samples and its confidence; see `transcribe`."""


class PocketSphinx(Recognizer):
    """CMU PocketSphinx with its English model (Huggins-Daines et al., ICASSP 2006). BSD. With 3,000 active HMMs per
    frame instead of 30,000, it is 35 % faster on LJSpeech at the same word error rate."""

    ACTIVE_HMMS = 3000

    def __init__(self, model: str = "", language: str = "en-us") -> None:
        """Load the model. Raises SonorantError for a language other than English."""
        from pocketsphinx import Decoder

        if why := not_heard("pocketsphinx", language):
            raise SonorantError(f"recognizer.name: {why.removeprefix('not run: ')}")
        self.name = "pocketsphinx"
        self.revision = f"pocketsphinx {version('pocketsphinx')}, en-us, maxhmmpf {self.ACTIVE_HMMS}"
        self._decoder = Decoder(loglevel="FATAL", maxhmmpf=self.ACTIVE_HMMS)

    def recognize(self, samples: Floats, rate: int) -> Hypothesis:
        integers = (np.clip(_at_rate(samples, rate), -1.0, 1.0) * 32767.0).astype(np.int16)
        if not len(integers):
            return Hypothesis("", None)
        # Otherwise the front end would keep its noise estimate from earlier clips.
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        self._decoder.process_raw(integers.tobytes(), full_utt=True)
        self._decoder.end_utt()
        hypothesis = self._decoder.hyp()
        parts = self._decoder.seg() or ()
        sure = [min(part.prob, 1.0) for part in parts if part.word[0] not in "<["]  # neither silence nor noise
        return Hypothesis(hypothesis.hypstr if hypothesis else "", float(np.mean(sure)) if sure else None)


class FasterWhisper(Recognizer):
    """Whisper (Radford et al. 2022) in CTranslate2, with one temperature and without the text of earlier segments."""

    def __init__(self, model: str, language: str) -> None:
        _require("faster_whisper", "whisper")
        from faster_whisper import WhisperModel

        self.name = f"faster-whisper:{_public_name(model)}"
        self.revision = f"faster-whisper {version('faster-whisper')}, {_public_name(model)}, int8, beam 5"
        self._language = language.split("-")[0]
        self._model = _loaded(lambda: WhisperModel(model, device="cpu", compute_type="int8", cpu_threads=1), self.name)

    def recognize(self, samples: Floats, rate: int) -> Hypothesis:
        segments, _ = self._model.transcribe(
            _at_rate(samples, rate),
            language=self._language,
            beam_size=5,
            temperature=0.0,
            condition_on_previous_text=False,
        )
        found = list(segments)
        sure = [np.exp(segment.avg_logprob) for segment in found]
        text = " ".join(segment.text.strip() for segment in found)
        return Hypothesis(text, float(np.mean(sure)) if sure else None)


class OnnxAsr(Recognizer):
    """Any model of the package onnx-asr (Parakeet, Conformer, Whisper, ...), on one thread of ONNX Runtime."""

    def __init__(self, model: str, language: str) -> None:
        _require("onnx_asr", "onnx-asr")
        import onnx_asr
        import onnxruntime

        self.name = f"onnx-asr:{_public_name(model)}"
        self.revision = f"onnx-asr {version('onnx-asr')}, {_public_name(model)}"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._model = _loaded(
            lambda: onnx_asr.load_model(model, sess_options=options, providers=["CPUExecutionProvider"]), self.name
        )

    def recognize(self, samples: Floats, rate: int) -> Hypothesis:
        return Hypothesis(str(self._model.recognize(_at_rate(samples, rate), sample_rate=RATE)).strip(), None)


def not_heard(name: str, language: str) -> str | None:
    """Return `not run: <reason>` if pocketsphinx does not support the language, otherwise None. Models of other
    packages are not checked."""
    if name != "pocketsphinx" or language.split("-")[0] == "en":
        return None
    others = "use faster-whisper:<model> or onnx-asr:<model>"
    return f"not run: pocketsphinx supports English only, but the corpus is '{language}'; {others}"


RECOGNIZERS: dict[str, Callable[[str, str], Recognizer]] = {
    "pocketsphinx": PocketSphinx,
    "faster-whisper": FasterWhisper,
    "onnx-asr": OnnxAsr,
}


def load_recognizer(name: str, language: str = "en-us") -> Recognizer:
    """Load a recogniser that uses one thread. Raises SonorantError if the name is unknown, its package is missing, or
    it does not support the language."""
    try:
        kind, model = split_name(name)
    except ValueError as error:
        raise SonorantError(f"recognizer: {error}") from None
    return RECOGNIZERS[kind](model, language)


def split_name(name: str) -> tuple[str, str]:
    """Split a name into kind and model. Raises ValueError for an unknown kind."""
    kind, _, model = name.partition(":")
    if kind not in RECOGNIZERS or (kind == "pocketsphinx") == bool(model):
        raise ValueError(f"name is '{name}'; use one of pocketsphinx, faster-whisper:<model>, onnx-asr:<model>")
    return kind, model


def _require(module: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise SonorantError(f"recognizer.name: {module.replace('_', '-')} is not installed; run: {install(extra)}")


def _loaded(load: Callable[[], Any], name: str) -> Any:
    try:
        return load()
    except Exception as error:  # each hub client raises its own class
        raise SonorantError(
            f"recognizer.name: '{name}' cannot be loaded ({' '.join(str(error).split())[:200]}); check the name"
        ) from None


def _public_name(model: str) -> str:
    return Path(model).name if Path(model).exists() else model


def _at_rate(samples: Floats, rate: int) -> Floats:
    mono = np.ascontiguousarray(samples, dtype=np.float32)
    return resample(mono, rate, RATE) if len(mono) else mono


@dataclass(frozen=True)
class Clip:
    samples: Floats
    """Samples (S,) in -1..1."""
    rate: int
    """Sample rate in Hz."""

    def content(self) -> tuple[int, bytes]:
        """Return a key that is equal for clips with the same 16-bit samples."""
        integers = np.rint(np.clip(self.samples, -1.0, 1.0) * 32767.0).astype(np.int16)
        return self.rate, hashlib.sha256(integers.tobytes()).digest()


_recognizer: Recognizer | None = None


def transcribe(clips: Sequence[Clip], recognizer: str, language: str, *, processes: int | None = None) -> list[str]:
    """Return the text of each clip, in order, using one process per core. Equal clips are recognised once. Raises
    SonorantError as `load_recognizer` does, or if a process dies."""
    contents = [clip.content() for clip in clips]
    different = dict(zip(contents, clips, strict=True))
    heard = spread(
        _transcribe,
        list(different.values()),
        label=f"recognise ({recognizer})",
        unit="clip",
        processes=processes,
        prepare=_load,
        arguments=(recognizer, language),
    )
    by_content = dict(zip(different, heard, strict=True))
    return [by_content[content] for content in contents]


def _load(name: str, language: str) -> None:
    global _recognizer
    _recognizer = load_recognizer(name, language)


def _transcribe(clip: Clip) -> str:
    assert _recognizer is not None
    return _recognizer.transcribe(clip.samples, clip.rate)
