"""An evaluation to look at and listen to: one HTML page that needs nothing beside it. Knows nothing of how the figures were made."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import jiwer

from sonorant.audio.wav import write_wav
from sonorant.evaluation.evaluation import Evaluation
from sonorant.evaluation.renderings import KINDS
from sonorant.files import atomic_folder, write_jsonl, write_text

FIRST, WORST = 3, 3
"""Sentences to listen to: the first, which nobody picked, and of the others those the voice was understood worst in."""
ROWS = {"recordings": "recordings", "vocoder": "vocoder's copy", "voice": "voice"}
TRANSCRIPT_OF = {"recording": "recordings", "vocoder": "vocoder", "voice": "voice"}

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; } th, td { padding: .3rem .8rem; border-bottom: 1px solid #ccc; text-align: right; }
th:first-child, td:first-child { text-align: left; } .kind { display: inline-block; width: 6rem; color: #555; }
article { border-top: 1px solid #ccc; margin-top: 1.5rem; } audio { height: 2rem; vertical-align: middle; }
.wrong { background: #ffd6d6; } .missing { background: #ffe9b8; text-decoration: line-through; } .small { color: #555; font-size: .9rem; }
"""


@dataclass(frozen=True)
class _Player:
    kind: str
    wav: Path
    heard: str  # HTML


def write_report(out: Path, evaluation: Evaluation) -> None:
    """Write `sentences.jsonl`, `samples/<id>.<kind>.wav` and `index.html` into the folder `out`, all or nothing."""
    with atomic_folder(out) as folder:
        write_jsonl(folder / "sentences.jsonl", _sentences(evaluation))
        articles = []
        for index in chosen(evaluation):
            players = [_player(folder, evaluation, index, kind) for kind in KINDS]
            articles.append(_article(evaluation, index, players))
        write_text(folder / "index.html", _page(evaluation.metrics, articles))


def _sentences(evaluation: Evaluation) -> list[dict[str, Any]]:
    rows = []
    for index, rendering in enumerate(evaluation.renderings):
        heard = {kind: texts[index] for kind, texts in evaluation.transcripts.items()}
        errors = {kind: int(counts.word_errors[index]) for kind, counts in evaluation.counts.items()}
        words = int(evaluation.counts["voice"].words[index])
        rows.append(
            {
                "id": rendering.id,
                "reference": evaluation.references[index],
                "words": words,
                "transcripts": heard,
                "word_errors": errors,
            }
        )
    return rows


def chosen(evaluation: Evaluation) -> list[int]:
    """Indices of the sentences to listen to: the first ones, then the worst of the voice among the rest."""
    counts = evaluation.counts["voice"]
    rest = range(FIRST, len(counts.words))
    worst = sorted(rest, key=lambda index: (-counts.word_errors[index] / counts.words[index], index))
    return [*range(min(FIRST, len(counts.words))), *worst[:WORST]]


def _player(folder: Path, evaluation: Evaluation, index: int, kind: str) -> _Player:
    rendering = evaluation.renderings[index]
    # An id may hold slashes; its file must not leave the folder. The number keeps two ids apart that differ in such characters only.
    plain = "".join(character if character.isalnum() or character in "-_" else "_" for character in rendering.id)
    name = plain if plain == rendering.id else f"{plain}-{index}"
    wav = folder / "samples" / f"{name}.{kind}.wav"
    write_wav(wav, rendering.samples(kind), evaluation.sample_rate)
    transcript = evaluation.transcripts[TRANSCRIPT_OF[kind]][index]
    return _Player(kind, wav, marked(evaluation.normalizer(evaluation.references[index]), evaluation.normalizer(transcript)))


def marked(reference: str, transcript: str) -> str:
    """HTML of a transcript, both texts normalised: wrong and superfluous words marked, missing ones struck through."""
    output = jiwer.process_words(reference, transcript)
    said, heard = output.references[0], output.hypotheses[0]
    parts = []
    for chunk in output.alignments[0]:
        words = escape(" ".join(heard[chunk.hyp_start_idx : chunk.hyp_end_idx]))
        if chunk.type == "equal":
            parts.append(words)
        elif chunk.type == "delete":
            missing = escape(" ".join(said[chunk.ref_start_idx : chunk.ref_end_idx]))
            parts.append(f'<span class="missing">{missing}</span>')
        else:
            parts.append(f'<span class="wrong">{words}</span>')
    return " ".join(parts)


def _article(evaluation: Evaluation, index: int, players: list[_Player]) -> str:
    rows = "".join(
        f'<p><span class="kind">{player.kind}</span> <audio controls preload="none" src="{_data_uri(player.wav)}"></audio>'
        f"<br>{player.heard}</p>"
        for player in players
    )
    kind = "first" if index < FIRST else "worst"
    heading = f"{escape(evaluation.renderings[index].id)} <span class='small'>({kind})</span>"
    return f"<article><h3>{heading}</h3><p><b>{escape(evaluation.references[index])}</b></p>{rows}</article>"


def _data_uri(wav: Path) -> str:
    return "data:audio/wav;base64," + base64.b64encode(wav.read_bytes()).decode("ascii")


def _page(metrics: dict[str, Any], articles: list[str]) -> str:
    judged = metrics["intelligibility"]
    voice = judged["voice"]
    note = (
        f"{voice['utterances']} held-out sentences, {voice['words']} words, heard by {escape(voice['revision'])} (open vocabulary), "
        f"normalised by {escape(voice['normalizer'])}. In brackets: 95 % bootstrap interval over sentences. "
        f"Voice above recordings, paired: {_rate(voice['above_recordings'], 'wer', '+.1f')} points."
    )
    rows = "".join(
        f"<tr><td>{label}</td><td>{_rate(judged[kind], 'wer')}</td><td>{_rate(judged[kind], 'cer')}</td></tr>"
        for kind, label in ROWS.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Evaluation of the voice</title><style>{_STYLE}</style>'
        f"<h1>Evaluation of the voice</h1><table><tr><th></th><th>WER, %</th><th>CER, %</th></tr>{rows}</table>"
        f'<p class="small">{note}</p><h2>Speed</h2>{_speed(metrics["speed"])}<h2>Listen</h2>'
        '<p class="small">Under each player what the recogniser heard: <span class="wrong">wrong</span>, '
        f'<span class="missing">missing</span>.</p>{"".join(articles)}</html>\n'
    )


def _rate(summary: dict[str, Any], key: str, form: str = ".1f") -> str:
    low, high = summary[f"{key}_ci95"]
    return f"{summary[key]:{form}} [{low:{form}}, {high:{form}}]"


def _speed(speed: dict[str, Any]) -> str:
    head = "<tr><th>runtime</th><th>sentence</th><th>threads</th><th>real-time factor</th><th>p50, ms</th><th>p95, ms</th></tr>"
    rows = []
    for runtime, classes in speed.items():
        if isinstance(classes, str):
            rows.append(f'<tr><td>{escape(runtime)}</td><td colspan="5">{escape(classes)}</td></tr>')
            continue
        for name, threads in classes.items():
            rows += [
                f"<tr><td>{escape(runtime)}</td><td>{name}, {figure['seconds']:.1f} s</td><td>{figure['threads']}</td>"
                f"<td>{figure['rtf']:.4f}</td><td>{figure['p50_ms']:.1f}</td><td>{figure['p95_ms']:.1f}</td></tr>"
                for figure in threads.values()
            ]
    return f"<table>{head}{''.join(rows)}</table>"
