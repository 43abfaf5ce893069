"""Are chapters of 5, 20 and 60 minutes cut into utterances with exact words and exact edges?

Chapters are joined from single sentences (`benchmarks/corpus/chapters.py`), so words and edges are known: with
pauses, breaths, and sentences that were skipped, repeated, begun twice, and added. Claims that 98 % of the sentences
read are in utterances with exactly their words, that the error of edges is at most 40 ms in the median and 150 ms in
95 of 100, and that memory does not grow with the length. `--source` is a folder in the layout of LJSpeech; without it
flite speaks the demo's prompts.
"""

import multiprocessing
import resource
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.corpus.chapters import Chapter, Sentence, room_tone, trim, write_chapter
from benchmarks.report import command, finish, options
from sonorant.audio.wav import read_audio
from sonorant.corpus.importers import CorpusConfig, import_corpus
from sonorant.corpus.manifest import Utterance, read_manifest
from sonorant.extras.long.cutting import MARGIN
from sonorant.text.written_words import plain_words
from tasks.params import load
from tasks.stage import run

MINUTES = (5.0, 20.0, 60.0)
LEAST_EXACT, MOST_MEDIAN_MS, MOST_95_MS, MOST_GROWTH = 0.98, 40.0, 150.0, 1.2
SHORT = {"minutes": [0.7, 1.4], "sentences": 60}
_TOUCHES = 0.15  # seconds by which a sentence must overlap an utterance to be a part of it


def main() -> None:
    parser = command(__doc__)
    add = parser.add_argument
    add("--source", type=Path, help="folder with metadata.csv and wavs/; without it flite speaks the demo's prompts")
    add("--sentences", type=int, default=1000, help="prompts for flite (default 1000)")
    add("--minutes", type=float, nargs="+", default=MINUTES, help="lengths of the chapters (default 5 20 60)")
    add("--seed", type=int, default=1, help="what becomes of which sentence (default 1)")
    arguments = options(parser, SHORT)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sentences, tone, rate = _sentences(arguments.source, arguments.sentences, folder)
        rows = []
        for number, minutes in enumerate(arguments.minutes):
            source = folder / f"in{number}"
            source.mkdir()
            seed = arguments.seed + number
            chapter = write_chapter(source, "chapter", sentences, tone, rate, 60 * minutes, seed)
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                cpu, memory = pool.submit(_cut_apart, source, folder / f"out{number}").result()
            utterances = read_manifest(folder / f"out{number}" / "manifest.jsonl")
            cost = {"cpu_seconds_an_hour": round(cpu / chapter.seconds * 3600), "memory_mib": round(memory)}
            rows.append({"minutes": minutes} | judge(chapter, utterances) | cost)
    result = {
        "source": "recordings" if arguments.source else "flite",
        "seed": arguments.seed,
        "chapters": rows,
        "exact": _share(rows, "exact"),
        "memory_growth": round(rows[-1]["memory_mib"] / rows[0]["memory_mib"], 3),
    }
    claims = {
        f"{LEAST_EXACT:.0%} of the sentences with exactly their words": result["exact"] >= LEAST_EXACT,
        f"edges: median at most {MOST_MEDIAN_MS:.0f} ms": all(row["edge_ms"]["50"] <= MOST_MEDIAN_MS for row in rows),
        f"edges: 95 % at most {MOST_95_MS:.0f} ms": all(row["edge_ms"]["95"] <= MOST_95_MS for row in rows),
        "memory does not grow with the length": result["memory_growth"] <= MOST_GROWTH,
    }
    finish("long_recordings", result, claims, arguments)


def _sentences(source: Path | None, count: int, folder: Path) -> tuple[list[Sentence], np.ndarray, int]:
    kind = CorpusConfig(kind="ljspeech" if source else "demo", path="unused", sentences=count)
    import_corpus(source or Path(load("corpus", CorpusConfig).path), folder / "corpus", kind)
    sentences, silences, rate = [], [], 0
    for utterance in read_manifest(folder / "corpus" / "manifest.jsonl"):
        samples, rate = read_audio(folder / "corpus" / str(utterance.audio))
        speech, silence = trim(samples, rate)
        silences.append(silence)
        if len(speech):
            sentences.append(Sentence(speech, utterance.text))
    return sentences, room_tone(silences, rate), rate


def _cut_apart(source: Path, out: Path) -> tuple[float, float]:
    """CPU seconds of all processes together, and the largest process's peak MiB. Runs in a separate process."""
    import_corpus(source, out, CorpusConfig(kind="long", path=str(source)))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used), max(one.ru_maxrss for one in used) / 1024


def judge(chapter: Chapter, utterances: Sequence[Utterance]) -> dict[str, object]:
    """For sentences read that are in the text: the fraction in utterances with exactly their words, and the errors
    in ms of edges that are a sentence's."""
    cuts = [(float(one.start or 0) + MARGIN, float(one.end or 0) - MARGIN, one.text) for one in utterances]
    parts = [
        [
            place
            for place, spoken in enumerate(chapter.spoken)
            if min(end, spoken.end) - max(start, spoken.start) > _TOUCHES
        ]
        for start, end, _ in cuts
    ]
    # Utterances that share a sentence are judged together, because a long sentence may be cut.
    groups: list[tuple[list[int], set[int]]] = []
    for place, own in enumerate(parts):
        if groups and groups[-1][1] & set(own):
            groups[-1][0].append(place)
            groups[-1][1].update(own)
        else:
            groups.append(([place], set(own)))
    exact: set[int] = set()
    wrong, errors = [], []
    for members, shared in groups:
        said = [chapter.spoken[place].text for place in sorted(shared)]
        told = plain_words(" ".join(cuts[place][2] for place in members))
        if None in said or told != plain_words(" ".join(map(str, said))):
            wrong.append({"told": " ".join(told), "said": said})
            continue
        exact |= shared
        errors += [
            abs(cuts[members[0]][0] - chapter.spoken[min(shared)].start),
            abs(cuts[members[-1]][1] - chapter.spoken[max(shared)].end),
        ]
    read = [place for place, spoken in enumerate(chapter.spoken) if spoken.text is not None]
    inside = {place for own in parts for place in own}
    return {
        "sentences": len(read),
        "exact": round(len(exact) / max(1, len(read)), 4),
        "left_out": len([place for place in read if place not in inside]),
        "wrong": wrong[:20],
        "not_in_the_text": len(chapter.spoken) - len(read),
        "taken_for_the_text": len([place for place in inside if chapter.spoken[place].text is None]),
        "skipped": len(chapter.skipped),
        "utterances": len(cuts),
        "edge_ms": {
            str(share): round(1000 * float(np.percentile(errors, share)), 1) if errors else 1e6
            for share in (50, 90, 95, 99)
        },
    }


def _share(rows: list[dict[str, object]], name: str) -> float:
    """Fraction over all chapters, with equal weight per sentence."""
    weights = np.array([row["sentences"] for row in rows], dtype=float)
    return round(float((np.array([row[name] for row in rows], dtype=float) * weights).sum() / weights.sum()), 4)


if __name__ == "__main__":
    run(main)
