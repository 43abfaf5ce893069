"""What the decoding benchmark claims follows from its cells, and its texts fit their buckets with the whole budget."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.decoding import COMPILED, FASTER, ONNX, STATIC, claims
from benchmarks.decoding_worker import DYNAMIC, decoding, rows_of_text
from sonorant.speech.decoding.state import make_rules
from sonorant.speech.voice import Voice

INT8 = "onnxruntime/int8"
COUNTED = {"hits": 3, "misses": 0, "prepared": 1, "late": 0}


def sound() -> dict[str, Any]:
    """Cells of which every claim holds."""

    def cell(times: float) -> dict[str, Any]:
        second = {"load_s": 5.0, "peak_mib": 500.0}
        return {
            "start": {
                DYNAMIC: {"load_s": 2.0, "peak_mib": 300.0, "counters": None},
                STATIC: {"load_s": 2.0, "peak_mib": 400.0, "counters": None},
                COMPILED: {"load_s": 30.0, "peak_mib": 900.0, "counters": COUNTED, "second": second},
            },
            "decoders": {
                DYNAMIC: {"speedup": 1.0, "identical": True, "counters": None},
                COMPILED: {"speedup": 0.9, "identical": True, "counters": COUNTED},
                ONNX: {"speedup": 2.0, "identical": True, "counters": None},
                INT8: {"speedup": times, "identical": False, "counters": None},
            },
        }

    cells = {(rows, slots): cell(times + 0.1) for rows, times in FASTER.items() for slots in (128, 256)}
    return {"cells": {f"batch_{rows}/bucket_{slots}": made for (rows, slots), made in cells.items()}}


def test_all_claims_hold_where_all_is_well() -> None:
    found = claims(sound())
    assert len(found) == 6 and all(found.values())


@pytest.mark.parametrize(
    ("place", "value", "claim"),
    [
        (("decoders", COMPILED, "identical"), False, "identical"),
        (("decoders", INT8, "speedup"), 2.4, "ONNX Runtime"),
        (("decoders", COMPILED, "counters"), COUNTED | {"late": 1}, "recompiled"),
        (("start", COMPILED, "second", "load_s"), 11.0, "second start"),
        (("start", COMPILED, "second", "peak_mib"), 521.0, "memory"),
    ],
)
def test_one_bad_cell_breaks_the_claim_it_concerns(place: tuple[str, ...], value: object, claim: str) -> None:
    result = sound()
    inner = result["cells"]["batch_4/bucket_256"]
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    [broken] = [name for name, holds in claims(result).items() if not holds]
    assert claim in broken


@pytest.mark.parametrize("bucket", [64, 256])
def test_texts_fit_their_bucket_with_the_whole_budget(codec_lm_bundle: Path, bucket: int) -> None:
    voice = Voice.load(codec_lm_bundle, threads=1)
    tokens = rows_of_text(voice, 3, bucket)
    described = decoding(voice)
    lengths = np.full(3, tokens.shape[1])
    rules = make_rules(lengths, described, described.defaults, lambda *shape: np.zeros((3, *shape), np.float32))
    slots = 1 + max(1, described.prompt_frames) + rules.noise_BSG.shape[1]
    assert bucket * 0.8 < slots <= bucket
    assert len({row.tobytes() for row in tokens}) == 3
