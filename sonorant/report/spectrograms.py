"""Mel spectrograms as pictures. Knows nothing of who speaks."""

from __future__ import annotations

import base64
import io

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.audio.mel import FLOOR, MelConfig, log_mel
from sonorant.report.markup import Html, element

QUIETEST, LOUDEST = float(np.log(FLOOR)), 1.0
"""Ends of the colours, natural log of the magnitude: one scale for all pictures, so that they can be compared."""


def spectrogram(samples: NDArray[np.float32], audio: MelConfig, said: str, width: float = 1.0) -> Html:
    """The log-mel of samples (S,) as an image: time to the right, mel bins upwards, a pixel a frame.

    `said`: what it shows, in words. `width`: share of the place for it, so that pictures of unequal length keep one
    scale of time.
    """
    mel_MT = log_mel(torch.from_numpy(samples), audio).numpy()
    data = base64.b64encode(_png(mel_MT)).decode("ascii")
    return element(
        "img", alt=said, src=f"data:image/png;base64,{data}", class_="mel", style=f"width:{100 * width:.1f}%"
    )


def _png(mel_MT: NDArray[np.float32]) -> bytes:
    """PNG of 256 colours, the same bytes each time."""
    from matplotlib import colormaps
    from PIL import Image

    levels = np.clip((mel_MT[::-1] - QUIETEST) / (LOUDEST - QUIETEST) * 255, 0, 255)
    picture = Image.fromarray(np.rint(levels).astype(np.uint8))
    picture = picture.convert("P")
    picture.putpalette((colormaps["magma"](np.arange(256))[:, :3] * 255).astype(np.uint8).tobytes())
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
