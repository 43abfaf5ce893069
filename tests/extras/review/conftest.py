from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from sonorant.corpus.audit.findings import Audited, AuditedWord, Fault, Span, write_audit
from sonorant.corpus.manifest import Utterance, read_manifest, write_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.extras.review.review_server import Review, ReviewServer
from tests.support.conditions import UNCONDITIONED
from tests.support.serving import in_thread

RATE = 16000
TEXTS = {
    "one": "It cost 12 dollars in the end.",
    "two": "A second <img src=x onerror=\"document.title = 'bad'\"> text of words.",
    "three": "The third of all these texts.",
    "four": "Another one to be heard.",
    "part": "A part of a longer file.",
}
SCORES = {"one": 0.1, "two": 0.95, "three": 0.6, "four": 0.2}
"""The part has no score."""


def by_word(text: str, seconds: float, doubtful: str = "") -> tuple[AuditedWord, ...]:
    """Words of equal length from 10 % to 90 % of the duration."""
    words = text.split()
    edges = np.linspace(0.1 * seconds, 0.9 * seconds, len(words) + 1).round(3).tolist()
    return tuple(
        AuditedWord(text=word, start=start, end=end, doubt=0.9 if word == doubtful else 0.1)
        for word, start, end in zip(words, edges, edges[1:], strict=False)
    )


@pytest.fixture
def folder(tmp_path: Path, murmur: Callable[..., np.ndarray], prepare_config: PrepareConfig) -> Path:
    """Folders corpus, prepared and audit of five utterances; the last is a part of its file."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    rows = []
    for number, (id, text) in enumerate(TEXTS.items()):
        soundfile.write(corpus / f"{id}.wav", murmur(5 if id == "part" else 3, number, RATE), RATE)
        rows.append(Utterance(id=id, audio=f"{id}.wav", text=text, speaker="s", language="en-us"))
    rows[-1] = replace(rows[-1], start=1.0, end=4.0)
    write_manifest(corpus / "manifest.jsonl", rows)
    prepare(
        corpus,
        tmp_path / "prepared",
        replace(prepare_config, validation=0, test=0),
        "gruut",
        condition=UNCONDITIONED,
    )
    audit(tmp_path)
    return tmp_path


def audit(folder: Path) -> None:
    rows = []
    for utterance in read_manifest(folder / "prepared/manifest.jsonl"):
        if utterance.id not in SCORES:
            continue
        faults = {"two": Fault.OTHER_TEXT, "three": Fault.ADDED_AT_END}
        rows.append(
            Audited(
                id=utterance.id,
                clip=str(utterance.clip),
                score=SCORES[utterance.id],
                fault=faults.get(utterance.id),
                words=by_word(str(utterance.spoken), utterance.seconds or 0.0, "third"),
                unexplained=(Span(start=2.75, end=2.95),) if utterance.id == "three" else (),
                heard={"pocketsphinx": "the bird of all texts"},
                figures={"likelihood": -2.5},
            )
        )
    write_audit(folder / "audit/audit.jsonl", rows)


@pytest.fixture
def names(folder: Path) -> dict[str, str]:
    return {row.id: str(row.clip) for row in read_manifest(folder / "prepared/manifest.jsonl")}


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[[], ReviewServer]]:
    """Start a server for `folder`, stopping the previous one."""
    with ExitStack() as running:

        def begin() -> ReviewServer:
            running.close()
            review = Review(folder / "corpus", folder / "prepared", folder / "audit", folder / "decisions.csv")
            return running.enter_context(in_thread(ReviewServer(review, 0)))

        yield begin
