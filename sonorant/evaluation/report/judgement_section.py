"""Sections on word errors, naturalness, distances and runaways."""

from sonorant.evaluation.report.document import RECORDINGS, Document, label, ordered
from sonorant.pages.blocks import Cell, Fold, Part, Section, Table
from sonorant.pages.charts import ChartRow, Charts, intervals

DISTANCES = {
    "mcd_db": ("mel-cepstral distance, dB", ".2f"),
    "log_mel_db": ("log-mel distance, dB", ".2f"),
    "f0_rmse_cents": ("pitch error, cents", ".0f"),
    "duration_ratio": ("duration ratio", ".3f"),
    "dnsmos": ("DNSMOS", ".2f"),
    "speaker_similarity": ("speaker similarity", ".3f"),
}
OPTIONAL = {"dnsmos", "speaker_similarity", "log_mel_db"}


def intelligibility(metrics: Document, shipped: str) -> Section:
    """Charts of word errors and DNSMOS, and a table of error rates."""
    judged = metrics["intelligibility"]
    kinds = ordered(kind for kind, _ in judged.measured())
    heard = [_row(judged[kind], kind, "wer", ".1f", shipped) for kind in kinds]
    rated = [_row(found, kind, "ovrl", ".2f", shipped) for kind, found in _ratings(metrics["naturalness"]).items()]
    charts = [intervals("Word error rate, 95 % interval", "%", heard)] if heard else []
    charts += [intervals("Naturalness (DNSMOS, 1 to 5), 95 % interval", "", rated, start=1.0)] if rated else []
    head = ["spoken by", "WER, %", "CER, %", "WER above recordings, points", "WER above fp32, points"]
    rows: list[list[Cell]] = [_error_rates(kind, judged[kind]) for kind in kinds]
    rows += [[label(kind), why] for kind, why in judged.absent()]
    tested = [[key.replace("_", " "), str(value.value)] for key, value in metrics["evaluator"].items()]
    passed = metrics["evaluator"]["passed"]
    state = "did not run" if passed.not_run else ("passed" if passed.flag() else "failed")
    self_test = f"the evaluator's test of itself {state}"
    parts: list[Part] = [
        _how(judged[RECORDINGS]),
        Charts(charts=charts),
        Table(caption="Error rates", head=head, rows=rows),
        Fold(summary=self_test, parts=[Table(caption=self_test, head=["", "found"], rows=tested)]),
    ]
    return Section(anchor="intelligibility", title="Words and naturalness", parts=parts)


def distances(metrics: Document) -> Section:
    """Distances of copies and variants from the recordings."""
    measured = metrics["naturalness"]
    rows: list[list[Cell]] = []
    for kind in ordered(kind for kind, _ in measured.items()):
        here = measured[kind]
        figures = (
            [here.not_run] if here.not_run else [_distance(here, key, form) for key, (_, form) in DISTANCES.items()]
        )
        rows.append([label(kind), *figures])
    head = ["", *(title for title, _ in DISTANCES.values())]
    parts = [Table(caption="Distances", head=head, rows=rows)]
    return Section(anchor="distances", title="Distances", parts=parts)


def decoding(metrics: Document) -> list[Section]:
    """Runaways of autoregressive voices; empty for others."""
    codec, decoded = metrics.get("codec"), metrics.get("decoding")
    if codec is None or decoded is None:
        return []
    used = [[f"{place}", f"{100 * use.number():.1f}"] for place, use in enumerate(codec["use"].rows(), 1)]
    amount = f"{codec['bits_per_second'].number():.0f} bit/s, {codec['frames_per_second'].number():.2f} frames a second"
    head = ["variant", "sentences", "ran away", "rate, % [95 % interval]", "retries", "still bad", "finish reasons"]
    rows = [_decoded(variant, found) for variant, found in decoded.items()]
    parts: list[Part] = [
        f"The codec has {len(used)} codebooks, {amount}.",
        Table(caption="Codes in use on the corpus", head=["codebook", "of its codes, %"], rows=used),
        "A sentence ran away if a guard had to end its first attempt: its budget was spent, it stood on one phoneme, "
        "fell silent or repeated itself. It is then spoken again in another way, and the best attempt is kept.",
        Table(caption="Decoding", head=head, rows=rows, prose=["finish reasons"]),
    ]
    return [Section(anchor="decoding", title="Codec and decoding", parts=parts)]


def _ratings(natural: Document) -> dict[str, Document]:
    """DNSMOS with intervals by kind, where measured."""
    rated = {kind: found["dnsmos"] for kind, found in natural.measured() if found.get("dnsmos")}
    return {kind: rated[kind] for kind in ordered(rated) if not rated[kind].not_run and rated[kind].get("ovrl_ci95")}


def _row(found: Document, kind: str, key: str, form: str, shipped: str) -> ChartRow:
    low, high = found[f"{key}_ci95"].interval()
    value, said = found[key].number(), found.estimate(key, form)
    return ChartRow(name=label(kind), value=value, low=low, high=high, said=said, strong=kind == shipped)


def _error_rates(kind: str, found: Document) -> list[Cell]:
    return [
        label(kind),
        found.estimate("wer"),
        found.estimate("cer"),
        *map(_above, (found.get("above_recordings"), found.get("above_fp32"))),
    ]


def _above(pair: Document | None) -> str | None:
    return (pair.not_run or pair.estimate("wer", "+.1f")) if pair else None


def _how(judged: Document) -> str:
    if judged.not_run:
        return f"The words were not judged: {judged.not_run}."
    read = judged["read_in_training"].number() if judged.get("read_in_training") else 0
    learned = f"sentences, not held out: training read {read:.0f} of them in another take"
    kind = learned if read else "held-out sentences"
    amount = f"{judged['utterances'].number():.0f} {kind}, {judged['words'].number():.0f} words"
    by = f"heard by {judged['revision'].text()} (open vocabulary), normalised by {judged['normalizer'].text()}"
    return f"{amount}, {by}. In brackets: 95 % bootstrap interval over sentences, paired where two are compared."


def _distance(here: Document, key: str, form: str) -> str | None:
    found = here.get(key) if key in OPTIONAL else here[key]
    if found is None:
        return None
    if found.not_run:
        return found.not_run
    if key == "dnsmos":
        return found.estimate("ovrl", form) if found.get("ovrl_ci95") else f"{found['ovrl'].number():{form}}"
    if key == "speaker_similarity":
        own, ceiling = (found[part].number() for part in ("mean", "recordings"))
        floor = f"other speakers {found.figure('others', form)}, " if found.get("others") else ""
        return f"{own:{form}} ({floor}recordings {ceiling:{form}})"
    return f"{found.number():{form}}"


def _decoded(variant: str, found: Document) -> list[Cell]:
    if found.not_run:
        return [variant, found.not_run]
    reasons = ", ".join(f"{name} {count.number():.0f}" for name, count in found["finish_reasons"].items())
    sentences, runaways, retries, bad = (
        found.figure(key, ".0f") for key in ("sentences", "runaways", "retries", "unrecovered")
    )
    return [variant, sentences, runaways, found.estimate("runaway_rate", scale=100), retries, bad, reasons]
