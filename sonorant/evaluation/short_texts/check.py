"""Check one voice for word faults, without a corpus."""

import dataclasses
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.evaluation.estimates import Figures
from sonorant.evaluation.samples import worst_first
from sonorant.evaluation.short_texts.judgement import judge, speak, summarize_kinds
from sonorant.evaluation.short_texts.listener import REVISION, not_heard
from sonorant.evaluation.short_texts.texts import suite
from sonorant.speech.voice import Voice

FAULTS = ("skipped", "repeated", "babbled", "extra")


def check_words(bundle: Path, variant: str | None, sentences: int, seed: int) -> Figures:
    """Check short texts and generated sentences; return `{listener, seed, kinds: {kind: summary}, faulty: [{kind, text,
    heard, faults}]}`, worst first.

    `variant` None means the bundle's default. Raises SonorantError if the bundle or variant is missing, `sentences` is
    below 1, or the language is not supported.
    """
    if sentences < 1:
        raise SonorantError(f"--sentences must be at least 1, not {sentences}")
    voice = Voice.load(bundle, variant=variant)
    language = voice.description.frontend.language
    texts = suite(language)
    if why := not_heard(language) or (texts if isinstance(texts, str) else None):
        raise SonorantError(f"{bundle}: {why.removeprefix('not run: ')}")
    assert not isinstance(texts, str)
    told = [*texts.short_texts(), *texts.sentences(sentences, seed)]
    by = variant or "shipped"
    judged = judge([(by, *each) for each in speak(voice, told, "speak")], language)
    faulty = [
        {"kind": each.kind, "text": each.text, "heard": each.heard, "faults": dataclasses.asdict(each.faults)}
        for each in worst_first(judged)
    ]
    return {"listener": REVISION, "seed": seed, "kinds": summarize_kinds(judged), "faulty": faulty}


def table(found: Figures) -> str:
    lines = [f"{'kind':<16}{'texts':>6}{'faulty':>8}  {'per thousand':<24}" + "".join(f"{name:>10}" for name in FAULTS)]
    for kind, summary in found["kinds"].items():
        low, high = (1000 * end for end in summary["faulty_rate_ci95"])
        rate = f"{1000 * summary['faulty_rate']:.1f} ({low:.1f} to {high:.1f})"
        counts = "".join(f"{summary[name]:>10}" for name in FAULTS)
        lines.append(f"{kind:<16}{summary['texts']:>6}{summary['faulty']:>8}  {rate:<24}{counts}")
    return "\n".join(lines)
