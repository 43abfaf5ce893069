"""Section on a multi-speaker voice, by speaker."""

from sonorant.evaluation.recordings import RECORDINGS
from sonorant.evaluation.report.document import Document, label
from sonorant.evaluation.report.naturalness_section import FIGURES
from sonorant.pages.blocks import Cell, Fold, Part, Section, Table
from sonorant.pages.charts import Charts, intervals

SOUND = ("dnsmos_below_recordings", "speaker_below_recordings", "pitch_correlation", "tempo_ratio")
NOTE = (
    "The shipped voice on each speaker's own held-out sentences; in brackets: 95 % intervals. A voice becomes champion "
    "only if every speaker passes the gates for words and sound."
)


def by_speaker(metrics: Document, shipped: str) -> list[Section]:
    found = metrics.get("speakers")
    rows = {row["speaker"].text(): row for row in found.rows()} if found else {}
    if len(rows) < 2:
        return []
    heard = {name: row["intelligibility"][shipped] for name, row in rows.items() if row.get("intelligibility")}
    above = [
        judged["above_recordings"].chart_row(name, "wer", "+.1f")
        for name, judged in heard.items()
        if not judged.not_run
    ]
    charts = [intervals("Word error rate above the recordings', 95 % interval", "points", above)] if above else []
    head = ["speaker", "sentences judged", *(f"WER of {label(kind)}, %" for kind in (RECORDINGS, shipped))]
    head += ["above, points", *(FIGURES[key][0] for key in SOUND), "ran away"]
    table = Table(caption="By speaker", head=head, rows=[_row(name, row, shipped) for name, row in rows.items()])
    parts: list[Part] = [NOTE, Charts(charts=charts), table]
    if confusion := metrics.get("confusion"):
        parts += _confusion(confusion, shipped)
    return [Section(anchor="speakers", title="Speakers", parts=parts)]


def _row(name: str, row: Document, shipped: str) -> list[Cell]:
    count = row.figure("sentences")
    if not row.get("intelligibility"):
        return [name, count, "no sentence was judged"]
    return [
        name,
        count,
        *(row.estimate("intelligibility", kind, "wer") for kind in (RECORDINGS, shipped)),
        row.estimate("intelligibility", shipped, "above_recordings", "wer", form="+.1f"),
        *(row.estimate("naturalness", shipped, key, form=FIGURES[key][1]) for key in SOUND),
        row.estimate("decoding", shipped, "runaway_rate", scale=100),
    ]


def _confusion(confusion: Document, shipped: str) -> list[Part]:
    ours, theirs = confusion[shipped], confusion[RECORDINGS]
    if ours.not_run:
        return [f"Speaker recognition: {ours.not_run}."]
    rows = [row.chart_row(row["speaker"].text(), "recognised", ".0f", scale=100) for row in ours.rows()]
    chart = intervals("Recognised as the intended speaker, 95 % interval", "% of sentences", rows)
    same = _matrix("Recognised speakers of the recordings", theirs)
    table = _matrix("Recognised speakers of the voice", ours)
    return [Charts(charts=[chart]), table, Fold(summary="the same for the recordings", parts=[same])]


def _matrix(caption: str, found: Document) -> Table:
    rows = found.rows()
    heard_as = list(dict.fromkeys(name for row in rows for name, _ in row["as"].items()))
    cells: list[list[Cell]] = [
        [
            row["speaker"].text(),
            *(row["as"].figure(other) for other in heard_as),
            row.estimate("recognised", form=".0f", scale=100),
        ]
        for row in rows
    ]
    return Table(caption=caption, head=["intended", *heard_as, "correct, %"], rows=cells)
