"""Decode a batch completely, with candidates and retries, and keep the best attempts."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Ints
from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.decoding.session import Prompt, Session, Stepper
from sonorant.speech.decoding import DecodingConfig, DecodingDescription
from sonorant.speech.speaking import FinishReason

BLOCK = 32
"""Number of frames between checks whether all rows have ended; a check may wait for a device."""
RETRY_TEMPERATURE = 0.7
"""Minimum temperature of a retry, because a greedy retry would repeat the fault."""


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """Codes of a batch of texts, and how each row ended."""

    codes_BFG: Ints
    """Codes, with silence past a row's end."""
    lengths_B: Ints
    """Code frames of each row."""
    pointers_BF: Ints
    """Phoneme index of each frame; -1 past a row's end."""
    finish_reasons_B: Ints
    """`FinishReason` of each kept attempt; all except `WELL` are failures."""
    cut_B: NDArray[np.bool_]
    """Whether the frame budget ended the kept attempt, so that text may be missing."""
    attempts_B: Ints
    """Number of attempts; 1 means no retry."""


class Attempt(NamedTuple):
    well: bool
    whole: bool
    """Whether the row ended within its frame budget."""
    log_probability: float
    finish_reason: int
    codes_FG: Ints
    pointers_F: Ints

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Sort key; larger is better."""
        return self.well, self.whole, self.log_probability


def decode_texts(
    stepper: Stepper,
    states_BNC: Floats,
    lengths_B: Ints,
    description: DecodingDescription,
    config: DecodingConfig,
    *,
    seed: int = 0,
    candidates: int = 1,
    prompt: Prompt | None = None,
) -> Spoken:
    """Decode a batch of texts completely. Rows are independent. A row whose best candidate did not end `WELL` is
    decoded again, up to `config.retries` times, with different noise, a temperature of at least `RETRY_TEMPERATURE` and
    the median rule. `states_BNC`, `lengths_B`, `prompt`: see `Session`; `candidates`: number of rows per text, each
    with different noise. Raises SonorantError as `check_candidates` does."""
    check_candidates(config, seed, candidates)
    best: list[Attempt | None] = [None] * len(lengths_B)
    attempts_B = np.zeros(len(lengths_B), np.int64)
    for number in range(config.retries + 1):
        texts = np.array([text for text, kept in enumerate(best) if not (kept and kept.well)], np.int64)
        if not len(texts):
            break
        attempts_B[texts] += 1
        rows = np.repeat(texts, candidates)
        keys = [(seed, candidate, number) for _ in texts for candidate in range(candidates)]
        row_prompt = Prompt(prompt.codes_BPG[rows], prompt.lengths_B[rows]) if prompt else None
        how = config if number == 0 else _otherwise(config)
        session = Session(stepper, states_BNC[rows], lengths_B[rows], description, how, keys, row_prompt)
        for text, attempt in zip(rows, _attempts(session), strict=True):
            kept = best[text]
            best[text] = max(kept, attempt, key=lambda one: one.rank) if kept else attempt
    return _spoken([attempt for attempt in best if attempt], attempts_B, description)


def check_candidates(config: DecodingConfig, seed: int, candidates: int) -> None:
    """Raise SonorantError if the seed is negative, or all candidates would be the same."""
    if seed < 0:
        raise SonorantError(f"seed must be at least 0, not {seed}")
    if candidates < 1:
        raise SonorantError(f"candidates must be at least 1, not {candidates}")
    if candidates > 1 and not config.varies:
        raise SonorantError(
            f"{candidates} candidates would all be the same, because temperature 0 or top_k 1 disables sampling; "
            "set temperature to 0.7, for example, and top_k to 0 or above 1"
        )


def _otherwise(config: DecodingConfig) -> DecodingConfig:
    top_k = 0 if config.top_k == 1 else config.top_k  # sampling from one code changes nothing
    return replace(config, temperature=max(RETRY_TEMPERATURE, config.temperature), top_k=top_k, advance="median")


def _attempts(session: Session) -> Iterator[Attempt]:
    blocks = []
    while not session.ended:
        blocks.append(session.more(BLOCK))
    codes_BFG = np.concatenate(blocks, axis=1) if blocks else session.more(0)
    for row, length in enumerate(session.lengths_B):
        reason = int(session.finish_reasons_B[row])
        yield Attempt(
            well=reason == FinishReason.WELL,
            whole=not session.cut_B[row],
            log_probability=float(session.log_probability_B[row]),
            finish_reason=reason,
            codes_FG=codes_BFG[row, :length],
            pointers_F=session.pointers(row),
        )


def _spoken(kept: list[Attempt], attempts_B: Ints, description: DecodingDescription) -> Spoken:
    lengths_B = np.array([len(attempt.codes_FG) for attempt in kept], np.int64)
    codes_BFG = np.tile(np.array(description.silence, np.int64), (len(kept), lengths_B.max(initial=0), 1))
    pointers_BF = np.full(codes_BFG.shape[:2], -1, np.int64)
    for row, attempt in enumerate(kept):
        codes_BFG[row, : lengths_B[row]] = attempt.codes_FG
        pointers_BF[row, : lengths_B[row]] = attempt.pointers_F
    return Spoken(
        codes_BFG=codes_BFG,
        lengths_B=lengths_B,
        pointers_BF=pointers_BF,
        finish_reasons_B=np.array([attempt.finish_reason for attempt in kept], np.int64),
        cut_B=np.array([not attempt.whole for attempt in kept], bool),
        attempts_B=attempts_B,
    )
