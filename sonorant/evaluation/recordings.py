"""The held-out sentences that are judged, and their recordings' own error rate, which no voice can be expected to
beat."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.recognizers import Clip, RecognizerConfig, load_recognizer, not_heard, transcribe
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.sound import read_sound
from sonorant.corpus.splits import read_in_training, text_key
from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import ErrorCounts, Normalizer, count_errors
from sonorant.files import read_json

RECORDINGS, VOCODER = "recordings", "vocoder"
"""The kinds of rendering that are no variant; the second is a codec's copy too."""


def held_out(utterances: Sequence[Utterance], count: int) -> list[Utterance]:
    """The first `count` utterances of the test split by SHA-256 of their id, one take a sentence; all if there are
    fewer.

    The order depends on the ids alone, so more recordings change the choice little; speakers take turns, so each has an
    equal share. Where the split holds several languages, only the most frequent one: a recogniser and a voice have one.
    A sentence that training reads in another take is left out, unless there is no other. Raises SonorantError if the
    split is empty.
    """
    test = [utterance for utterance in utterances if utterance.split == "test"]
    if not test:
        raise SonorantError(
            "the test split is empty: nothing to judge the voice by; raise prepare.test or add recordings"
        )
    language = Counter(utterance.language for utterance in test).most_common(1)[0][0]
    chosen = sorted(
        (u for u in test if u.language == language), key=lambda u: hashlib.sha256(u.id.encode()).hexdigest()
    )
    read = read_in_training(utterances)
    unread = [utterance for utterance in chosen if text_key(utterance) not in read]
    takes: dict[str, Utterance] = {}
    for utterance in unread or chosen:
        takes.setdefault(text_key(utterance), utterance)
    return _in_turn(list(takes.values()))[:count]


def _in_turn(utterances: Sequence[Utterance]) -> list[Utterance]:
    """The first of each speaker, the second of each, and so on; the order of one speaker's stays."""
    place: Counter[str] = Counter()
    turns = []
    for utterance in utterances:
        turns.append(place[utterance.speaker])
        place[utterance.speaker] += 1
    return [utterances[index] for index in np.argsort(turns, kind="stable")]


def spoken_text(utterance: Utterance) -> str:
    """What was to be said, numbers in words. Raises SonorantError if the utterance was not prepared."""
    if utterance.spoken is None:
        raise SonorantError(
            f"utterance '{utterance.id}': field 'spoken' is missing from the manifest; run the stage prepare again"
        )
    return utterance.spoken


@dataclass(frozen=True, kw_only=True)
class RecognizedRecordings:
    """Which sentences are judged, and what was heard in their recordings."""

    recognizer: str
    """Name of the recogniser."""
    revision: str
    """Its version and model."""
    normalizer: str
    """Name of the normaliser that the summary was made with."""
    language: str
    """Language code of the sentences."""
    requested: int
    """Sentences that the settings ask for; there may have been fewer."""
    ids: tuple[str, ...]
    """Utterances, in the order of hash."""
    references: tuple[str, ...]
    """What was to be said, numbers in words."""
    transcripts: tuple[str, ...]
    """What was heard, in the recogniser's own spelling; empty if it did not run."""
    not_run: str | None = None
    """Why the recogniser did not run, as in every file: it lacks the language; None if it ran."""


def score(references: Sequence[str], transcripts: Sequence[str], normalizer: Normalizer) -> ErrorCounts:
    """Normalise both sides and count errors. Raises SonorantError as `count_errors`."""
    return count_errors([normalizer(text) for text in references], [normalizer(text) for text in transcripts])


def recognize_recordings(utterances: list[Utterance], corpus: Path, config: RecognizerConfig) -> dict[str, Any]:
    """Recognise the recordings of the held-out sentences; returns the content of `recordings.json`. `corpus`: folder of
    the audio paths.

    If the recogniser lacks the language, nothing is heard: `not run: <why>` stands in place of figures, and a
    transcript is null. Raises SonorantError naming the file or setting that is wrong.
    """
    sentences = held_out(utterances, config.sentences)
    language = sentences[0].language
    references = [spoken_text(sentence) for sentence in sentences]
    normalizer = Normalizer(language)
    known = {"normalizer": normalizer.name, "language": language, "requested": config.sentences}
    known |= {"utterances": len(sentences)}
    if why := not_heard(config.name, language):
        rows = [
            {"id": sentence.id, "reference": reference, "transcript": None}
            for sentence, reference in zip(sentences, references, strict=True)
        ]
        return {"recognizer": config.name, "revision": why, **known, "wer": why, "cer": why, "sentences": rows}
    recognizer = load_recognizer(config.name, language)
    clips = [Clip(*read_sound(corpus, sentence)) for sentence in sentences]
    transcripts = transcribe(clips, config.name, language)
    counts = score(references, transcripts, normalizer)
    return {
        "recognizer": recognizer.name,
        "revision": recognizer.revision,
        **known,
        "words": int(counts.words.sum()),
        "wer": round(counts.wer, 3),
        "cer": round(counts.cer, 3),
        "sentences": [
            {"id": sentence.id, "reference": reference, "transcript": transcript}
            for sentence, reference, transcript in zip(sentences, references, transcripts, strict=True)
        ],
    }


def read_recognized(path: Path) -> RecognizedRecordings:
    """Read `recordings.json`. Raises SonorantError naming the file if it is absent or of another shape."""
    data = read_json(path)
    try:
        rows, not_run = data["sentences"], data["wer"] if isinstance(data["wer"], str) else None
        return RecognizedRecordings(
            **{key: data[key] for key in ("recognizer", "revision", "normalizer", "language", "requested")},
            ids=tuple(row["id"] for row in rows),
            references=tuple(row["reference"] for row in rows),
            transcripts=() if not_run else tuple(row["transcript"] for row in rows),
            not_run=not_run,
        )
    except (KeyError, TypeError) as error:
        raise SonorantError(f"{path}: not what the stage recognize_recordings writes ({error}); run it again") from None
