"""A voice that speaks: text in, samples out."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Integers, Ints
from sonorant.errors import SonorantError
from sonorant.plugins import load_family
from sonorant.speech.bundle import Bundle, VoiceDescription, read_bundle
from sonorant.speech.decoding.settings import DecodingConfig
from sonorant.speech.runtimes import LoadOptions, load_runtime
from sonorant.speech.speaking import Limits, Manner, Speaking, Synthesized, no_decoding
from sonorant.speech.streaming import CHUNK, Speech
from sonorant.speech.word_times import WordTiming
from sonorant.text import Frontend, SymbolTable, load_frontend
from sonorant.text.arriving import Fragment

AT_ONCE = Limits(characters=50_000, audio_seconds=10_800.0)
"""What `say` takes, which returns all samples in memory: about an hour of speech."""

_log = logging.getLogger(__name__)


class Voice:
    """A bundle and a runtime for its graphs."""

    def __init__(self, bundle: Bundle, runtime: Any) -> None:
        """Compose a voice; `Voice.load` is the usual way. `runtime`: of the interface of the bundle's family."""
        self.bundle = bundle
        self.runtime = runtime

    @classmethod
    def load(
        cls, bundle: Path | str, runtime: str = "onnxruntime", threads: int | None = None, **options: Any
    ) -> Voice:
        """Load the voice bundle in a folder.

        `runtime`: a key of `sonorant.speech.runtimes.RUNTIMES`. `threads`: inside an operator, None = one a physical
        core. `options`: the other fields of `LoadOptions`, such as `variant` or `trained`. Raises SonorantError if the
        bundle is absent, damaged or of another schema version, or the runtime is not known.
        """
        read = read_bundle(Path(bundle))
        return cls(read, load_runtime(runtime, read, LoadOptions(threads=threads, **options)))

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
        """How the family of the voice makes speech of phonemes; something new each time, for one thread at a time."""
        return load_family(self.description.family).speaking(self.bundle, self.runtime)

    @property
    def why_untimed(self) -> str:
        """Why the voice does not tell when its words are spoken; empty where it does."""
        return load_family(self.description.family).why_untimed(self.description)

    @cached_property
    def symbols(self) -> SymbolTable:
        """Phonemes to ids."""
        return SymbolTable(self.description.symbols)

    @cached_property
    def frontend(self) -> Frontend:
        """The text frontend that the voice learned with; loaded at first use, because it takes a second."""
        settings = self.description.frontend
        frontend = load_frontend(settings.name, settings.language, lexicon=self.bundle.read_lexicon())
        if frontend.version != settings.version:
            _log.warning(
                "the voice was trained with frontend '%s', here is '%s': words may sound different",
                settings.version,
                frontend.version,
            )
        return frontend

    def decoding(
        self, *, temperature: float | None = None, top_k: int | None = None, top_p: float | None = None
    ) -> DecodingConfig | None:
        """The voice's own decoding with these changes; None if there are none. Raises SonorantError for values out of
        range, and for changes to a voice that decodes nothing."""
        asked = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        changes: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        if not changes:
            return None
        if self.description.decoding is None:
            raise no_decoding(self.description.family)
        try:
            return dataclasses.replace(self.description.decoding.defaults, **changes)
        except ValueError as error:
            raise SonorantError(str(error)) from None

    def prompt(self, recording: Path) -> Ints:
        """Codes (P, G) of a recording's beginning, for `say` to go on from. Raises SonorantError if the voice takes no
        prompts, or the recording cannot be read or is too short."""
        if self.description.decoding is None:
            raise no_decoding(self.description.family)
        return load_family(self.description.family).prompt(recording, self.bundle)

    def say(
        self,
        text: str,
        speaker: str | None = None,
        speed: float = 1.0,
        *,
        pitch: float = 0.0,
        energy: float = 0.0,
        limits: Limits = AT_ONCE,
        seed: int | None = None,
        decoding: DecodingConfig | None = None,
        candidates: int = 1,
        prompt: Ints | None = None,
        markup: bool = True,
    ) -> Floats:
        """Speak a text, sentence by sentence.

        Args:
            text: characters that cannot be spoken are left out with a warning in the log. It may be SSML, or hold
                phonemes and pauses between double brackets: docs/pronunciation.md.
            speaker: one of `speakers`; None = the first.
            speed: 2.0 is twice as fast; 0.5 to 2.0. A voice of the family codec_lm speaks at its own pace, 1.0.
            pitch: semitones higher, -12 to 12; the melody stays. 0 for voices that predict none, and codec_lm.
            energy: dB louder, -12 to 12, as a person who speaks up: the timbre changes with it. As pitch.
            limits: the most the text may take.
            seed: family codec_lm only, as all that follow: of the noise that codes are drawn with; None = 0. Each
                sentence begins with it, so it sounds the same wherever it stands.
            decoding: how codes are chosen; `self.decoding` makes one; None = the voice's own way.
            candidates: how often each sentence is spoken, for the best to be taken.
            prompt: codes (P, G) of a reference that the voice goes on from.
            markup: of any family: False speaks brackets and tags as ordinary characters.

        Returns samples float32 (S,) in -1..1 at `sample_rate`. Raises SonorantError if there is nothing to say, an
        argument is outside what is allowed, or a limit is reached.
        """
        how: dict[str, Any] = {
            "pitch": pitch,
            "energy": energy,
            "seed": seed,
            "decoding": decoding,
            "candidates": candidates,
            "prompt": prompt,
            "markup": markup,
        }
        return np.concatenate(list(self.stream(text, speaker, speed, limits=limits, whole=True, **how)))

    def say_timed(
        self, text: str, speaker: str | None = None, speed: float = 1.0, *, limits: Limits = AT_ONCE, **how: Any
    ) -> tuple[Floats, tuple[WordTiming, ...]]:
        """As `say`, with when each word is spoken; words that a runaway did not reach have no timing. Raises
        SonorantError also if the voice does not tell (`why_untimed`)."""
        speech = self.stream(text, speaker, speed, limits=limits, whole=True, timings=True, **how)
        told = [(samples, speech.completed) for samples in speech]
        return np.concatenate([samples for samples, _ in told]), tuple(word for _, words in told for word in words)

    def stream(
        self,
        text: str | Iterable[Fragment],
        speaker: str | None = None,
        speed: float = 1.0,
        *,
        pitch: float = 0.0,
        energy: float = 0.0,
        chunk: int = CHUNK,
        limits: Limits | None = None,
        whole: bool = False,
        seed: int | None = None,
        decoding: DecodingConfig | None = None,
        candidates: int = 1,
        prompt: Ints | None = None,
        lookahead: int | None = None,
        markup: bool = True,
        timings: bool = False,
    ) -> Speech:
        """What `say` returns, in chunks that are computed as they are asked for, from a text of any length.

        Args, beside those of `say`:
            text: a string, or strings that make the text when joined, such as a language model's tokens; they are
                asked for when speech needs them. An `ArrivingText` may be written by another thread.
            chunk: samples of each chunk but the last; of a text that comes in strings, of each but a phrase's last.
            limits: the most the text may take; None = `Limits()`.
            whole: give nothing of a sentence before all of it is decoded, as `say` does: bad attempts can be taken
                back, and candidates be compared; first speech comes later.
            candidates: more than 1 only if `whole`.
            timings: after each chunk, `Speech.completed` has the words that it completes, and when they are spoken.
            lookahead: family codec_lm only: code frames that the first part waits for behind its own; None = all that
                its samples depend on. Fewer come sooner and change the end of that part a little. A codec with a source
                waits for those that its pitch depends on in any case.

        The chunks differ from `say` by what a runtime rounds differently for another shape: about 1e-6 of full scale in
        fp32; and where a sentence went wrong, which `Speech.finish_reasons` tells: what was heard cannot be taken back.
        A phrase is spoken as soon as its end is certain, with the samples that it has in the whole text; SSML and what
        stands between double brackets are waited for. What the source of the text raises is raised here.
        Raises SonorantError as `say`, for the arguments at once and for the text when it is reached.
        """
        manner = Manner(
            speaker=self._speaker_id(speaker),
            speed=speed,
            pitch=pitch,
            energy=energy,
            whole=whole,
            seed=seed,
            decoding=decoding,
            candidates=candidates,
            prompt=prompt,
            lookahead=lookahead,
        )
        return Speech(self, text, manner=manner, limits=limits or Limits(), chunk=chunk, markup=markup, timings=timings)

    def synthesize(
        self,
        tokens: Integers,
        lengths: Integers,
        speaker: Integers,
        speed: NDArray[np.floating],
        pitch: NDArray[np.floating] | None = None,
        energy: NDArray[np.floating] | None = None,
    ) -> tuple[Floats, Ints]:
        """Speak a batch of phoneme ids: tokens (B, N, 3), lengths, speaker, speed, and pitch (semitones) and energy
        (dB) as of `say`, each (B,) -> samples float32 (B, S) in -1..1, zero past each end, and lengths int64 (B,).
        Raises SonorantError for a speed the voice does not have."""
        judged = self.synthesize_judged(tokens, lengths, speaker, speed, pitch, energy)
        return judged.samples, judged.lengths

    def synthesize_judged(
        self,
        tokens: Integers,
        lengths: Integers,
        speaker: Integers,
        speed: NDArray[np.floating],
        pitch: NDArray[np.floating] | None = None,
        energy: NDArray[np.floating] | None = None,
    ) -> Synthesized:
        """Speak a batch as `synthesize`, and tell how each row went: always well and at once in the family parallel."""
        # Only what is changed: a family of somebody else's may know of neither.
        given = {"pitch": pitch, "energy": energy}
        changes = {name: value.astype(np.float32) for name, value in given.items() if value is not None}
        made = self.speaking.synthesize(
            tokens.astype(np.int64),
            lengths.astype(np.int64),
            speaker.astype(np.int64),
            speed.astype(np.float32),
            **changes,
        )
        # The last windows reach past an utterance's end.
        spoken = np.arange(made.samples.shape[1]) < made.lengths[:, None]
        samples = np.where(spoken, np.clip(made.samples, -1.0, 1.0), np.float32(0.0))
        return dataclasses.replace(made, samples=samples)

    def _speaker_id(self, speaker: str | None) -> int:
        if speaker is None:
            return 0
        if speaker not in self.speakers:
            raise SonorantError(f"no speaker '{speaker}'; the voice has: {', '.join(self.speakers)}")
        return self.speakers.index(speaker)
