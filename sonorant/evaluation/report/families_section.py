"""Compare model families on the same sentences: figures and players."""

from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path

import numpy as np

from sonorant.audio.arrays import Ints
from sonorant.evaluation.recordings import RECORDINGS
from sonorant.evaluation.report.document import Document
from sonorant.evaluation.report.players import Presentation
from sonorant.evaluation.report.sentences_section import FILE, Sentence, read_sentences
from sonorant.pages.blocks import Cell, Part, Section, Table
from sonorant.plugins import family_names
from sonorant.training.intervals import bootstrap, rate


@dataclass(frozen=True)
class JudgedFamily:
    folder: Path
    figures: Document

    @property
    def first(self) -> str:
        return self.figures["variants"].items()[0][0]

    def word_errors(self, variant: str) -> tuple[Ints, Ints]:
        rows = Document.read_lines(self.folder / FILE)
        wrong = [round(row["word_errors"][variant].number()) for row in rows]
        return np.array(wrong), np.array([round(row["words"].number()) for row in rows])


def families(folder: Path, own: str, presentation: Presentation) -> Section:
    """Show metrics and players of all families evaluated on the sentences of `own`, and commands to evaluate missing
    families. `folder` has a subfolder per family from the stage evaluate. Raises SonorantError naming a damaged file
    and key."""
    judged, missing = _judged(folder, own)
    baseline = judged[own]
    rows = [row for name, found in judged.items() for row in _rows(name, found, baseline if name != own else None)]
    rows += [[name, why] for name, why in missing.items()]
    above = f"above {own} {baseline.first}, points"
    head = ["family", "variant", "WER, %", above, "length ratio", "DNSMOS", "real-time factor"]
    head += ["first audio, ms", "size", "ran away, %"]
    words = (
        "Real-time factor: a medium sentence on one thread. First audio: median, streamed on one thread. "
        "In brackets: 95 % intervals; differences are paired."
    )
    parts: list[Part] = [words, Table(caption="Families", head=head, rows=rows)]
    if len(judged) > 1:
        parts.append("The first sentences, spoken by the first variant of each family.")
        parts += [replace(presentation, shipped=own).article(sentence) for sentence in _sentences(judged)]
    return Section(anchor="families", title="Families", parts=parts)


def _judged(folder: Path, own: str) -> tuple[dict[str, JudgedFamily], dict[str, str]]:
    wanted = Document.read(folder / own / "family.json")
    judged, missing = {own: JudgedFamily(folder / own, wanted)}, {}
    for name in family_names():
        file = folder / name / "family.json"
        if name == own:
            continue
        if not file.exists():
            missing[name] = f"not run: evaluate it with make demo FAMILY={name}"
        elif (found := Document.read(file))["sentences"]["sha256"].value == wanted["sentences"]["sha256"].value:
            judged[name] = JudgedFamily(folder / name, found)
        else:
            missing[name] = (
                f"not run: evaluated on different sentences or with another recogniser; run make demo FAMILY={name}"
            )
    return judged, missing


def _rows(name: str, judged: JudgedFamily, baseline: JudgedFamily | None) -> list[list[Cell]]:
    return [
        [
            name,
            variant,
            found.estimate("intelligibility", "wer"),
            _above(judged, variant, baseline) if baseline else None,
            found.figure("naturalness", "duration_ratio", form=".3f"),
            found.figure("naturalness", "dnsmos", "ovrl", form=".2f"),
            found.figure("speed", "medium", "threads_1", "rtf", form=".4f"),
            found.figure("first_audio", "p50_ms"),
            found.megabytes("size", "bytes"),
            found.estimate("decoding", "runaway_rate", scale=100) or "not applicable",
        ]
        for variant, found in judged.figures["variants"].items()
    ]


def _above(judged: JudgedFamily, variant: str, baseline: JudgedFamily) -> str:
    if why := judged.figures["variants"][variant]["intelligibility"].not_run:
        return why
    (ours, words), (theirs, _) = judged.word_errors(variant), baseline.word_errors(baseline.first)
    low, high = bootstrap(rate, ours - theirs, words)
    return f"{rate(ours, words) - rate(theirs, words):+.1f} [{low:+.1f}, {high:+.1f}]"


def _sentences(judged: dict[str, JudgedFamily]) -> list[Sentence]:
    by_family = [
        {each.id: each for each in read_sentences(found.folder, {RECORDINGS: RECORDINGS, found.first: name})}
        for name, found in judged.items()
    ]
    merged = []
    for identity, sentence in by_family[0].items():
        spoken = [found[identity] for found in by_family if identity in found]
        if len(spoken) == len(by_family):
            fields = {
                key: reduce(or_, (getattr(each, key) for each in spoken)) for key in ("heard", "errors", "samples")
            }
            merged.append(replace(sentence, times={}, **fields))
    return merged
