"""A voice that speaks: text in, samples out. Knows nothing of training, and nothing of what runs its graphs."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sonorant.errors import SonorantError
from sonorant.runtime.bundle import Bundle, VoiceDescription, read_bundle
from sonorant.runtime.limits import Limits
from sonorant.runtime.runtimes import LoadOptions, Runtime, load_runtime
from sonorant.runtime.speaking import Manner, ParallelSpeaking, Speaking
from sonorant.runtime.streaming import CHUNK, Speech
from sonorant.text import Frontend, SymbolTable, load_frontend

AT_ONCE = Limits(characters=50_000, audio_seconds=10_800.0)
"""What `say` takes, which returns all samples in memory: about an hour of speech."""

_log = logging.getLogger(__name__)


class Voice:
    """A bundle and a runtime for its graphs."""

    def __init__(self, bundle: Bundle, runtime: Runtime) -> None:
        """Compose a voice; `Voice.load` is the usual way."""
        self.bundle = bundle
        self.runtime = runtime

    @classmethod
    def load(
        cls,
        bundle: Path | str,
        runtime: str = "onnxruntime",
        threads: int | None = None,
        *,
        variant: str | None = None,
        trained: tuple[Path, Path] | None = None,
        engines: Path | None = None,
        batches: tuple[int, ...] = (1,),
        warm_up: bool = False,
    ) -> Voice:
        """Load a voice bundle.

        Args:
            bundle: folder with `voice.json`.
            runtime: a key of `sonorant.runtime.runtimes.RUNTIMES`.
            threads: threads inside an operator; None = one a physical core.
            variant: which variant of the graphs, such as fp32; None = the bundle's default.
            trained: only for the torch runtimes: the trained folders of the acoustic model and of the vocoder.
            engines: only for the runtime `tensorrt`: folder of the bundle's engines; None = its folder in the user's cache.
            batches: only for runtimes of fixed shapes: rows that requests may have.
            warm_up: only for runtimes of fixed shapes: prepare all of them now, so that no request waits for it.

        Raises SonorantError if the bundle is absent, damaged or of another schema version, or the runtime is not known.
        """
        read = read_bundle(Path(bundle))
        options = LoadOptions(threads=threads, variant=variant, trained=trained, engines=engines, batches=batches, warm_up=warm_up)
        return cls(read, load_runtime(runtime, read, options))

    @property
    def description(self) -> VoiceDescription:
        """What `voice.json` says."""
        return self.bundle.description

    @property
    def sample_rate(self) -> int:
        """Hz of the samples."""
        return self.description.audio.sample_rate

    @property
    def speakers(self) -> tuple[str, ...]:
        """Names that `say` takes."""
        return self.description.speakers

    @property
    def speaking(self) -> Speaking:
        """How the family of the voice makes speech of phonemes."""
        return ParallelSpeaking(self.runtime, self.description)

    @cached_property
    def symbols(self) -> SymbolTable:
        """Phonemes to ids."""
        return SymbolTable(self.description.symbols)

    @cached_property
    def frontend(self) -> Frontend:
        """The text frontend that the voice learned with; loaded at first use, because it takes a second."""
        settings = self.description.frontend
        frontend = load_frontend(settings.name, settings.language)
        if frontend.version != settings.version:
            _log.warning(
                "the voice was trained with frontend '%s', here is '%s': words may sound different",
                settings.version,
                frontend.version,
            )
        return frontend

    def say(self, text: str, speaker: str | None = None, speed: float = 1.0, *, limits: Limits = AT_ONCE) -> NDArray[np.float32]:
        """Speak a text, sentence by sentence.

        Args:
            text: characters that cannot be spoken are left out with a warning in the log.
            speaker: one of `speakers`; None = the first.
            speed: 2.0 is twice as fast; 0.5 to 2.0.
            limits: the most the text may take.

        Returns samples float32 (S,) in -1..1 at `sample_rate`. Raises SonorantError if there is nothing to say, an argument is
        outside what is allowed, or a limit is reached.
        """
        return np.concatenate(list(self._speech(text, speaker, speed, limits, CHUNK, streamed=False)))

    def stream(
        self,
        text: str | Iterable[str],
        speaker: str | None = None,
        speed: float = 1.0,
        *,
        chunk: int = CHUNK,
        limits: Limits | None = None,
    ) -> Speech:
        """What `say` returns, in chunks that are computed as they are asked for, from a text of any length.

        Args:
            text: a string, or strings that make the text when joined; they are asked for when speech needs them.
            speaker: as for `say`.
            speed: as for `say`.
            chunk: samples of each chunk but the last.
            limits: the most the text may take; None = `Limits()`.

        The chunks differ from `say` by what a runtime rounds differently for another shape: about 1e-6 of full scale in fp32.
        Raises SonorantError as `say`, for the arguments at once and for the text when it is reached.
        """
        return self._speech(text, speaker, speed, limits or Limits(), chunk, streamed=True)

    def synthesize(
        self, tokens: NDArray[np.integer], lengths: NDArray[np.integer], speaker: NDArray[np.integer], speed: NDArray[np.floating]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Speak a batch of phoneme ids: tokens (B, N, 3), lengths, speaker and speed (B,).

        Returns samples float32 (B, S) in -1..1, zero past each end, and their lengths int64 (B,).
        """
        samples, sample_lengths = self.speaking.synthesize(
            tokens.astype(np.int64), lengths.astype(np.int64), speaker.astype(np.int64), speed.astype(np.float32)
        )
        # The last windows reach past an utterance's end.
        spoken = np.arange(samples.shape[1]) < sample_lengths[:, None]
        return np.where(spoken, np.clip(samples, -1.0, 1.0), np.float32(0.0)), sample_lengths

    def _speech(
        self,
        text: str | Iterable[str],
        speaker: str | None,
        speed: float,
        limits: Limits,
        chunk: int,
        streamed: bool,
    ) -> Speech:
        manner = Manner(speaker=self._speaker_id(speaker), speed=speed)
        return Speech(self, text, manner=manner, limits=limits, chunk=chunk, streamed=streamed)

    def _speaker_id(self, speaker: str | None) -> int:
        if speaker is None:
            return 0
        if speaker not in self.speakers:
            raise SonorantError(f"no speaker '{speaker}'; the voice has: {', '.join(self.speakers)}")
        return self.speakers.index(speaker)
