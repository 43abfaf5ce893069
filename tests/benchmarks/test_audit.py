"""Faults that the audit's benchmarks plant are what they are called, where they may be, and as many as asked for."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.audit import SHARES, plant
from benchmarks.audit_worth import AUDITED, CLEAN, FAULTY, Data, counted
from sonorant.audio.wav import read_audio, write_wav
from sonorant.corpus.manifest import Utterance, read_manifest, write_manifest

COUNT = 200
RATE = 16000


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Recordings of half a second of sound between silences, each with a text of its own."""
    silence, sound = np.zeros(RATE // 2), 0.3 * np.sin(np.arange(RATE) / 5)
    write_wav(tmp_path / "one.wav", np.concatenate([silence, sound, silence]).astype(np.float32), RATE)
    rows = [
        Utterance(id=f"u{n}", audio="one.wav", text=f"this is text number {n} of them", speaker="s", language="en-us")
        for n in range(COUNT)
    ]
    write_manifest(tmp_path / "manifest.jsonl", rows)
    return tmp_path


@pytest.mark.parametrize("times", [1.0, 3.0])
def test_faults_are_planted_among_the_given_alone_and_in_their_shares(corpus: Path, times: float) -> None:
    before = {row.id: row for row in read_manifest(corpus / "manifest.jsonl")}
    among = {f"u{number}" for number in range(100)}
    kinds = plant(corpus, random.Random(1), among, times)
    after = {row.id: row for row in read_manifest(corpus / "manifest.jsonl")}
    changed = {id for id in before if before[id] != after[id]}
    assert changed == kinds.keys() <= among
    groups = Counter(kind.split(":")[0] for kind in kinds.values())
    assert groups == {group: round(times * share * 100) // 2 * 2 for group, share in SHARES.items()}
    for id, kind in kinds.items():
        words, had = len(after[id].text.split()), len(before[id].text.split())
        assert words - had == (0 if kind in ("swapped", "cut: start", "cut: end") else 1 if "missing" in kind else -1)
        if kind.startswith("cut"):
            assert len(read_audio(corpus / str(after[id].audio))[0]) < 2 * RATE - 0.6 * RATE
    swapped = [id for id, kind in kinds.items() if kind == "swapped"]
    assert Counter(after[id].text for id in swapped) == Counter(before[id].text for id in swapped)


def test_what_each_voice_learns_is_counted_without_what_is_held_out() -> None:
    rows = [
        Utterance(id=f"u{n}", audio="a.wav", text="a", speaker="s", language="en-us", seconds=36.0, split=split)
        for n, split in enumerate(("train", "train", "train", "validation", "test"))
    ]
    corpus = {CLEAN: Data(Path(), rows), FAULTY: Data(Path(), rows), AUDITED: Data(Path(), [rows[0], *rows[2:]])}
    found = counted(corpus, {"u0": "swapped", "u1": "edge: added in the sound at the end"})
    assert found[CLEAN] == {"utterances": 3, "hours": 0.03, "faults": {}}
    assert found[FAULTY] == {"utterances": 3, "hours": 0.03, "faults": {"swapped": 1, "edge": 1}}
    assert found[AUDITED] == {"utterances": 2, "hours": 0.02, "faults": {"swapped": 1}}
