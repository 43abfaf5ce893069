"""The speakers of a corpus side by side: how much there is of each, how it sounds, how much was rejected."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from sonorant.corpus.manifest import SPLITS, Utterance
from sonorant.pages.blocks import Section, Table


def summarize_speakers(accepted: Sequence[Utterance], rejected: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By speaker: `utterances`, `hours`, `splits` (utterances in each), the medians `snr_db` (dB) and `loudness` (LUFS
    before conditioning), and `rejected` utterances. A median is None where no recording shows the figure.

    `accepted`: utterances with all fields set; `rejected`: the speaker of each rejected one.
    """
    lost = Counter(rejected)
    by_speaker: defaultdict[str, list[Utterance]] = defaultdict(list)
    for utterance in accepted:
        by_speaker[utterance.speaker].append(utterance)
    found = {}
    for speaker in sorted({*lost, *by_speaker}):
        own = by_speaker[speaker]
        splits = Counter(utterance.split for utterance in own)
        found[speaker] = {
            "utterances": len(own),
            "hours": round(sum(utterance.seconds or 0.0 for utterance in own) / 3600, 4),
            "splits": {split: splits[split] for split in SPLITS},
            "snr_db": _median([u.measures.snr_db for u in own if u.measures]),
            "loudness": _median([u.conditioning.before.loudness for u in own if u.conditioning]),
            "rejected": lost[speaker],
        }
    return found


def speakers_section(speakers: dict[str, dict[str, Any]]) -> Section:
    """The page's section, of what `summarize_speakers` returns."""
    rows = [
        [
            speaker,
            str(of["utterances"]),
            f"{60 * of['hours']:.1f}",
            *(str(of["splits"][split]) for split in SPLITS),
            "-" if of["snr_db"] is None else f"{of['snr_db']:.1f}",
            "-" if of["loudness"] is None else f"{of['loudness']:.1f}",
            str(of["rejected"]),
        ]
        for speaker, of in speakers.items()
    ]
    head = ["speaker", "utterances", "minutes", *SPLITS, "median SNR, dB", "median loudness, LUFS", "rejected"]
    return Section(
        anchor="speakers", title=f"Speakers: {len(rows)}", parts=[Table(caption="Speakers", head=head, rows=rows)]
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(np.median(known)), 2) if known else None
