"""Does a codec language model decode the CPU's tokens on a GPU, and how fast? Part of `make gpu-check`.

    python -m benchmarks.gpu.gpu_tokens

Needs torch with CUDA and numpy. Weights are random, of two sizes. `--dry-run` runs on a CPU with a tiny model and
claims nothing.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.gpu_voices import Answer, describe, run_alone, write_model
from benchmarks.processes import ask
from benchmarks.turns import figures, ratio, take_turns
from sonorant.extras.codec_lm.decoding.session import Stepper
from sonorant.extras.codec_lm.decoding.state import Rules, State, make_rules, start_state
from sonorant.extras.codec_lm.saved import load_language_model
from sonorant.extras.codec_lm.torch_dynamic import DynamicStepper, TorchStep
from sonorant.extras.codec_lm.torch_runtime import StaticTokenRuntime
from sonorant.extras.codec_lm.torch_static import StaticStepper
from sonorant.layers.kv_cache import DynamicCache
from sonorant.speech.bundle import Bundle, Lengths, ReceptiveField
from sonorant.speech.decoding import DecodingConfig, DecodingDescription, Pace
from sonorant.speech.runtimes import LoadOptions, load_runtime

SIZES = {"demo": (256, 6, 4, 704), "larger": (768, 16, 12, 2048)}
"""Channels, layers, heads and MLP width: the demo's 7 M parameters, and about 130 M."""
REHEARSAL = {"tiny": (32, 2, 2, 48)}
ROWS = (1, 4, 8)
SLOTS = (128, 512)
STEPS, PHONEMES = 100, 12
"""Timed steps, which fit into the smaller number of slots, and phonemes, enough that no row ends earlier."""
WRITTEN_OUT, SDPA = "dynamic, scores written out", "dynamic, SDPA"
FASTER = {WRITTEN_OUT: 4.5, SDPA: 3.0}
"""Minimum speedup of the fastest prepared decoder over each, at one row."""
FROM_DISK = 30.0
"""Maximum seconds of a warm-up from a full cache folder."""
CLAIM = (
    "tokens on the GPU are the CPU's, prepared decoders are 4.5 times as fast as eager attention and 3 times as eager "
    "SDPA, start from disk in 30 s, recompile nothing and wait for nothing between tokens"
)


def tokens(folder: Path, place: Path, device: torch.device) -> Answer:
    result: dict[str, Any] = {}
    for name, size in (SIZES if device.type == "cuda" else REHEARSAL).items():
        write_models(place / name, size)
        result[name] = _one_size(place / name, device)
        print(json.dumps({name: result[name]}), file=sys.stderr)  # a run that is cut short keeps its results
    return result, not any(found["failed"] for found in result.values())


def _one_size(folder: Path, device: torch.device) -> dict[str, Any]:
    # A dry run compiles nothing, because that takes minutes on a CPU.
    names = ("torch-cuda-graphs", "torch-cuda-compiled") if device.type == "cuda" else ("torch-static",)
    found: dict[str, Any] = {"start": {}, "rows": {}}
    model, _ = load_language_model(folder / "language_model")
    step = TorchStep(model.to(device), device)
    steppers: dict[str, Stepper] = {WRITTEN_OUT: DynamicStepper(step, WrittenOut), SDPA: DynamicStepper(step)}
    prepared: dict[str, StaticTokenRuntime] = {}
    for name in names:
        print(f"  {folder.name} {name}", file=sys.stderr, flush=True)
        prepared[name], cold = _loaded(name, folder)
        steppers[name] = prepared[name].stepper()
        again = ask("benchmarks.gpu.gpu_tokens", "--start", name, str(folder))
        found["start"][name] = {"cold_s": cold, "from_disk_s": again}
    reference = DynamicStepper(TorchStep(load_language_model(folder / "language_model")[0], torch.device("cpu")))
    for rows in ROWS:
        decode = partial(_decode, request(rows, model.config.channels))
        want = decode(reference)
        found["rows"][str(rows)] = _race(steppers, decode, rows, want)
    found["waits"] = {name: _waits(stepper) for name, stepper in steppers.items() if isinstance(stepper, StaticStepper)}
    found["late"] = {name: runtime.counters().late for name, runtime in prepared.items()}
    found["failed"] = _failures(found, names)
    return found


