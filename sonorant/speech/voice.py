"""A voice, which converts text to samples."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Integers, Ints
from sonorant.errors import SonorantError
from sonorant.plugins import load_family
from sonorant.speech.bundle import Bundle, VoiceDescription, read_bundle
from sonorant.speech.request import Limits, SpeechRequest
from sonorant.speech.runtimes import LoadOptions, load_runtime
from sonorant.speech.speaking import Speaking, Synthesized, no_decoding
from sonorant.speech.streaming import Speech
from sonorant.speech.word_times import WordTiming
from sonorant.text import Frontend, SymbolTable, load_frontend
from sonorant.text.arriving import Fragment
from sonorant.text.user_lexicon import Lexicon

AT_ONCE = Limits(
    characters=50_000, audio_seconds=10_800.0, remedy="split the text, or stream it (say --stream, Voice.stream)"
)
"""Default limits of `say`: about an hour of speech in memory."""

_log = logging.getLogger(__name__)


class Voice:
    """A bundle and a runtime for its graphs; see `Voice.load`."""

    def __init__(self, bundle: Bundle, runtime: Any) -> None:
        self.bundle = bundle
        self.runtime = runtime

    @classmethod
    def load(
        cls, bundle: Path | str, runtime: str = "onnxruntime", threads: int | None = None, **options: Any
    ) -> Voice:
        """Load the voice bundle in a folder.

        `runtime`: a name of `sonorant.speech.runtimes.all_runtimes`. `options`: the other fields of `LoadOptions`, such
        as `variant`. Raises SonorantError as `read_bundle` and `load_runtime` do.
        """
        read = read_bundle(Path(bundle))
        return cls(read, load_runtime(runtime, read, LoadOptions(threads=threads, **options)))

    @property
    def description(self) -> VoiceDescription:
        return self.bundle.description

    @property
    def sample_rate(self) -> int:
        return self.description.audio.sample_rate

    @property
    def speakers(self) -> tuple[str, ...]:
        return self.description.speakers

    def speaker_id(self, name: str | None) -> int:
        """Return the id of a speaker; None means the first. Raises SonorantError listing the speakers if the name is
        unknown."""
        if name is None:
            return 0
        if name not in self.speakers:
            raise SonorantError(f"no speaker '{name}'; the voice has: {', '.join(self.speakers)}")
        return self.speakers.index(name)

    @property
    def speaking(self) -> Speaking:
        """New synthesiser of the voice's family, not thread-safe."""
        return load_family(self.description.family).speaking(self.bundle, self.runtime)

    @property
    def why_untimed(self) -> str:
        """Reason why the voice has no word timings; empty if it has them."""
        return load_family(self.description.family).why_untimed(self.description)

    @cached_property
    def symbols(self) -> SymbolTable:
        return SymbolTable(self.description.symbols)

    @cached_property
    def frontend(self) -> Frontend:
        """Text frontend of the voice; loading it takes a second."""
        settings = self.description.frontend
        frontend = load_frontend(settings.name, settings.language, lexicon=self.bundle.read_lexicon())
        if frontend.version != settings.version:
            _log.warning(
                "the voice was trained with frontend '%s', but '%s' is installed: words may sound different",
                settings.version,
                frontend.version,
            )
        return frontend

    def frontend_with(self, words: Mapping[str, str]) -> Frontend:
        """Return the frontend with words that override its lexicon. Raises SonorantError if a word has unknown
        phonemes."""
        own = self.frontend
        entries = {**(own.lexicon.entries if own.lexicon else {}), **words}
        lexicon = Lexicon(self.description.frontend.language, entries, own.symbols)
        frontend = object.__new__(type(own))  # copy.copy would load the frontend again
        frontend.__dict__.update(own.__dict__, lexicon=lexicon)
        return frontend

    def prompt(self, recording: Path) -> Ints:
        """Return the codes (P, G) of the start of a recording, which `say` can continue. Raises SonorantError if the
        voice does not support prompts, or the recording is unreadable or too short."""
        if self.description.decoding is None:
            raise no_decoding(self.description.family)
        return load_family(self.description.family).prompt(recording, self.bundle)

    def speak(self, request: SpeechRequest) -> Speech:
        """Speak a request, in chunks computed on demand. Raises SonorantError immediately for unsupported settings, and
        for text that cannot be spoken once it is reached."""
        return Speech(self, request)

    def say(self, text: str, speaker: str | None = None, speed: float = 1.0, **settings: Any) -> Floats:
        """Speak a text, sentence by sentence, and return samples float32 (S,) in -1..1.

        `settings`: the other fields of `SpeechRequest`; the default limits are `AT_ONCE`. Characters that cannot be
        spoken are omitted with a warning in the log. Raises SonorantError as `speak` does.
        """
        return np.concatenate(list(self.stream(text, speaker, speed, **{"limits": AT_ONCE, "whole": True, **settings})))

    def say_timed(
        self, text: str, speaker: str | None = None, speed: float = 1.0, **settings: Any
    ) -> tuple[Floats, tuple[WordTiming, ...]]:
        """Speak a text as `say` does, and also return the time of each word spoken. Also raises SonorantError if the
        voice has no timings (`why_untimed`)."""
        how = {"limits": AT_ONCE, "whole": True, "timings": True, **settings}
        speech = self.stream(text, speaker, speed, **how)
        chunks = [(samples, speech.completed) for samples in speech]
        return np.concatenate([samples for samples, _ in chunks]), tuple(word for _, words in chunks for word in words)

    def stream(
        self, text: str | Iterable[Fragment], speaker: str | None = None, speed: float = 1.0, **settings: Any
    ) -> Speech:
        """Speak a text of any length, in chunks; `settings`: the other fields of `SpeechRequest`.

        The samples equal those of `say` up to rounding (1e-6 of full scale in fp32), unless a sentence fails
        (`Speech.finish_reasons`), because streams cannot retry. A phrase is spoken as soon as its end is certain; SSML
        and text in double brackets are read completely first. Exceptions raised by the text's source are passed on.
        """
        return self.speak(SpeechRequest(text=text, speaker=speaker, speed=speed, **settings))

    def synthesize(
        self, tokens: Integers, lengths: Integers, speaker: Integers, speed: NDArray[np.floating]
    ) -> Synthesized:
        """Speak a batch of phoneme ids: tokens (B, N, 3), lengths, speaker and speed (B,). Raises SonorantError for a
        speed that the voice does not support."""
        ids, rows, said_by = (values.astype(np.int64) for values in (tokens, lengths, speaker))
        made = self.speaking.synthesize(ids, rows, said_by, speed.astype(np.float32))
        # The last windows extend past an utterance's end.
        spoken = np.arange(made.samples.shape[1]) < made.lengths[:, None]
        samples = np.where(spoken, np.clip(made.samples, -1.0, 1.0), np.float32(0.0))
        return dataclasses.replace(made, samples=samples)
