"""Does a GPU speak as the CPU does, and how fast? Part of `make gpu-check`.

Needs torch with CUDA, numpy and soundfile; ONNX Runtime's part also needs the packages of the export. Weights are
random, of two sizes. `--dry-run` runs on a CPU with tiny models and claims nothing.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.gpu_voices import ENGINES, REHEARSAL, SIZES, Answer, Size, describe, run_alone, write_model
from benchmarks.turns import CONTROL, figures, ratio, take_turns
from sonorant.audio.mel import MelConfig
from sonorant.errors import SonorantError
from sonorant.export.candidate import Expected
from sonorant.export.distances import batches
from sonorant.export.tolerance import Fault, Tolerance
from sonorant.families.parallel.parity_checks import Measured, check_chunks, check_padding, check_values, follow
from sonorant.families.parallel.synthesis import speak, vocoder_frames
from sonorant.speech.buckets import Bucketed
from sonorant.speech.bundle import Bundle, Lengths, ReceptiveField, read_bundle
from sonorant.speech.chunks import compute_chunks, decode_chunks
from sonorant.speech.runtimes import LoadOptions, Runtime, load_runtime, runtime_row

TOLERANCES = {
    "fp32": Tolerance(max_abs_diff=1e-3, relative_error=1e-4, log_mel_db=0.02, correlation=0.99),
    "fp16": Tolerance(max_abs_diff=0.1, relative_error=5e-3, log_mel_db=0.3, correlation=0.99, frames=(2.0, 0.02)),
    "bf16": Tolerance(max_abs_diff=0.5, relative_error=0.03, log_mel_db=1.5, correlation=0.95, frames=(2.0, 0.02)),
}
"""As in section `verify` of params.yaml, which takes packages to read that a GPU machine may lack."""
VOICE_LENGTHS = {
    "cuda": Lengths(tokens=(64, 64, 128, 128), frames=(256, 256, 1024, 1024)),
    "cpu": Lengths(tokens=(128,) * 4, frames=(1024,) * 4),
}
"""Two sizes per graph, one in a dry run, because each takes half a minute to compile."""
LADDER = (3, 17, 64, 128)
"""Numbers of tokens: the minimum, an odd number, the usual, the maximum."""
LENGTHS = {"short": (12,), "medium": (48,), "long": (128,), "paragraph": (48, 96, 64, 80, 120, 40)}
"""Number of tokens per sentence."""
TOGETHER = 8
"""Number of utterances in a batch."""
FIRST_PARTS = (32, 96, 256)
"""Numbers of frames, as in `Voice.stream`."""
LIMIT = 512
ON_GPU = {
    "torch-cuda": tuple(TOLERANCES),
    "torch-cuda-graphs": tuple(TOLERANCES),
    "onnxruntime-cuda": ("fp32", "fp16"),
    "torch-cuda-compiled": ("fp32", "bf16"),
}
ON_CPU = {"torch": ("fp32", "bf16"), "torch-compiled": ("fp32",), "onnxruntime": ("fp32",)}
BASELINE = {"cuda": "torch-cuda/fp32", "cpu": "torch/fp32"}
GRAPHS = "torch-cuda-graphs/fp32"
"""Must be faster than the baseline on short texts."""

Trained = tuple[Path, Path]


def engines(folder: Path, place: Path, device: torch.device) -> Answer:
    """Parity checks and the latency table of every runtime and precision of the device, by model size."""
    result: dict[str, Any] = {}
    for name, size in (SIZES if device.type == "cuda" else REHEARSAL).items():
        bundle, trained = write_voice(place / name, size, VOICE_LENGTHS[device.type])
        result[name] = _one_size(bundle, trained, device)
        print(json.dumps({name: result[name]}), file=sys.stderr)  # a run that is cut short keeps its results
    return result, not any(found["failed"] for found in result.values())


def write_voice(folder: Path, size: Size, lengths: Lengths) -> tuple[Bundle, Trained]:
    """Write a bundle of models of that size, and their trained folders.

    It has graphs if the packages of the export are installed.
    """
    torch.manual_seed(0)
    acoustic, vocoder = (write_model(folder, kind, size[kind]) for kind in ("acoustic", "vocoder"))
    sees = ReceptiveField(decoder=acoustic.receptive_field, vocoder=vocoder.receptive_field)  # type: ignore[arg-type]
    bundle = describe(folder, "parallel", sees, lengths, None)
    trained = (folder / "acoustic", folder / "vocoder")
    try:
        from sonorant.export.bundling import Sources, export_variants
        from sonorant.export.onnx_graph import ExportConfig
    except ModuleNotFoundError:
        return bundle, trained
    measured = [_tokens(count)[0] for count in LADDER]  # for the ranges of the 16-bit graphs
    export_variants(Sources(*trained, utterances=measured), bundle.folder, lengths, ExportConfig(opset=20))
    return read_bundle(bundle.folder), trained


def _one_size(bundle: Bundle, trained: Trained, device: torch.device) -> dict[str, Any]:
    found: dict[str, Any] = {"ladder": {}, "memory": {}, "spoken": {}, "first_audio": {}, "batch": {}}
    reference = load_runtime("torch", bundle, LoadOptions(trained=trained))
    runtimes: dict[str, Runtime] = {}
    for runtime, precisions in (ON_GPU if device.type == "cuda" else ON_CPU).items():
        for precision in precisions:
            candidate = f"{runtime}/{precision}"
            print(f"  {candidate}", file=sys.stderr, flush=True)
            before = _forget_peak()
            try:
                loaded = _load(runtime, precision, bundle, trained)
                found["ladder"][candidate] = _ladder(loaded, reference, bundle, precision)
            except (SonorantError, RuntimeError) as error:  # torch raises RuntimeError if a GPU refuses
                why = " ".join(str(error).split())[:300].replace(f"{bundle.folder}/", "")
                found["ladder"][candidate] = f"not run: {why}"
                continue
            runtimes[candidate] = loaded
            found["memory"][candidate] = _peak_mib(before)
    _latency(found, runtimes, bundle, BASELINE[device.type])
    found["failed"] = _failures(found, on_gpu=device.type == "cuda")
    return found


def _failures(found: dict[str, Any], *, on_gpu: bool) -> list[str]:
    """A line for each candidate that is wrong, too slow, or did not run although it must."""
    failed = []
    for candidate, row in found["ladder"].items():
        if isinstance(row, dict) and not row["passed"]:
            failed.append(f"{candidate}: {row['failed']}")
        # Runtimes of torch itself must run; ONNX Runtime's CUDA package may be absent.
        if isinstance(row, str) and candidate.startswith("torch-cuda"):
            failed.append(f"{candidate}: {row}")
    if not any(isinstance(row, dict) for row in found["ladder"].values()):
        failed.append("no candidate ran")
    graphs = found["spoken"]["short"].get(GRAPHS, {})
    if on_gpu and "speedup_ci95" in graphs and graphs["speedup_ci95"][0] <= 1.0:
        failed.append(f"{GRAPHS}: no faster than {BASELINE['cuda']}")
    return failed


def _load(runtime: str, precision: str, bundle: Bundle, trained: Trained) -> Runtime:
    if runtime_row(runtime).engine == "onnxruntime" and not bundle.description.graphs:
        raise SonorantError("the packages of the export (onnx, onnxscript) are not installed")
    # Compiling takes half a minute per shape, so only one utterance at a time is compiled.
    rows = (1,) if runtime.endswith("compiled") else (1, TOGETHER)
    options = LoadOptions(variant=precision, trained=trained, batches=rows, warm_up=True)
    return load_runtime(runtime, bundle, options)


def _ladder(runtime: Runtime, reference: Runtime, bundle: Bundle, precision: str) -> dict[str, Any]:
    """Values, padding and chunks against torch on the CPU, by the parity checks of the stage `verify`."""
    audio = MelConfig(**vars(bundle.description.audio))
    given = batches([_tokens(count)[0] for count in LADDER], 1)
    cases = [follow(reference, inputs, bundle.description) for inputs in given]
    measured = Measured(runtime, audio, TOLERANCES[precision])
    longest, sees = max(cases, key=lambda case: len(case.time)), bundle.description.receptive_field
    try:
        graphs = check_values(measured, Expected(reference, cases, "torch on the CPU"))
        padding = check_padding(measured, cases)
        parts = check_chunks(measured, longest, sees)
    except Fault as fault:
        return {"passed": False, "failed": str(fault)}
    largest = {graph: row["max_abs_diff"] for graph, row in graphs.items()}
    row: dict[str, Any] = {"passed": True, "max_abs_diff": largest, "padding": padding, "parts": parts}
    return row | ({"buckets": vars(runtime.counters())} if isinstance(runtime, Bucketed) else {})


def _latency(found: dict[str, Any], runtimes: dict[str, Runtime], bundle: Bundle, baseline: str) -> None:
    seconds_per_frame = bundle.description.audio.hop / bundle.description.audio.sample_rate
    for length, counts in LENGTHS.items():
        sentences = [_tokens(count) for count in counts]
        found["spoken"][length] = _cell(runtimes, partial(_speak, bundle, sentences), seconds_per_frame, baseline)
        found["first_audio"][length] = _cell(runtimes, partial(_first_audio, bundle, sentences[0]), None, baseline)
    batch = partial(_speak, bundle, [np.repeat(_tokens(48), TOGETHER, axis=0)])
    found["batch"][f"{TOGETHER} of medium"] = _cell(runtimes, batch, seconds_per_frame, baseline)


def _cell(
    runtimes: dict[str, Runtime], speak_all: Callable[[Runtime], int], seconds_per_frame: float | None, baseline: str
) -> dict[str, Any]:
    audio = {name: speak_all(runtime) * (seconds_per_frame or 0.0) for name, runtime in runtimes.items()}
    took = take_turns({name: partial(speak_all, runtime) for name, runtime in runtimes.items()}, seconds=2.0)
    row: dict[str, Any] = {CONTROL: figures(took[CONTROL])}
    for name in runtimes:
        row[name] = figures(took[name])
        if audio[name]:
            row[name] |= {"rtf": round(float(np.median(took[name])) / audio[name], 6)}
        if baseline in took:
            row[name] |= ratio(took[baseline], took[name])
    return row


def _speak(bundle: Bundle, sentences: list[np.ndarray], runtime: Runtime) -> int:
    frames = 0
    for tokens in sentences:
        states, ends = _encode(runtime, tokens)
        speak(runtime, states, ends, bundle.description, LIMIT * len(tokens))
        frames += int(ends[:, -1].sum())
    return frames


def _first_audio(bundle: Bundle, tokens: np.ndarray, runtime: Runtime) -> int:
    states, ends = _encode(runtime, tokens)
    sees = bundle.description.receptive_field
    parts = (FIRST_PARTS[0] + sees.vocoder, *FIRST_PARTS[1:])
    mel = decode_chunks(runtime, states, ends, sees.decoder, parts)
    return next(
        compute_chunks(runtime.vocode, vocoder_frames(mel, bundle.description), ends[:, -1], sees.vocoder, FIRST_PARTS)
    ).shape[1]


def _encode(runtime: Runtime, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows, zeros = len(tokens), np.zeros(len(tokens), np.float32)
    return runtime.encode(tokens, np.full(rows, tokens.shape[1]), np.zeros(rows, np.int64), zeros + 1, zeros, zeros)


def _tokens(count: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    return np.stack([rng.integers(3, 40, count), rng.integers(0, 3, count), rng.integers(0, 2, count)], 1)[None]


def _forget_peak() -> int:
    if not torch.cuda.is_available():
        return 0
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _peak_mib(before: int) -> float | str:
    if not torch.cuda.is_available():
        return "not run: no GPU"
    return round((torch.cuda.max_memory_allocated() - before) / 2**20, 1)


if __name__ == "__main__":
    run_alone("gpu_engines", __doc__, ENGINES, engines)
