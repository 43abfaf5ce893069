"""A recording becomes the codes that a voice of the family codec_lm goes on from. Knows nothing of what is said after them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sonorant.errors import SonorantError
from sonorant.runtime.bundle import Bundle


def codes_of(recording: Path, bundle: Bundle) -> NDArray[np.int64]:
    """The codes (P, G) of as much of a recording's beginning as the voice takes.

    Raises SonorantError if the voice takes no references, or naming the file that cannot be read, is too short or holds no numbers.
    """
    from sonorant.audio.wav import read_audio
    from sonorant.runtime.onnx import open_session

    decoding, audio = bundle.description.decoding, bundle.description.audio
    if decoding is None or not decoding.prompt_frames:
        raise SonorantError(f"{recording}: this voice was trained without references (prompt_frames 0); leave out the prompt")
    graph = bundle.reference_file()
    if graph is None:
        raise SonorantError(
            f"{recording}: this voice's codec comes from elsewhere, without a graph for recordings; leave out the prompt"
        )
    frame = decoding.samples_per_frame
    enough = -(-audio.n_fft // frame)  # the graph mirrors half a window at both ends
    samples, _ = read_audio(recording, audio.sample_rate)
    frames = min(len(samples) // frame, decoding.prompt_frames + enough)
    if frames < enough:
        raise SonorantError(f"{recording}: too short for a prompt; give at least {enough * frame / audio.sample_rate:.2f} seconds")
    if not np.isfinite(samples).all():
        raise SonorantError(f"{recording}: holds NaN or infinity; record it again")
    heard = samples[: frames * frame].reshape(1, frames, frame)
    codes: NDArray[np.int64] = open_session(graph, 1).run(["codes"], {"samples": heard})[0][0]
    return codes[: decoding.prompt_frames]
