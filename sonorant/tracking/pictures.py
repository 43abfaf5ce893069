"""Pictures of a validation sample: its mel spectrograms and its alignment. Knows nothing of MLflow."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np


def draw_sample(sample: Path, out: Path) -> None:
    """Draw what the folder `sample` holds into `out`: `mel.npz` (target and predicted, (M, T) log-mel) becomes `mel.png`,
    `alignment.npz` (alignment, (T, N) or (N, T)) becomes `alignment.png`. What is absent or damaged is left out."""
    mels = {name: mel for name, mel in _arrays(sample / "mel.npz").items() if name in ("target", "predicted")}
    _draw(mels, "frame", "mel bin", out / "mel.png")
    _draw(_arrays(sample / "alignment.npz"), "frame", "phoneme", out / "alignment.png")


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: np.squeeze(file[name]) for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile):
        return {}
    return {name: array.astype(np.float32) for name, array in arrays.items() if array.ndim == 2}


def _draw(arrays: dict[str, np.ndarray], across: str, up: str, out: Path) -> None:
    if not arrays:
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # without pyplot: that one is not safe in a thread
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.6 * len(arrays)), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    for axis, (name, array) in zip(figure.subplots(len(arrays), squeeze=False)[:, 0], arrays.items(), strict=True):
        image = axis.imshow(array, origin="lower", aspect="auto", interpolation="none")
        axis.set(title=name, xlabel=across, ylabel=up)
        figure.colorbar(image, ax=axis)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)
