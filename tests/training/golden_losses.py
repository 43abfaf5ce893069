"""The first losses of each recipe on a tiny corpus, kept in golden_losses.json.

`--write` renews recipes that are new or have another VERSION.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch.distributed as dist

from sonorant.plugins import model_kind
from testbed.tiny_training import tiny_features
from tests.training.trainings import batches_of, step_of

KEPT = Path(__file__).with_suffix(".json")
STEPS = 2
INT8 = {
    "method": "qat",
    "layers": ["encoder.blocks.0.expand", "encoder.blocks.0.contract", "decoder.stack.blocks.0.expand", "prior"],
    "float_layers": [],
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "acoustic": ("acoustic", {}),
    "acoustic, flow": ("acoustic", {"decoder": "flow"}),
    "acoustic, aligned by neighbours": ("acoustic", {"prior_kernel": 3}),
    "acoustic, int8": ("acoustic", {"quantization": INT8}),
    "vocoder": ("vocoder", {}),
    "vocoder, adversarial": ("vocoder", {"adversarial": True}),
    "codec": ("codec", {}),
    "codec, source": ("codec", {"kind": "source_filter"}),
    "language_model": ("language_model", {}),
    "language_model, aligned by neighbours": ("language_model", {"prior_kernel": 3}),
}
TOLERANCE = {"fp32": 1e-3, "bf16": 1e-2}
"""By precision, relative. Between AVX-512, AVX2 and SSE4.1, fp32 differs by up to 6e-5, bf16 by 8e-4."""


Rows = list[dict[str, float]]


def losses_of(case: str, precision: str, features: Path) -> Rows:
    """Losses of the first steps; gradient norms of waveform models differ by half between CPUs."""
    kind, changes = CASES[case]
    trained = step_of(kind, features, precision=precision, **changes)
    rows = []
    for step in range(STEPS):
        losses, _ = trained.take(step, *batches_of(trained.recipe, step))
        rows.append({name: float(f"{float(value):.6g}") for name, value in losses.items()})
    return rows


def differ(kept: Rows, found: Rows, tolerance: float) -> bool:
    return [row.keys() for row in kept] != [row.keys() for row in found] or any(
        abs(new[name] - old) > tolerance * abs(old)
        for row, new in zip(kept, found, strict=True)
        for name, old in row.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.training.golden_losses", description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew what was kept with another VERSION")
    write = parser.parse_args().write
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)
        features = tiny_features(Path(folder))
        for case, (kind, _) in CASES.items():
            if case not in kept or kept[case]["version"] != model_kind(kind).VERSION:
                print(f"{case}: renewed")
                kept[case] = {"version": model_kind(kind).VERSION}
                kept[case] |= {precision: losses_of(case, precision, features) for precision in TOLERANCE}
        dist.destroy_process_group()
    if write:
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
