"""Both families of voice side by side, on the same sentences: figures and players. Knows nothing of how a family
speaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sonorant.audio.mel import MelConfig
from sonorant.families.family import FAMILIES
from sonorant.files import read_jsonl
from sonorant.report.decoding import runaway_rate
from sonorant.report.document import Document
from sonorant.report.figures import megabytes, optional, with_interval
from sonorant.report.kinds import RECORDINGS
from sonorant.report.markup import Cell, Html, note, section, table
from sonorant.report.players import listening
from sonorant.report.sentences import FILE, Sentence, read_sentences
from sonorant.statistics import bootstrap, rate

RESAMPLES = 1000
COLUMNS = (
    "family", "variant", "WER, %", "above {}, points", "length ratio", "DNSMOS", "real-time factor", "first audio, ms", "size",
    "ran away, %",
)  # fmt: skip


@dataclass(frozen=True)
class JudgedFamily:
    """A family that was judged, as its run left it."""

    folder: Path
    figures: Document

    @property
    def first(self) -> str:
        """The variant that its samples are of."""
        return self.figures["variants"].items()[0][0]

    def word_errors(self, variant: str) -> tuple[np.ndarray, np.ndarray]:
        """Wrong words and words of each sentence (S,)."""
        rows = [
            Document(row, self.folder / FILE, str(number))
            for number, row in enumerate(read_jsonl(self.folder / FILE), 1)
        ]
        wrong = [round(row["word_errors"][variant].number()) for row in rows]
        return np.array(wrong), np.array([round(row["words"].number()) for row in rows])


def families(folder: Path, own: str, audio: MelConfig, normalized: Callable[[str], str]) -> Html:
    """The section: every variant of every family judged on the sentences of `own`, what is missing by name, and the
    same words from each.

    `folder`: holds a folder a family, as the stage evaluate writes it. Raises SonorantError naming file and key where
    one is not so.
    """
    judged, missing = _judged(folder, own)
    others = [name for name in judged if name != own]
    baseline = judged[own]
    beside = f"{own} {baseline.first}"
    rows = [row for name, found in judged.items() for row in _rows(name, found, baseline if name != own else None)]
    rows += [[name, why] for name, why in missing.items()]
    head = [column.format(beside) for column in COLUMNS]
    words = (
        "Real-time factor: a medium sentence on one thread; first audio: median, streamed on one thread. "
        "In brackets: 95 % intervals, paired where two are compared. "
    ) + ("" if not others else "Below: the first sentences, each family by its first variant.")
    same = [] if not others else listening(_sentences(judged), audio, normalized, own)
    return section("families", "Families side by side", note(words), table("Families", head, rows), *same)


def _judged(folder: Path, own: str) -> tuple[dict[str, JudgedFamily], dict[str, str]]:
    """Families that were judged on the sentences of `own`, `own` first, and why each of the others was not."""
    wanted = Document.read(folder / own / "family.json")
    judged, missing = {own: JudgedFamily(folder / own, wanted)}, {}
    for name in FAMILIES:
        file = folder / name / "family.json"
        if name == own:
            continue
        if not file.exists():
            missing[name] = f"not run: make demo FAMILY={name}"
            continue
        found = Document.read(file)
        if found["sentences"]["sha256"].text() == wanted["sentences"]["sha256"].text():
            judged[name] = JudgedFamily(folder / name, found)
        else:
            missing[name] = f"not run: not judged on these sentences by this recogniser: make demo FAMILY={name}"
    return judged, missing


def _rows(name: str, judged: JudgedFamily, baseline: JudgedFamily | None) -> list[list[Cell]]:
    return [
        [
            name,
            variant,
            with_interval(found["intelligibility"], "wer"),
            _above(judged, variant, baseline) if baseline else None,
            optional(found["naturalness"], "duration_ratio", ".3f"),
            _dnsmos(found["naturalness"]),
            _rtf(found),
            optional(found["first_audio"], "p50_ms", ".0f") if found.get("first_audio") else None,
            megabytes(found["size"]["bytes"].number()) if found.get("size") else None,
            runaway_rate(found["decoding"]) if found.get("decoding") else "cannot",
        ]
        for variant, found in judged.figures["variants"].items()
    ]


def _above(judged: JudgedFamily, variant: str, baseline: JudgedFamily) -> str:
    """Word error rate over the first variant's of the baseline, on the same sentences."""
    (ours, words), (theirs, _) = judged.word_errors(variant), baseline.word_errors(baseline.first)
    low, high = bootstrap(rate, ours - theirs, words, resamples=RESAMPLES)
    return f"{rate(ours, words) - rate(theirs, words):+.1f} [{low:+.1f}, {high:+.1f}]"


def _dnsmos(found: Document) -> str | None:
    rated = found.get("dnsmos")
    return None if rated is None else (rated.not_run or f"{rated['ovrl'].number():.2f}")


def _rtf(found: Document) -> str | None:
    speed = found.get("speed")
    return None if speed is None else (speed.not_run or f"{speed['medium']['threads_1']['rtf'].number():.4f}")


def _sentences(judged: dict[str, JudgedFamily]) -> list[Sentence]:
    """The sentences that every family has samples of, spoken by the recording and by each family."""
    by_family = {
        name: {sentence.id: sentence for sentence in read_sentences(found.folder, (RECORDINGS, found.first))}
        for name, found in judged.items()
    }
    [first, *others] = by_family.values()
    return [
        _beside(sentence, {name: (sentences[identity], judged[name].first) for name, sentences in by_family.items()})
        for identity, sentence in first.items()
        if all(identity in sentences for sentences in others)
    ]


def _beside(recorded: Sentence, spoken: dict[str, tuple[Sentence, str]]) -> Sentence:
    """One sentence whose kinds are the recording and the families, each speaking with one variant."""
    of = {RECORDINGS: (recorded, RECORDINGS)} | spoken
    return replace(
        recorded,
        heard={name: sentence.heard[kind] for name, (sentence, kind) in of.items()},
        errors={name: sentence.errors[kind] for name, (sentence, kind) in of.items()},
        samples={name: sentence.samples[kind] for name, (sentence, kind) in of.items()},
    )
