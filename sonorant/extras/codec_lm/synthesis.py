"""Synthesis of the family codec_lm: the language model produces codes frame by frame, which the codec decodes."""

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path

import numpy as np

from sonorant.audio.arrays import Floats, Ints
from sonorant.audio.pitch import ROWS, track_pitch
from sonorant.errors import SonorantError, needing
from sonorant.extras.codec_lm.decoding.attempts import check_candidates, decode_texts
from sonorant.extras.codec_lm.decoding.session import Prompt, Session, Stepper, TokenRuntime
from sonorant.extras.codec_lm.sounding import Sounding, decoding_of, has_source
from sonorant.files import parse_checked
from sonorant.speech.bundle import Bundle, VoiceDescription
from sonorant.speech.decoding import DecodingConfig, DecodingDescription
from sonorant.speech.request import Allowance, SpeechRequest
from sonorant.speech.speaking import FinishReason, Marking, Synthesized
from sonorant.speech.word_times import Timekeeper

PART_SECONDS = (0.25, 0.75, 1.0)
"""Duration in seconds of a stream's first parts; the last value repeats. Each part plays for longer than the next takes
to compute."""
BATCH_FRAMES = 4096
"""Number of code frames decoded at a time, summed over rows."""
MOST_CANDIDATES = 16
LARGEST_SEED = 2**63 - 1
OWN_WAY = "this voice speaks at its own pace (family codec_lm); leave out speed, pitch and energy"
NO_PROMPTS = "this voice was trained without prompts (prompt_frames 0); leave out the prompt"


