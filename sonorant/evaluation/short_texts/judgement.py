"""Speak, check and summarise short texts and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sonorant.audio.recognizers import Clip
from sonorant.corpus.audit.findings import read_audit
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.short_clips import choose, cut
from sonorant.corpus.sound import read_sound
from sonorant.evaluation.estimates import Figures, estimate
from sonorant.evaluation.recordings import RECORDINGS, RecognizedRecordings
from sonorant.evaluation.renderings import Renderings, speak_all
from sonorant.evaluation.short_texts.faults import Faults, find_faults, summarize, transcript
from sonorant.evaluation.short_texts.listener import REVISION, listen, not_heard
from sonorant.evaluation.short_texts.texts import CUT_WORDS, HELD_OUT, SENTENCES, SHORT, Text, suite
from sonorant.speech.voice import Voice
from sonorant.text.written_words import plain_words

OTHERS = (SENTENCES, CUT_WORDS, HELD_OUT)
MOST_CUT_WORDS = 40


@dataclass(frozen=True, kw_only=True)
class Judged:
    by: str
    """Source of the sound: `recordings` or a variant."""
    kind: str
    text: str
    words: tuple[str, ...]
    sound: Clip
    heard: str
    faults: Faults


@dataclass(frozen=True, kw_only=True)
class ShortTexts:
    figures: Figures
    """Section `short_texts` of `metrics.json`: a summary per kind of text for recordings and each variant."""
    judged: tuple[Judged, ...]


def judge_short_texts(
    bundle: Path,
    renderings: Renderings,
    known: RecognizedRecordings,
    utterances: Sequence[Utterance],
    corpus: Path,
    audited: Path,
    sentences: int,
) -> ShortTexts:
    """Check each variant of `renderings` on short texts, `sentences` generated ones, words cut out of recordings, and
    half as many of the evaluated sentences `known`.

    `audited` is the folder of `audit.jsonl`. For unsupported languages each summary is `not run: <why>`.
    """
    language = known.language
    texts = suite(language)
    why = not_heard(language) or (texts if isinstance(texts, str) else None)
    if why or isinstance(texts, str):
        return ShortTexts(
            figures=dict.fromkeys((RECORDINGS, *renderings.variants), why) | renderings.unspoken, judged=()
        )
    cuts = cut_words(utterances, corpus, audited, language, MOST_CUT_WORDS)
    of_recordings = [] if isinstance(cuts, str) else cuts
    told = [*texts.short_texts(), *texts.sentences(sentences)]
    told += [Text(CUT_WORDS, f"{text}.") for text, _ in of_recordings]
    said = [(RECORDINGS, Text(CUT_WORDS, text), text, sound) for text, sound in of_recordings]
    for kind in (RECORDINGS, *renderings.variants):
        sounds = zip(known.references[: max(sentences // 2, 1)], renderings.sounds[kind], strict=False)
        said += [(kind, Text(HELD_OUT, text), text, Clip(sound, renderings.rate)) for text, sound in sounds]
    for variant in renderings.variants:
        said += [
            (variant, *each) for each in speak(Voice.load(bundle, variant=variant), told, f"short texts, {variant}")
        ]
    judged = judge(said, language)
    figures: Figures = {"listener": REVISION}
    for by in (RECORDINGS, *renderings.variants):
        figures[by] = summarize_kinds([each for each in judged if each.by == by])
        figures[by] |= {CUT_WORDS: cuts} if isinstance(cuts, str) else {}
    return ShortTexts(figures=figures | renderings.unspoken, judged=tuple(judged))


def speak(voice: Voice, texts: Sequence[Text], label: str) -> list[tuple[Text, str, Clip]]:
    """Return each text with its spoken words and its sound, alternating speakers. NaN becomes silence."""
    spoken = [voice.frontend.speak(text.text) for text in texts]
    tokens = [voice.symbols.to_tokens(each.phonemes).astype(np.int64) for each in spoken]
    speakers = [number % len(voice.speakers) for number in range(len(texts))]
    sounds = [np.nan_to_num(each.sound, posinf=0.0, neginf=0.0) for each in speak_all(voice, tokens, speakers, label)]
    rows = zip(texts, spoken, sounds, strict=True)
    return [(text, each.text, Clip(sound, voice.sample_rate)) for text, each, sound in rows]


def judge(said: Sequence[tuple[str, Text, str, Clip]], language: str) -> list[Judged]:
    """Check sounds, given as (recordings or variant, text, spoken words, sound)."""
    words = [tuple(plain_words(spoken)) for _, _, spoken, _ in said]
    heard = listen([clip for *_, clip in said], words, language)
    return [
        Judged(
            by=by,
            kind=text.kind,
            text=text.text,
            words=own,
            sound=clip,
            heard=transcript(parts),
            faults=find_faults(own, parts),
        )
        for (by, text, _, clip), own, parts in zip(said, words, heard, strict=True)
    ]


def summarize_kinds(judged: Sequence[Judged]) -> Figures:
    """Summarise each kind of text and all short texts (`SHORT`); include the number of faulty sentences per
    thousand."""
    kinds: dict[str, list[Faults]] = {}
    for each in judged:
        kinds.setdefault(each.kind, []).append(each.faults)
    short = [faults for kind, found in kinds.items() if kind not in OTHERS for faults in found]
    found = {kind: summarize(faults) for kind, faults in kinds.items()}
    found |= {SHORT: summarize(short)} if short else {}
    for kind in (SENTENCES, HELD_OUT):
        if kind in found:
            ends = (1000 * end for end in found[kind]["faulty_rate_ci95"])
            found[kind] |= estimate("per_thousand", 1000 * found[kind]["faulty_rate"], ends, 2)
    return found


def cut_words(
    utterances: Sequence[Utterance], corpus: Path, audited: Path, language: str, count: int
) -> list[tuple[str, Clip]] | str:
    """Cut up to `count` clips of one to three words out of recordings, using the word times in `audit.jsonl` of the
    folder `audited`, or return `not run: <why>`. Takes the clearest cuts, only one per utterance."""
    file = audited / "audit.jsonl"
    rows = {row.id: row for row in read_audit(file)} if file.exists() else {}
    if not any(row.words for row in rows.values()):
        return "not run: the audit has no word times (no aligner ran)"
    own = [utterance for utterance in utterances if utterance.language == language]
    training = sum(utterance.split == "train" for utterance in own)
    found = []
    for clip in choose(own, rows, min(count / max(training, 1), 1.0)):
        samples, rate = read_sound(corpus, clip.utterance)
        words = [word.text for word in rows[clip.utterance.id].words[clip.words]]
        found.append((" ".join(words), Clip(cut(samples, rate, clip), rate)))
    return found or "not run: no word of the recordings has silence around it"
