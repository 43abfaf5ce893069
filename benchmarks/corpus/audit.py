"""How many faulty transcripts does the audit find?

Faults are planted into recordings: swapped texts (4 %), a word missing or added at an edge (3 %) or inside (3 %),
sound cut at an edge (3 %). Claims that at least 99 % of the swapped texts, 90 % of the words at an edge and 85 % of
the cut sounds are found, and that at most 2 % of the other utterances are flagged. `--source` is a folder in the
layout of LJSpeech; without it flite speaks the demo's prompts, more clearly than a person.
"""

import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.report import command, finish, options
from sonorant.audio.conditioning import ConditionConfig
from sonorant.audio.wav import read_audio, write_wav
from sonorant.corpus.audit.audit import AuditConfig, audit
from sonorant.corpus.audit.findings import Audited, Fault, read_audit
from sonorant.corpus.importers import CorpusConfig, import_corpus
from sonorant.corpus.manifest import Utterance, read_manifest, write_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.text import TextConfig
from tasks.params import load
from tasks.stage import run

SHARES = {"swapped": 0.04, "edge": 0.03, "inside": 0.03, "cut": 0.03}
AIMS = {"swapped": 0.99, "edge": 0.90, "cut": 0.85}
MOST_GOOD = 0.02
CUT_SECONDS = (0.15, 0.4)
SHORT = {"sentences": 160, "steps": 60}