@dataclass(frozen=True)
class CodecLmSpeaking:
    """Synthesis with a voice of the family codec_lm. Not thread-safe."""

    runtime: TokenRuntime
    description: VoiceDescription

    @property
    def decoding(self) -> DecodingDescription:
        return decoding_of(self.description)

    @property
    def sounding(self) -> Sounding:
        return Sounding(self.runtime, self.description)

    @cached_property
    def _stepper(self) -> Stepper:
        return self.runtime.stepper()

    def check(self, request: SpeechRequest) -> None:
        """Raise SonorantError for a speed other than 1, changed pitch or energy, or unsupported settings."""
        config = self._config(request)
        if request.speed != 1 or request.pitch or request.energy:
            raise SonorantError(OWN_WAY)
        if not 0 <= (request.seed or 0) <= LARGEST_SEED:
            raise SonorantError(f"seed must be 0 to {LARGEST_SEED}, not {request.seed}")
        if not 1 <= request.candidates <= MOST_CANDIDATES:
            raise SonorantError(f"candidates must be 1 to {MOST_CANDIDATES}, not {request.candidates}")
        check_candidates(config, request.seed or 0, request.candidates)
        if request.candidates > 1 and not request.whole:
            raise SonorantError(
                "more than one candidate requires whole-sentence decoding; set whole to true or candidates to 1"
            )
        if request.lookahead is not None and request.lookahead < 0:
            raise SonorantError(f"lookahead must be at least 0 code frames, not {request.lookahead}")
        if request.lookahead is not None and request.whole:
            raise SonorantError("whole-sentence decoding has no lookahead; leave out lookahead or set whole to false")
        if request.prompt is not None:
            self._check_prompt(request.prompt)

    def _config(self, request: SpeechRequest) -> DecodingConfig:
        return parse_checked({**asdict(self.decoding.defaults), **request.decoding}, DecodingConfig, Path("decoding"))

    def _check_prompt(self, prompt_PG: Ints) -> None:
        most, codebooks, codes = self.decoding.prompt_frames, self.decoding.codebooks, self.decoding.codes
        if not most:
            raise SonorantError(NO_PROMPTS)
        if prompt_PG.ndim != 2 or prompt_PG.shape[1] != codebooks or not 0 < len(prompt_PG) <= most:
            raise SonorantError(
                f"a prompt must have 1 to {most} code frames of {codebooks} codes each, not the shape {prompt_PG.shape}"
            )
        if prompt_PG.dtype.kind not in "iu":
            raise SonorantError(f"a prompt's codes must be integers, not {prompt_PG.dtype}")
        if not 0 <= prompt_PG.min() <= prompt_PG.max() < codes:
            raise SonorantError(
                f"a prompt's codes must be 0 to {codes - 1}, not {prompt_PG.min()} to {prompt_PG.max()}"
            )

    def synthesize(self, tokens: Ints, lengths: Ints, speaker: Ints, speed: Floats) -> Synthesized:
        """Synthesise with the voice's defaults. Raises SonorantError if a speed is not 1."""
        if (speed != 1).any():
            raise SonorantError(OWN_WAY)
        states = self.runtime.encode(tokens, lengths, speaker)
        spoken = decode_texts(self._stepper, states, lengths, self.decoding, self.decoding.defaults)
        size = max(1, BATCH_FRAMES // len(lengths))
        samples = self.sounding.whole(spoken.codes_BFG, spoken.lengths_B, size)
        frame = self.decoding.samples_per_frame
        ends = np.full(tokens.shape[:2], -1, np.int64)
        for row, count in enumerate(lengths):
            told = token_ends(spoken.pointers_BF[row, : spoken.lengths_B[row]], count, over=not spoken.cut_B[row])
            ends[row, : len(told)] = told * frame
        return Synthesized(samples, spoken.lengths_B * frame, spoken.finish_reasons_B, spoken.attempts_B, ends)

    def parts(
        self,
        tokens: Ints,
        request: SpeechRequest,
        taken: Allowance,
        *,
        speaker: int,
        first: bool,
        marking: Marking | None = None,
        times: Timekeeper | None = None,
    ) -> Generator[Floats, None, FinishReason]:
        lengths, most = np.array([len(tokens)]), max(1, taken.limits.frames // self.decoding.stride)
        states = self.runtime.encode(tokens[None], lengths, np.array([speaker]))
        config, seed, prompt = self._config(request), request.seed or 0, None
        if request.prompt is not None:  # token stores hold int16
            prompt = Prompt(request.prompt[None].astype(np.int64), np.array([len(request.prompt)]))
        if request.whole:
            spoken = decode_texts(
                self._stepper,
                states,
                lengths,
                self.decoding,
                config,
                seed=seed,
                candidates=request.candidates,
                prompt=prompt,
            )
            if times:
                ends = token_ends(spoken.pointers_BF[0], len(tokens), over=not spoken.cut_B[0])
                times.tell(ends * self.decoding.samples_per_frame)
            yield from self._sound([spoken.codes_BFG], (most,), None, taken)
            return FinishReason(int(spoken.finish_reasons_B[0]))
        first_of_speak = (seed, 0, 0)  # as in `decode_texts`, so both give the same codes if no retry is needed
        # A separate stepper, freed when the generator is closed.
        session = Session(self.runtime.stepper(), states, lengths, self.decoding, config, [first_of_speak], prompt)
        sizes = [
            min(most, math.ceil(seconds * self.decoding.frames_per_second))
            for seconds in PART_SECONDS[0 if first else -1 :]
        ]
        full, least = self.sounding.lookahead, self.sounding.least_lookahead
        after = full
        if first and request.lookahead is not None:
            after = max(least, min(full, request.lookahead))
        blocks = [sizes[0] + after, *(sizes[1:] or sizes)]
        if first:  # lookahead that the first part skipped
            blocks[1] += full - after
        codes = self._decoded(session, blocks, len(tokens), times)
        yield from self._sound(codes, sizes, after, taken)
        return FinishReason(int(session.finish_reasons_B[0]))

    def _decoded(self, session: Session, sizes: Sequence[int], tokens: int, times: Timekeeper | None) -> Iterator[Ints]:
        """Yield a session's codes in blocks. `times` receives each block's token ends before the block is yielded."""
        for size in chain(sizes, repeat(sizes[-1])):
            if session.ended:
                return
            block = session.more(size)
            if times:
                ended = bool(session.lengths_B[0] >= 0 and not session.cut_B[0])
                times.tell(token_ends(session.pointers(0), tokens, over=ended) * self.decoding.samples_per_frame)
            yield block

    def _sound(
        self, codes: Iterable[Ints], sizes: Sequence[int], first_after: int | None, taken: Allowance
    ) -> Iterator[Floats]:
        for samples in self.sounding.parts(codes, None, sizes, first_after):
            taken.take_audio(samples.shape[1] / self.description.audio.sample_rate)
            yield samples[0]


def token_ends(pointers_F: Ints, tokens: int, *, over: bool) -> Ints:
    """Return the end of each finished token (k,) as an exclusive frame index. `pointers_F`: token of each frame so far,
    never decreasing; `over`: whether all tokens are finished. A skipped token has no frames."""
    count = tokens if over else int(pointers_F[-1]) if len(pointers_F) else 0
    return np.searchsorted(pointers_F, np.arange(count), side="right").astype(np.int64)


def codes_of(recording: Path, bundle: Bundle) -> Ints:
    """Encode the beginning of a recording, up to the voice's maximum, as codes (P, G). Raises SonorantError if the
    voice accepts no prompts, or the file is unreadable, too short or not finite."""
    from sonorant.audio.wav import read_audio
    from sonorant.speech.onnx_sessions import open_session

    decoding, audio = bundle.description.decoding, bundle.description.audio
    if decoding is None or not decoding.prompt_frames:
        raise SonorantError(f"{recording}: {NO_PROMPTS}")
    graph = bundle.reference_file()
    if graph is None:
        raise SonorantError(
            f"{recording}: this voice's pretrained codec has no graph that encodes recordings; leave out the prompt"
        )
    frame = decoding.samples_per_frame
    enough = -(-audio.n_fft // frame)  # half a window is mirrored at both ends
    samples, _ = read_audio(recording, audio.sample_rate)
    frames = min(len(samples) // frame, decoding.prompt_frames + enough)
    if frames < enough:
        raise SonorantError(
            f"{recording}: too short for a prompt; give at least {enough * frame / audio.sample_rate:.2f} seconds"
        )
    if not np.isfinite(samples).all():
        raise SonorantError(f"{recording}: contains NaN or infinity; record it again")
    heard = samples[: frames * frame]
    inputs: dict[str, Floats] = {"samples": heard.reshape(1, frames, frame)}
    if has_source(bundle.description):
        with needing("pipeline", f"{recording}: a prompt for this voice"):
            pitch = track_pitch(heard, audio.sample_rate, audio.hop, frames * decoding.stride)
        inputs["pitch"] = pitch.reshape(1, frames, decoding.stride, ROWS)
    codes: Ints = open_session(graph, 1).run(["codes"], inputs)[0][0]
    return codes[: decoding.prompt_frames]
