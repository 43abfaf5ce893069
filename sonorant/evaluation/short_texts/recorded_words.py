"""Words cut out of recordings: the baseline for short texts."""

from collections.abc import Sequence
from pathlib import Path

from sonorant.audio.recognizers import Clip
from sonorant.corpus.audit.findings import read_audit
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.short_clips import choose, cut
from sonorant.corpus.sound import read_sound


def cut_words(
    utterances: Sequence[Utterance], corpus: Path, audited: Path, language: str, count: int
) -> list[tuple[str, Clip]] | str:
    """Up to `count` texts of one to three words with their sound, cut by the word times of `audit.jsonl` in
    `audited`; or `not run: <why>`. The clearest cuts, at most one per utterance of the corpus `utterances` in the
    folder `corpus`."""
    file = audited / "audit.jsonl"
    rows = {row.id: row for row in read_audit(file)} if file.exists() else {}
    if not any(row.words for row in rows.values()):
        return "not run: the audit does not say where words are (no aligner ran)"
    own = [utterance for utterance in utterances if utterance.language == language]
    training = sum(utterance.split == "train" for utterance in own)
    found = []
    for clip in choose(own, rows, min(count / max(training, 1), 1.0)):
        samples, rate = read_sound(corpus, clip.utterance)
        words = [word.text for word in rows[clip.utterance.id].words[clip.words]]
        found.append((" ".join(words), Clip(cut(samples, rate, clip), rate)))
    return found or "not run: no word of the recordings stands for itself"