def _race(
    steppers: dict[str, Stepper], decode: Callable[[Stepper], np.ndarray], rows: int, want: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Tokens per second of all decoders, run alternately, and their speedup over the dynamic ones."""
    same = {name: bool(np.array_equal(decode(stepper), want)) for name, stepper in steppers.items()}
    seconds = 5.0 if torch.cuda.is_available() else 1.0
    took = take_turns({name: partial(decode, stepper) for name, stepper in steppers.items()}, seconds, least=5)
    row = {}
    for name in steppers:
        a_second = round(rows * STEPS / float(np.median(took[name])), 1)
        over = {other: ratio(took[other], took[name]) for other in FASTER}
        row[name] = {"same_as_cpu": same[name], "tokens_per_second": a_second, "over": over} | figures(took[name])
    return row


def _waits(stepper: StaticStepper) -> bool:
    """Whether a step waits for the GPU."""
    if not torch.cuda.is_available():
        return False
    run = stepper.rooms.prepare(ROWS[0], SLOTS[0], drawn=False).steps[False]
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(8):
            run()
    except RuntimeError:
        return True
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return False


def _failures(found: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    failed = [
        f"{name}, {rows} rows: other tokens than the CPU's"
        for rows, row in found["rows"].items()
        for name, cell in row.items()
        if not cell["same_as_cpu"]
    ]
    one = found["rows"][str(ROWS[0])]
    for other, times in FASTER.items():
        best = max(one[name]["over"][other]["speedup"] for name in names)
        if best < times:
            failed.append(f"one row: {best} times as fast as {other}, not {times}")
    for name in names:
        if found["start"][name]["from_disk_s"] > FROM_DISK:
            failed.append(f"{name}: warm-up from disk took {found['start'][name]['from_disk_s']} s")
        if found["late"][name]:
            failed.append(f"{name}: {found['late'][name]} recompilations in service")
        if found["waits"][name]:
            failed.append(f"{name}: waits for the GPU between tokens")
    return failed


class WrittenOut(DynamicCache):
    """A growing cache whose scores are computed operator by operator, as eager attention does."""

    def attend(
        self,
        layer: int,
        query_BHQD: torch.Tensor,
        key_BHQD: torch.Tensor,
        value_BHQD: torch.Tensor,
        mask_B1QS: torch.Tensor,
    ) -> torch.Tensor:
        """As `Cache.attend`."""
        keys, values = self.extend(layer, key_BHQD, value_BHQD)
        scores = query_BHQD @ keys.transpose(-1, -2) / query_BHQD.shape[-1] ** 0.5
        return scores.masked_fill(~mask_B1QS, -torch.inf).softmax(-1) @ values


def _loaded(name: str, folder: Path) -> tuple[StaticTokenRuntime, float]:
    trained = folder / "language_model", folder / "codec"
    options = LoadOptions(trained=trained, batches=ROWS, slots=SLOTS, cache_folder=folder / "compiled", warm_up=True)
    began = perf_counter()
    runtime = load_runtime(name, voice(folder), options)
    return runtime, round(perf_counter() - began, 1)


Request = tuple[tuple[Any, ...], State]


def request(rows: int, channels: int) -> Request:
    """Arguments of `Stepper.begin` and the first state: random encoder states, and a budget that no row reaches."""
    states = np.random.default_rng(rows).standard_normal((rows, PHONEMES, channels)).astype(np.float32)
    lengths, no_prompt = np.full(rows, PHONEMES), (np.zeros((rows, 1, 2), np.int64), np.zeros(rows, np.int64))
    described = decoding(channels, 0, 0)
    rules: Rules = make_rules(
        lengths, described, GREEDY, lambda steps, numbers: np.zeros((rows, steps, numbers), np.float32)
    )
    return (states, lengths, *no_prompt, rules), start_state(rules, no_prompt[1], described)


def _decode(asked: Request, stepper: Stepper) -> np.ndarray:
    begin, state = asked
    stepper.begin(*begin)
    grid: np.ndarray = stepper.run(state, STEPS).grid_BSG[:, :STEPS]
    return grid


GREEDY = DecodingConfig(
    temperature=0.0, top_k=0, top_p=1.0, repetition_penalty=1.0, repetition_window=16, advance="median", budget=3.0,
    longest_phoneme=60.0, longest_silence=60.0, longest_repeat=60.0, retries=0,
)  # fmt: skip
"""No guard ends a row early."""


def decoding(channels: int, layers: int, heads: int) -> DecodingDescription:
    return DecodingDescription(
        codebooks=2,
        codes=1000,
        stride=2,
        samples_per_frame=512,
        frames_per_second=43.1,
        silence=(0, 0),
        layers=layers,
        heads=heads,
        head_width=channels // max(1, heads),
        advances=4,
        attention="full",
        window=128,
        prompt_frames=0,
        frames_per_phoneme=Pace(median=2.5, p99=3.3),
        defaults=GREEDY,
    )


def write_models(folder: Path, size: tuple[int, int, int, int]) -> None:
    """Write trained folders of a language model that stays long on each phoneme, and of the demo's codec."""
    torch.manual_seed(0)
    codec: dict[str, Any] = {"channels": 64, "expansion": 3, "kernel": 7, "encoder_blocks": 1, "decoder_blocks": 1}
    codec |= {"stride": 2, "codebooks": 2, "levels": [8, 5, 5, 5], "codebook_dropout": 0.0, "pretrained": None}
    write_model(folder, "codec", codec)
    config: dict[str, Any] = dict(zip(("channels", "layers", "heads", "feed_forward"), size, strict=True))
    config |= {"expansion": 3, "encoder_blocks": 1, "encoder_kernel": 5, "dropout": 0.0}
    config |= {"attention": "full", "window": 128, "most_advance": 3, "prompt_frames": 0}
    write_model(folder, "language_model", config, codec={"codebooks": 2, "codes": 1000})


def voice(folder: Path) -> Bundle:
    config = load_language_model(folder / "language_model")[0].config
    lengths = Lengths(tokens=(4, 8, 12, 12), frames=(8, 64, 128, 256))
    decoded = decoding(config.channels, config.layers, config.heads)
    return describe(folder, "codec_lm", ReceptiveField(decoder=0, vocoder=8), lengths, decoded)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--start"]:  # the process started by `ask`: a runtime's name and the models' folder
        print(json.dumps(_loaded(sys.argv[2], Path(sys.argv[3]))[1]))
    else:
        run_alone("gpu_tokens", __doc__, CLAIM, tokens)
