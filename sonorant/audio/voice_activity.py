"""Voice activity detection: Silero VAD locates speech to within 32 ms, and signal energy refines its edges to 5 ms.

The network (package silero-vad, version 6, MIT) is late at soft onsets and early at a final /s/ or /f/.
"""

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Doubles, Floats
from sonorant.audio.wav import resample
from sonorant.errors import SonorantError, install

RATE = 16_000
"""Sample rate of the network's input in Hz."""
BLOCK = 512
"""Number of samples per probability of speech."""
BLOCK_SECONDS = BLOCK / RATE
SPEAKING = 0.5
"""Minimum probability at which speech starts."""
SHORTEST_PAUSE = 0.1
"""Minimum seconds of a pause; a shorter one is part of the speech."""
Span = tuple[float, float]
"""Start and end in seconds."""

_LEAVE = 0.35  # probability below which speech ends
_SHORTEST_SPEECH = 0.09  # seconds; shorter speech is a click or a knock
_CONTEXT = 64  # samples of the previous block in the network's input
_BLOCKS_AT_ONCE = 1024
_FRAME, _STEP = 160, 80  # window and step of an energy in samples at `RATE`: 10 and 5 ms
_STEP_SECONDS = _STEP / RATE
_BANDS = ((150.0, 2000.0), (2000.0, 8000.0))  # Hz, above hum: voices and stops; fricatives
_REACH = 0.3  # maximum seconds to move an edge outwards: the longest final /s/
_INWARDS = 0.064  # maximum seconds to move an edge inwards
_CLOSURE = 0.1  # seconds: a stop's closure
_SHORTEST = 3  # consecutive steps with energy; fewer are a click
_ABOVE_NOISE_DB = 6.0
_BELOW_SPEECH_DB = 50.0


def speech_probability(samples: Floats, rate: int) -> Floats:
    """Return the probability of speech, float32 (F,), for every 32 ms of samples (S,) at `rate` Hz. Raises
    SonorantError if the package silero-vad is missing."""
    heard = resample(samples, rate, RATE)
    blocks = np.pad(heard, (0, -len(heard) % BLOCK)).reshape(-1, BLOCK)
    contexts = np.zeros((len(blocks), _CONTEXT), dtype=np.float32)
    contexts[1:] = blocks[:-1, -_CONTEXT:]
    frames = np.concatenate([contexts, blocks], axis=1)
    hidden = cell = np.zeros((1, 1, 128), dtype=np.float32)
    found: list[Floats] = [np.zeros(0, dtype=np.float32)]
    for first in range(0, len(frames), _BLOCKS_AT_ONCE):
        inputs = {"input": frames[first : first + _BLOCKS_AT_ONCE], "h": hidden, "c": cell}
        probability, hidden, cell = _network().run(["speech_probs", "hn", "cn"], inputs)
        found.append(probability.reshape(-1))
    return np.concatenate(found)


