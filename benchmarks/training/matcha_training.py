"""Matcha-TTS' own training on batches that were written for it, for `benchmarks.training.training --matcha`.

    PYTHON benchmarks/matcha_training.py CHECKOUT BATCHES STEPS WARMUP [--precision bf16] [--parameters 2500000]

Runs in an environment of its own, in which Matcha-TTS can be imported (github.com/shivammehta25/Matcha-TTS; build its
alignment search there with `python setup.py build_ext --inplace`), so it imports nothing of this project. The model,
its losses and its Adam are Matcha's; its sizes are the published ones, or all of them scaled to about so many
parameters. The batches are tokens, mels and lengths in a NumPy file.
"""

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

WIDTH = 256
"""Channels of the published decoder, to which all other widths are relative."""
SYMBOLS = 178


def model_of(width: int, mels: int) -> Any:
    """Matcha with a decoder of `width` channels; 256 is the published width (configs/model of its repository)."""
    from matcha.models.matcha_tts import MatchaTTS

    share = width / WIDTH
    durations = {"filter_channels_dp": round(256 * share), "kernel_size": 3, "p_dropout": 0.1}
    encoder = durations | {
        "n_feats": mels, "n_channels": round(192 * share), "filter_channels": round(768 * share), "n_heads": 2,
        "n_layers": 6, "spk_emb_dim": 64, "n_spks": 1, "prenet": True,
    }  # fmt: skip
    decoder = {
        "channels": [width, width], "dropout": 0.05, "attention_head_dim": round(64 * share), "n_blocks": 1,
        "num_mid_blocks": 2, "num_heads": 2, "act_fn": "snakebeta",
    }  # fmt: skip
    return MatchaTTS(
        n_vocab=SYMBOLS,
        n_spks=1,
        spk_emb_dim=64,
        n_feats=mels,
        encoder=SimpleNamespace(
            encoder_type="RoPE Encoder",
            encoder_params=SimpleNamespace(**encoder),
            duration_predictor_params=SimpleNamespace(**durations),
        ),
        decoder=decoder,
        cfm=SimpleNamespace(name="CFM", solver="euler", sigma_min=1e-4),
        data_statistics=None,
        out_size=None,
    )


def sized(parameters: int | None, mels: int) -> Any:
    """The published model, or the one with the nearest number of parameters."""
    if parameters is None:
        return model_of(WIDTH, mels)
    return min((model_of(width, mels) for width in range(32, WIDTH, 32)), key=lambda m: abs(count(m) - parameters))


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def train(model: Any, steps: list[list[dict[str, torch.Tensor]]], warmup: int, precision: str) -> tuple[float, float]:
    """Wall and CPU seconds of the steps after `warmup`; each step is a list of micro-batches."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    half = precision == "bf16"
    start = started = 0.0
    for number, step in enumerate(steps):
        if number == warmup:
            start, started = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        for batch in step:
            with torch.autocast("cpu", dtype=torch.bfloat16) if half else contextlib.nullcontext():
                durations, prior, flow, _ = model(batch["x"], batch["x_lengths"], batch["y"], batch["y_lengths"])
            ((durations + prior + flow) / len(step)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    return time.perf_counter() - start, time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("checkout", "batches"):
        parser.add_argument(name, type=Path)
    for name in ("steps", "warmup"):
        parser.add_argument(name, type=int)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--parameters", type=int, help="scale the model to about so many; default: as published")
    given = parser.parse_args()
    sys.path.insert(0, str(given.checkout))
    with np.load(given.batches) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    steps: list[list[dict[str, torch.Tensor]]] = [[] for _ in range(given.warmup + given.steps)]
    for name, array in arrays.items():
        step, place, part = name.split("/")
        if int(step) < len(steps):
            batches = steps[int(step)]
            batches.extend({} for _ in range(int(place) + 1 - len(batches)))
            batches[int(place)][part] = array
    torch.manual_seed(1)
    model = sized(given.parameters, arrays["0/0/y"].shape[1])
    frames = sum(int(batch["y_lengths"].sum()) for step in steps[given.warmup :] for batch in step)
    seconds, cpu = train(model, steps, given.warmup, given.precision)
    print(json.dumps({"frames": frames, "seconds": seconds, "cpu": cpu, "parameters": count(model)}))


if __name__ == "__main__":
    main()
