"""A voice that speaks: text in, samples out. Knows nothing of training, and nothing of what runs its graphs."""

from __future__ import annotations

import logging
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sonorant.errors import SonorantError
from sonorant.runtime.bundle import Bundle, VoiceDescription, read_bundle
from sonorant.runtime.runtimes import LoadOptions, Runtime, load_runtime
from sonorant.text import Frontend, SpokenText, SymbolTable, load_frontend

SLOWEST, FASTEST = 0.5, 2.0
"""Speeds beyond these sound like no voice."""
LONGEST_TEXT = 50_000
"""Characters `say` takes at once, about an hour of speech: it returns all samples in memory."""
PAUSE_SECONDS = 0.15
"""Silence between two sentences, beside what the voice itself leaves."""

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
    ) -> Voice:
        """Load a voice bundle.

        Args:
            bundle: folder with `voice.json`.
            runtime: a key of `sonorant.runtime.runtimes.RUNTIMES`.
            threads: threads inside an operator; None = one a physical core.
            variant: which variant of the graphs, such as fp32; None = the bundle's default.
            trained: only for the runtime `torch`: the trained folders of the acoustic model and of the vocoder.

        Raises SonorantError if the bundle is absent, damaged or of another schema version, or the runtime is not known.
        """
        read = read_bundle(Path(bundle))
        return cls(read, load_runtime(runtime, read, LoadOptions(threads=threads, variant=variant, trained=trained)))

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

    def say(self, text: str, speaker: str | None = None, speed: float = 1.0) -> NDArray[np.float32]:
        """Speak a text, sentence by sentence.

        Args:
            text: at most `LONGEST_TEXT` characters. Characters that cannot be spoken are left out with a warning in the log.
            speaker: one of `speakers`; None = the first.
            speed: 2.0 is twice as fast; 0.5 to 2.0.

        Returns samples float32 (S,) in -1..1 at `sample_rate`. Raises SonorantError if there is nothing to say, or an argument is
        outside what is allowed.
        """
        speaker_id = self._speaker_id(speaker)
        if not SLOWEST <= speed <= FASTEST:
            raise SonorantError(f"speed must be {SLOWEST} to {FASTEST}, not {speed}")
        pause = np.zeros(round(PAUSE_SECONDS * self.sample_rate), np.float32)
        pieces: list[NDArray[np.float32]] = []
        for sentence in self._sentences(text):
            pieces += [pause, self._speak(sentence, speaker_id, speed)] if pieces else [self._speak(sentence, speaker_id, speed)]
        return np.concatenate(pieces)

    def synthesize(
        self, tokens: NDArray[np.integer], lengths: NDArray[np.integer], speaker: NDArray[np.integer], speed: NDArray[np.floating]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Speak a batch of phoneme ids: tokens (B, N, 3), lengths, speaker and speed (B,).

        Returns samples float32 (B, S) in -1..1, zero past each end, and their lengths int64 (B,).
        """
        states, ends = self.runtime.encode(
            tokens.astype(np.int64), lengths.astype(np.int64), speaker.astype(np.int64), speed.astype(np.float32)
        )
        frames = ends[:, -1]
        mel = self.runtime.decode(states, ends, np.arange(frames.max()))
        spoken = np.clip(self.runtime.vocode(mel, frames), -1.0, 1.0)
        sample_lengths = frames * self.description.audio.hop
        # The last windows reach past an utterance's end.
        return np.where(np.arange(spoken.shape[1]) < sample_lengths[:, None], spoken, np.float32(0.0)), sample_lengths

    def _speak(self, sentence: SpokenText, speaker_id: int, speed: float) -> NDArray[np.float32]:
        tokens = self.symbols.encode(sentence.phonemes)
        samples, _ = self.synthesize(tokens[None], np.array([len(tokens)]), np.array([speaker_id]), np.array([speed], np.float32))
        return samples[0]

    def _sentences(self, text: str) -> list[SpokenText]:
        if not text.strip():
            raise SonorantError("the text is empty; give at least one word")
        if len(text) > LONGEST_TEXT:
            raise SonorantError(f"the text has {len(text)} characters, at most {LONGEST_TEXT} are spoken at once; split it")
        sentences = self.frontend.sentences(text)
        if not sentences:
            shown = text if len(text) <= 40 else text[:40] + "..."
            raise SonorantError(f"nothing in the text can be spoken in {self.description.frontend.language}: {shown!r}")
        unknown = dict.fromkeys(character for sentence in sentences for character in sentence.unknown)
        if unknown:
            _log.warning(
                "left out what cannot be spoken: %s", " ".join(ascii(character)[1:-1] + f" ({character})" for character in unknown)
            )
        return sentences

    def _speaker_id(self, speaker: str | None) -> int:
        if speaker is None:
            return 0
        if speaker not in self.speakers:
            raise SonorantError(f"no speaker '{speaker}'; the voice has: {', '.join(self.speakers)}")
        return self.speakers.index(speaker)