@cache
def _network() -> Any:
    import onnxruntime

    package = importlib.util.find_spec("silero_vad")
    if package is None or not package.submodule_search_locations:
        raise SonorantError(f"voice activity: silero-vad is not installed; run: {install('pipeline')}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # recordings are distributed over processes
    # Use only the file, because importing the package would import torch.
    path = Path(package.submodule_search_locations[0]) / "data/silero_vad_16k_sequence.onnx"
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def speech_spans(probability: Floats, shortest_pause: float = SHORTEST_PAUSE) -> list[Span]:
    """Return the spans of speech, in order, from probabilities (F,) of 32 ms blocks. `shortest_pause`: seconds."""
    found: list[Span] = []
    start: int | None = None
    for place, value in enumerate([*probability.tolist(), 0.0]):
        if start is None and value >= SPEAKING:
            start = place
        elif start is not None and value < _LEAVE:
            found.append((start * BLOCK_SECONDS, place * BLOCK_SECONDS))
            start = None
    joined = _join(found, shortest_pause)
    return [(start, end) for start, end in joined if end - start >= _SHORTEST_SPEECH]


def _join(spans: list[Span], shortest_pause: float) -> list[Span]:
    joined: list[Span] = []
    for start, end in spans:
        if joined and start - joined[-1][1] < shortest_pause:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def locate_speech(samples: Floats, rate: int, probability: Floats) -> list[Span]:
    """Return the spans of speech, exact to 5 ms, in samples (S,) at `rate` Hz. An edge is moved to the outermost energy
    above the noise floor, across silences no longer than the closure of a stop consonant."""
    spans = speech_spans(probability)
    if not spans:
        return []
    seconds = len(samples) / rate
    active = _active(samples, rate, probability)
    befores = [0.0, *(end for _, end in spans[:-1])]
    afters = [*(start for start, _ in spans[1:]), seconds]
    refined = []
    for (start, end), before, after in zip(spans, befores, afters, strict=True):
        first, last = _steps(max(before, start - _REACH), min(start + _INWARDS, end), active)
        outermost = _outermost(active[first:last][::-1])
        own_start = start if outermost is None else (last - 1 - outermost) * _STEP_SECONDS
        first, last = _steps(max(end - _INWARDS, start), min(after, end + _REACH), active)
        outermost = _outermost(active[first:last])
        own_end = end if outermost is None else (first + outermost) * _STEP_SECONDS + _FRAME / RATE
        refined.append((own_start, min(own_end, seconds)))
    return _join(refined, SHORTEST_PAUSE)


def _steps(earliest: float, latest: float, active: NDArray[np.bool_]) -> tuple[int, int]:
    return round(earliest / _STEP_SECONDS), min(round(latest / _STEP_SECONDS), len(active))


def _outermost(active: NDArray[np.bool_]) -> int | None:
    outermost, quiet = None, 0
    for place, sounding in enumerate(active.tolist()):
        quiet = 0 if sounding else quiet + 1
        if quiet * _STEP_SECONDS > _CLOSURE + _INWARDS:
            break
        if sounding:
            outermost = place
    return outermost


def _active(samples: Floats, rate: int, probability: Floats) -> NDArray[np.bool_]:
    """Return, for each 5 ms step, whether a band is above its noise floor, ignoring clicks."""
    energy_TB = _band_energies(samples, rate)
    blocks = np.minimum(np.arange(len(energy_TB)) * _STEP // BLOCK, len(probability) - 1)
    speaking, quiet = probability[blocks] >= SPEAKING, ~_near_speech(probability)[blocks]
    limits_B = []
    for energy_T in energy_TB.T:
        floor = np.median(energy_T[quiet]) if quiet.sum() >= 20 else np.percentile(energy_T, 5)
        speech = np.percentile(energy_T[speaking], 90) if speaking.any() else energy_T.max(initial=-120.0)
        limits_B.append(max(float(floor) + _ABOVE_NOISE_DB, float(speech) - _BELOW_SPEECH_DB))
    above: NDArray[np.bool_] = np.any(energy_TB > np.array(limits_B), axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], above, [False]]).astype(np.int8)))
    for first, last in edges.reshape(-1, 2).tolist():
        if last - first < _SHORTEST:
            above[first:last] = False
    return above


def _near_speech(probability: Floats) -> NDArray[np.bool_]:
    speech = probability >= 0.15
    near = speech.copy()
    near[:-1] |= speech[1:]
    near[1:] |= speech[:-1]
    near[2:] |= speech[:-2]
    return near


def _band_energies(samples: Floats, rate: int) -> Doubles:
    """Return the energy in dB of full scale, at least -120, float64 (T, 2): below and above 2 kHz, per 5 ms step."""
    heard = resample(samples, rate, RATE)
    count = max((len(heard) - _FRAME) // _STEP + 1, 0)
    if count == 0:
        return np.zeros((0, len(_BANDS)))
    frames_TS = np.lib.stride_tricks.sliding_window_view(heard, _FRAME)[::_STEP] * np.hanning(_FRAME).astype(np.float32)
    power_TF = np.square(np.abs(np.fft.rfft(frames_TS, axis=1)))
    frequencies = np.fft.rfftfreq(_FRAME, 1 / RATE)
    bands = [power_TF[:, (frequencies >= low) & (frequencies < high)].sum(axis=1) for low, high in _BANDS]
    scale = 2 / (np.square(np.hanning(_FRAME)).sum() * _FRAME)
    return 10 * np.log10(np.maximum(np.stack(bands, axis=1) * scale, 1e-12))
