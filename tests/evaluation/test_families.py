from copy import deepcopy
from typing import Any

import pytest

from sonorant.evaluation.samples import family_figures

ROWS = [
    {
        "id": "a",
        "reference": "Nobody knew why.",
        "transcripts": {"recordings": "nobody knew why", "fp32": "nobody new why"},
    },
    {"id": "b", "reference": "Come in.", "transcripts": {"recordings": "come in", "fp32": "come in"}},
]
KINDS = ("recordings", "vocoder", "fp32")
METRICS: dict[str, Any] = {
    "family": "codec_lm",
    "intelligibility": {kind: {"revision": "pocketsphinx 5.1.1", "normalizer": "words-1"} for kind in KINDS},
    "naturalness": {kind: {} for kind in KINDS},
    "size": {},
    "speed": {},
    "first_audio": {},
}


def identity(metrics: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    found = family_figures(metrics, rows, ["fp32"])
    assert found["sentences"]["count"] == len(rows)
    return str(found["sentences"]["sha256"])


def test_the_voice_itself_does_not_matter() -> None:
    rows, metrics = deepcopy(ROWS), deepcopy(METRICS)
    rows[0]["transcripts"]["fp32"] = "nobody knew wide"
    metrics["family"] = "parallel"
    assert identity(metrics, rows) == identity(METRICS, ROWS)


@pytest.mark.parametrize("other", ["revision", "normalizer", "recording", "reference", "id", "fewer"])
def test_what_was_judged_otherwise_is_told_apart(other: str) -> None:
    rows, metrics = deepcopy(ROWS), deepcopy(METRICS)
    if other in ("revision", "normalizer"):
        metrics["intelligibility"]["recordings"][other] = "another"
    elif other == "recording":  # same id and text, another speaker
        rows[1]["transcripts"]["recordings"] = "common"
    elif other == "fewer":
        rows.pop()
    else:
        rows[1][other] = "another"
    assert identity(metrics, rows) != identity(METRICS, ROWS)
