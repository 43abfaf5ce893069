from typing import Any

BYTES = {"fp32": 16_000_000, "fp16": 8_100_000, "int8": 5_000_000}


def variant(candidate: str, speedup: float = 1.0, spread: float = 0.02, wer: float = 12.0) -> dict[str, Any]:
    """One candidate: speed-up over fp32 with its interval, and word error rate (fp32: 12)."""
    name = candidate.split("/")[1]
    timed = {"p50_ms": 40.0 / speedup, "rtf": 0.01 / speedup}
    if candidate != "onnxruntime/fp32":
        timed |= {"over_fp32": speedup, "over_fp32_ci95": [speedup - spread, speedup + spread]}
    heard: dict[str, Any] = {"wer": wer}
    if name != "fp32":
        heard["above_fp32"] = {"wer": wer - 12.0, "wer_ci95": [wer - 13.0, wer - 11.0]}
    return {
        "intelligibility": {name: heard},
        "speed": {candidate: {"medium": {"threads_1": timed, "threads_all": timed}}},
        "parity": {candidate: {"passed": True, "failed": None}},
        "size": {name: {"bytes": BYTES.get(name, 1)}},
    }


def figures(*candidates: dict[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for candidate in (variant("onnxruntime/fp32"), *candidates):
        for section, found in candidate.items():
            whole.setdefault(section, {}).update(found)
    return whole