def main() -> None:
    parser = command(__doc__)
    add = parser.add_argument
    add("--source", type=Path, help="folder with metadata.csv and wavs/; without it flite speaks the demo's prompts")
    add("--sentences", type=int, default=1200, help="prompts for flite (default 1200)")
    add("--seed", type=int, default=1, help="which utterances are made faulty, and how (default 1)")
    add("--steps", type=int, help="training steps of an aligner (default: audit.steps)")
    add("--sources", nargs="+", help="what judges (default: audit.sources)")
    add("--cache", type=Path, help="folder to keep what was found, for another run")
    arguments = options(parser, SHORT)
    config = load("audit", AuditConfig)
    config = replace(
        config,
        sources=tuple(arguments.sources or config.sources),
        steps=arguments.steps or config.steps,
        drop_above=None,
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        import_corpus(*source_of(arguments.source, arguments.sentences, folder / "corpus"))
        planted = plant(folder / "corpus", random.Random(arguments.seed))
        settings, condition = load("prepare", PrepareConfig), load("condition", ConditionConfig)
        frontend, cache = load("text", TextConfig).frontend, arguments.cache or folder / "cache"
        started = time.perf_counter()
        prepare(folder / "corpus", folder / "prepared", settings, frontend, condition=condition, cache=cache)
        audit_started = time.perf_counter()
        audit(folder / "corpus", folder / "prepared", folder / "audit", config, frontend, cache=cache)
        took = {"prepare": audit_started - started, "audit": time.perf_counter() - audit_started}
        audited = read_audit(folder / "audit" / "audit.jsonl")
        hours = sum(u.seconds or 0 for u in read_manifest(folder / "prepared" / "manifest.jsonl")) / 3600
    result, claims = count(audited, planted)
    result |= {
        "source": "recordings" if arguments.source else "flite",
        "hours": round(hours, 3),
        "sources": list(config.sources),
        "steps": config.steps,
        "doubt": config.doubt,
        "seed": arguments.seed,
        "seconds_a_recorded_hour": {stage: round(seconds / hours) for stage, seconds in took.items()},
    }
    finish("audit", result, claims, arguments)


def source_of(source: Path | None, sentences: int, out: Path) -> tuple[Path, Path, CorpusConfig]:
    """Arguments of `import_corpus` for the recordings, or for flite's `sentences` without them."""
    if source is not None:
        return source, out, CorpusConfig(kind="ljspeech", path=str(source))
    prompts = Path(load("corpus", CorpusConfig).path)
    return prompts, out, CorpusConfig(kind="demo", path=str(prompts), sentences=sentences)


Planted = dict[str, tuple[str, Fault]]
"""Key of `SHARES` and fault, by id."""


def plant(corpus: Path, chance: random.Random) -> Planted:
    utterances = {utterance.id: utterance for utterance in read_manifest(corpus / "manifest.jsonl")}
    order = sorted(utterances)
    chance.shuffle(order)
    pool = [word for id in sorted(utterances) for word in utterances[id].text.split()]
    planted: Planted = {}
    for group, share in SHARES.items():
        chosen = [order.pop() for _ in range(round(share * len(utterances)) // 2 * 2)]
        if group == "swapped":
            for one, other in zip(chosen[::2], chosen[1::2], strict=True):
                planted |= dict.fromkeys(_swap(utterances, one, other), (group, Fault.OTHER_TEXT))
            continue
        for id in chosen:
            fault = (
                _cut(corpus, utterances, id, chance) if group == "cut" else _word(utterances, id, group, pool, chance)
            )
            planted[id] = group, fault
    write_manifest(corpus / "manifest.jsonl", utterances.values())
    return planted


def _swap(utterances: dict[str, Utterance], one: str, other: str) -> tuple[str, ...]:
    first, second = utterances[one], utterances[other]
    if first.text == second.text:  # takes of one sentence
        return ()
    utterances[one] = replace(first, text=second.text)
    utterances[other] = replace(second, text=first.text)
    return one, other


def _word(utterances: dict[str, Utterance], id: str, where: str, pool: list[str], chance: random.Random) -> Fault:
    words = utterances[id].text.split()
    start = chance.random() < 0.5
    place = (0 if start else len(words)) if where == "edge" else chance.randrange(1, max(2, len(words) - 1))
    side = ("AT_START" if start else "AT_END") if where == "edge" else "INSIDE"
    added = chance.random() < 0.5 or len(words) < 3
    if added:
        words.insert(place, chance.choice(pool))
    else:
        del words[min(place, len(words) - 1)]
    utterances[id] = replace(utterances[id], text=" ".join(words))
    return Fault[f"{'MISSING' if added else 'ADDED'}_{side}"]


def _cut(corpus: Path, utterances: dict[str, Utterance], id: str, chance: random.Random) -> Fault:
    """Remove the first or last part of the speech, with the silence beyond it."""
    utterance = utterances[id]
    samples, rate = read_audio(corpus / str(utterance.audio))
    block = rate // 100
    level = np.sqrt(np.square(samples[: len(samples) // block * block]).reshape(-1, block).mean(axis=1))
    loud = np.flatnonzero(level > 0.1 * np.percentile(level, 95))
    away = round(chance.uniform(*CUT_SECONDS) * rate)
    start = chance.random() < 0.5
    kept = samples[loud[0] * block + away :] if start else samples[: (loud[-1] + 1) * block - away]
    name = f"cut/{id}.wav"
    write_wav(corpus / name, kept, rate)
    utterances[id] = replace(utterance, audio=name)
    return Fault.CUT_AT_START if start else Fault.CUT_AT_END


def count(audited: list[Audited], planted: Planted) -> tuple[dict[str, object], dict[str, bool]]:
    """Fraction found per group, fraction flagged of the rest, fraction of faults named correctly, and the claims."""
    flags = {row.id: row.fault for row in audited}
    recall = {}
    for group in SHARES:
        own = [flags[id] is not None for id, (kind, _) in planted.items() if id in flags and kind == group]
        recall[group] = round(float(np.mean(own)), 4) if own else 0.0
    good = [fault is not None for id, fault in flags.items() if id not in planted]
    found = [planted[id][1] == fault for id, fault in flags.items() if fault is not None and id in planted]
    claims = {f"{group}: at least {aim:.0%} found": recall[group] >= aim for group, aim in AIMS.items()}
    claims[f"at most {MOST_GOOD:.0%} of the others flagged"] = sum(good) <= MOST_GOOD * len(good)
    return {
        "utterances": len(audited),
        "found": recall,
        "flagged_of_the_others": round(sum(good) / max(1, len(good)), 4),
        "precision": round(len(found) / max(1, len(found) + sum(good)), 4),
        "kind_named_right": round(sum(found) / max(1, len(found)), 4),
    }, claims


if __name__ == "__main__":
    run(main)
