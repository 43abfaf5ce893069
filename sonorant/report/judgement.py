"""How the voice was understood and how far it is from the recordings. Knows nothing of speed and of the choice."""

from __future__ import annotations

from sonorant.report.charts import ChartRow, intervals
from sonorant.report.document import Document
from sonorant.report.figures import with_interval
from sonorant.report.kinds import RECORDINGS, label, ordered
from sonorant.report.markup import Html, element, note, section, table

DISTANCES = {
    "mcd_db": ("mel-cepstral distance, dB", ".2f"),
    "log_mel_db": ("log-mel distance, dB", ".2f"),
    "f0_rmse_cents": ("pitch error, cents", ".0f"),
    "duration_ratio": ("duration ratio", ".3f"),
    "dnsmos": ("DNSMOS", ".2f"),
    "speaker_similarity": ("speaker similarity", ".3f"),
}
OPTIONAL = {"dnsmos", "speaker_similarity", "log_mel_db"}


def intelligibility(metrics: Document, shipped: str) -> Html:
    """Error rates of recordings, vocoder's copies and variants with their intervals, as a chart and a table."""
    judged = metrics["intelligibility"]
    kinds = ordered(kind for kind, found in judged.items() if not found.not_run)
    chart = intervals(
        "Word error rate, 95 % interval", "%", [_row(judged[kind], kind, kind == shipped) for kind in kinds]
    )
    rows = [
        [
            label(kind),
            with_interval(judged[kind], "wer"),
            with_interval(judged[kind], "cer"),
            _above(judged[kind], "above_recordings"),
            _above(judged[kind], "above_fp32"),
        ]
        for kind in kinds
    ]
    rows += [[label(kind), found.not_run] for kind, found in judged.items() if found.not_run]
    head = ["spoken by", "WER, %", "CER, %", "WER above recordings, points", "WER above fp32, points"]
    return section(
        "intelligibility",
        "Understood",
        _how(judged[RECORDINGS]),
        element("div", chart, class_="charts"),
        table("Error rates", head, rows),
    )


def distances(metrics: Document) -> Html:
    """Distances from the recordings."""
    measured = metrics["naturalness"]
    rows = []
    for kind in ordered(kind for kind, _ in measured.items()):
        here = measured[kind]
        rows.append(
            [
                label(kind),
                *(
                    [here.not_run]
                    if here.not_run
                    else [_distance(here, key, form) for key, (_, form) in DISTANCES.items()]
                ),
            ]
        )
    return section(
        "distances",
        "Beside the recordings",
        table("Distances", ["", *(title for title, _ in DISTANCES.values())], rows),
    )


def evaluator(metrics: Document) -> Html:
    """How the evaluator's test of itself ended."""
    tested = metrics["evaluator"]
    words = [f"{key.replace('_', ' ')}: {value.value}" for key, value in tested.items()]
    return note("The evaluator's test of itself: " + ", ".join(words) + ".")


def _row(judged: Document, kind: str, strong: bool) -> ChartRow:
    low, high = judged["wer_ci95"].interval()
    return ChartRow(
        name=label(kind),
        value=judged["wer"].number(),
        low=low,
        high=high,
        said=with_interval(judged, "wer"),
        strong=strong,
    )


def _above(judged: Document, key: str) -> str | None:
    found = judged.get(key)
    return None if found is None else (found.not_run or with_interval(found, "wer", "+.1f"))


def _how(judged: Document) -> Html:
    amount = f"{judged['utterances'].number():.0f} held-out sentences, {judged['words'].number():.0f} words"
    by = f"heard by {judged['revision'].text()} (open vocabulary), normalised by {judged['normalizer'].text()}"
    return note(f"{amount}, {by}. In brackets: 95 % bootstrap interval over sentences, paired where two are compared.")


def _distance(here: Document, key: str, form: str) -> str | None:
    found = here.get(key) if key in OPTIONAL else here[key]
    if found is None:
        return None
    if found.not_run:
        return found.not_run
    if key == "dnsmos":
        return with_interval(found, "ovrl", form) if found.get("ovrl_ci95") else f"{found['ovrl'].number():{form}}"
    if key == "speaker_similarity":
        own, floor, ceiling = (found[part].number() for part in ("mean", "others", "recordings"))
        return f"{own:{form}} (other speakers {floor:{form}}, recordings {ceiling:{form}})"
    return f"{found.number():{form}}"
