"""Sections on word errors, naturalness, distances and runaways."""

from sonorant.evaluation.recordings import RECORDINGS
from sonorant.evaluation.report.document import Document, label, ordered
from sonorant.pages.blocks import Cell, Fold, Part, Section, Table
from sonorant.pages.charts import Charts, intervals

DISTANCES = {
    "mel-cepstral distance, dB": (("mcd_db",), ".2f"),
    "log-mel distance, dB": (("log_mel_db",), ".2f"),
    "pitch error, cents": (("f0_rmse_cents",), ".0f"),
    "duration ratio": (("duration_ratio",), ".3f"),
    "DNSMOS": (("dnsmos", "ovrl"), ".2f"),
}
"""Key path and number format of each column."""


def intelligibility(metrics: Document, shipped: str) -> Section:
    judged = metrics["intelligibility"]
    kinds = ordered(kind for kind, _ in judged.measured())
    heard = [judged[kind].chart_row(label(kind), "wer", strong=kind == shipped) for kind in kinds]
    ratings = dict(metrics["naturalness"].measured())
    rated = [
        found.chart_row(label(kind), "ovrl", ".2f", strong=kind == shipped)
        for kind in ordered(ratings)
        if (found := ratings[kind].get("dnsmos")) and not found.not_run and found.get("ovrl_ci95")
    ]
    charts = [intervals("Word error rate, 95 % interval", "%", heard)] if heard else []
    charts += [intervals("Naturalness (DNSMOS, 1 to 5), 95 % interval", "", rated, start=1.0)] if rated else []
    head = ["spoken by", "WER, %", "CER, %", "WER above recordings, points", "WER above fp32, points"]
    rows: list[list[Cell]] = [[label(kind), *_error_rates(judged[kind])] for kind in kinds]
    rows += [[label(kind), why] for kind, why in judged.absent()]
    tested = [[key.replace("_", " "), str(value.value)] for key, value in metrics["evaluator"].items()]
    self_test = "self-test of the evaluator: " + ("not run" if metrics["evaluator"]["passed"].not_run else "passed")
    parts: list[Part] = [
        _how(judged[RECORDINGS]),
        Charts(charts=charts),
        Table(caption="Error rates", head=head, rows=rows),
        Fold(summary=self_test, parts=[Table(caption=self_test, head=["", "found"], rows=tested)]),
    ]
    return Section(anchor="intelligibility", title="Words and naturalness", parts=parts)


def distances(metrics: Document) -> Section:
    measured = metrics["naturalness"]
    rows: list[list[Cell]] = [
        [label(kind), *([here.not_run] if here.not_run else _distances(here))]
        for kind in ordered(kind for kind, _ in measured.items())
        if (here := measured[kind])
    ]
    table = Table(caption="Distances", head=["", *DISTANCES, "speaker similarity"], rows=rows)
    return Section(anchor="distances", title="Distances", parts=[table])


def decoding(metrics: Document) -> list[Section]:
    """Return the section on decoding, or nothing for voices that are not autoregressive."""
    codec, decoded = metrics.get("codec"), metrics.get("decoding")
    if codec is None or decoded is None:
        return []
    used = [[f"{place}", f"{100 * use.number():.1f}"] for place, use in enumerate(codec["use"].rows(), 1)]
    amount = f"{codec['bits_per_second'].number():.0f} bit/s, {codec['frames_per_second'].number():.2f} frames/s"
    head = ["variant", "sentences", "ran away", "rate, % [95 % interval]", "retries", "still bad", "finish reasons"]
    rows = [[variant, *_decoded(found)] for variant, found in decoded.items()]
    parts: list[Part] = [
        f"The codec has {len(used)} codebooks, {amount}.",
        Table(caption="Codes used by the corpus", head=["codebook", "codes used, %"], rows=used),
        "A sentence ran away if a guard stopped its first attempt: it exceeded its length limit, stayed on one "
        "phoneme, fell silent or repeated itself. It is then tried again, and the best attempt is kept.",
        Table(caption="Decoding", head=head, rows=rows, prose=["finish reasons"]),
    ]
    return [Section(anchor="decoding", title="Codec and decoding", parts=parts)]


def _error_rates(found: Document) -> list[Cell]:
    above = (found.estimate(f"above_{kind}", "wer", form="+.1f") for kind in (RECORDINGS, "fp32"))
    return [found.estimate("wer"), found.estimate("cer"), *above]


def _how(judged: Document) -> str:
    if judged.not_run:
        return f"Words were not judged: {judged.not_run}."
    read = judged.figure("read_in_training") or "0"
    kind = "held-out sentences" if read == "0" else f"sentences, not held out: {read} are also in the training set"
    amount = f"{judged['utterances'].number():.0f} {kind}, {judged['words'].number():.0f} words"
    by = f"transcribed by {judged['revision'].text()} (open vocabulary), normalised by {judged['normalizer'].text()}"
    return f"{amount}, {by}. In brackets: 95 % bootstrap intervals over sentences; differences are paired."


def _distances(here: Document) -> list[Cell]:
    cells: list[Cell] = [here.estimate(*path, form=form) for path, form in DISTANCES.values()]
    keys = ("mean", "others", "recordings")
    own, floor, ceiling = (here.figure("speaker_similarity", key, form=".3f") for key in keys)
    if ceiling is None or not ceiling[0].isdigit():  # a reason
        return [*cells, own]
    return [*cells, f"{own} ({f'other speakers {floor}, ' if floor else ''}recordings {ceiling})"]


def _decoded(found: Document) -> list[Cell]:
    if found.not_run:
        return [found.not_run]
    reasons = ", ".join(f"{name} {count.number():.0f}" for name, count in found["finish_reasons"].items())
    rate = found.estimate("runaway_rate", scale=100)
    counts = [found.figure(key) for key in ("sentences", "runaways", "retries", "unrecovered")]
    return [*counts[:2], rate, *counts[2:], reasons]
