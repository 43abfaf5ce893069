"""Section on a multi-speaker voice, by speaker."""

from collections.abc import Mapping

from sonorant.evaluation.report.document import RECORDINGS, Document, label
from sonorant.evaluation.report.naturalness_section import FIGURES
from sonorant.pages.blocks import Cell, Fold, Part, Section, Table
from sonorant.pages.charts import Chart, ChartRow, Charts, intervals

SOUND = ("dnsmos_below_recordings", "speaker_below_recordings", "pitch_correlation", "tempo_ratio")
"""Sound figures shown; metrics.json has all."""
NOTE = (
    "Each speaker's own held-out sentences, as the voice that ships speaks them; in brackets 95 % intervals. promote "
    "asks each speaker for words and sound: one who babbles keeps the voice from becoming champion."
)


def by_speaker(metrics: Document, shipped: str) -> list[Section]:
    """Figures by speaker; empty for a single speaker."""
    found = metrics.get("speakers")
    rows = {row["speaker"].text(): row for row in found.rows()} if found else {}
    if len(rows) < 2:
        return []
    heard = {name: row["intelligibility"] for name, row in rows.items() if row.get("intelligibility")}
    charts = [_words(heard, shipped)] if any(not found[shipped].not_run for found in heard.values()) else []
    parts: list[Part] = [NOTE, Charts(charts=charts), _table(rows, shipped)]
    if confusion := metrics.get("confusion"):
        parts += _confusion(confusion, shipped)
    return [Section(anchor="speakers", title="Speakers", parts=parts)]


def _words(heard: Mapping[str, Document], shipped: str) -> Chart:
    rows = []
    for name, found in heard.items():
        above = found[shipped]["above_recordings"]
        low, high = above["wer_ci95"].interval()
        said = above.estimate("wer", "+.1f")
        rows.append(ChartRow(name=name, value=above["wer"].number(), low=low, high=high, said=said))
    return intervals("Words misheard beyond the recordings', 95 % interval", "points", rows)


def _table(rows: Mapping[str, Document], shipped: str) -> Table:
    head = ["speaker", "sentences judged", *(f"WER of {label(kind)}, %" for kind in (RECORDINGS, shipped))]
    head += ["above, points", *(FIGURES[key][0] for key in SOUND), "ran away"]
    return Table(caption="By speaker", head=head, rows=[_row(name, row, shipped) for name, row in rows.items()])


def _row(name: str, row: Document, shipped: str) -> list[Cell]:
    count = f"{row['sentences'].number():.0f}"
    if not row.get("intelligibility"):
        return [name, count, "not one sentence was judged"]
    heard, sound, went = (row[key].get(shipped) for key in ("intelligibility", "naturalness", "decoding"))
    words: list[Cell] = [None] * 3
    if heard:
        theirs = row["intelligibility"][RECORDINGS]
        words = [_estimate(theirs, "wer"), _estimate(heard, "wer"), _above(heard)]
    figures = [_figure(sound, key) for key in SOUND]
    return [name, count, *words, *figures, went.estimate("runaway_rate", scale=100) if went else None]


def _estimate(found: Document, key: str) -> Cell:
    return found.not_run or found.estimate(key)


def _above(heard: Document) -> Cell:
    return heard.not_run or heard["above_recordings"].estimate("wer", "+.1f")


def _figure(sound: Document | None, key: str) -> Cell:
    value = sound.get(key) if sound else None
    return None if value is None or sound is None else (value.not_run or sound.estimate(key, FIGURES[key][1]))


def _confusion(confusion: Document, shipped: str) -> list[Part]:
    """Confusion matrix of the shipped variant, and of the recordings as ceiling."""
    ours, theirs = confusion.get(shipped), confusion.get(RECORDINGS)
    if ours is None or theirs is None:
        return []
    if ours.not_run:
        return [f"As whom each sentence is recognised: {ours.not_run}."]
    rows = [
        ChartRow(
            name=row["speaker"].text(),
            value=100 * row["recognised"].number(),
            low=100 * row["recognised_ci95"].interval()[0],
            high=100 * row["recognised_ci95"].interval()[1],
            said=row.estimate("recognised", ".0f", scale=100),
        )
        for row in ours.rows()
    ]
    chart = intervals("Recognised as the speaker who was meant, 95 % interval", "% of sentences", rows)
    table = _matrix("As whom the voice's sentences are recognised", ours)
    same = _matrix("As whom the recordings are recognised", theirs)
    return [Charts(charts=[chart]), table, Fold(summary="the same of the recordings", parts=[same])]


def _matrix(caption: str, found: Document) -> Table:
    """Rows: intended speaker; columns: recognised, in sentences."""
    rows = {row["speaker"].text(): row for row in found.rows()}
    heard_as = list(dict.fromkeys(name for row in rows.values() for name, _ in row["as"].items()))
    cells: list[list[Cell]] = [
        [name, *(row["as"].figure(other, ".0f") for other in heard_as), row.estimate("recognised", ".0f", scale=100)]
        for name, row in rows.items()
    ]
    return Table(caption=caption, head=["meant", *heard_as, "own, %"], rows=cells)
