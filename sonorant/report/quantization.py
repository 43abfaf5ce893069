"""What int8 costs, layer by layer, and whether training with it brought anything. Knows nothing of how layers are quantised."""

from __future__ import annotations

from sonorant.report.document import Document
from sonorant.report.figures import with_interval
from sonorant.report.markup import Html, element, note, section, table

MODELS = {"acoustic": "acoustic model", "vocoder": "vocoder"}
METHODS = {"float": "float", "ptq": "after training (PTQ)", "qat": "in training (QAT)"}
OPEN = 12
"""Layers shown at once, the most sensitive; the others open on a click."""


def quantization(found: Document) -> Html:
    """PTQ beside QAT and the sensitivity of every layer, model by model."""
    return section("quantization", "Quantisation", *(_model(found[key], name) for key, name in MODELS.items()))


def _model(found: Document, name: str) -> Html:
    rows = []
    for method, title in METHODS.items():
        figures = found["figures"].get(method)
        if figures is None or figures.not_run:
            rows.append([title, figures.not_run if figures and figures.not_run else "not run"])
        else:
            rows.append([title, with_interval(figures, "loss", ".4f"), with_interval(figures, "log_mel_db", ".3f")])
    layers = sorted(found["sensitivity"].rows(), key=lambda row: (-row["log_mel_db"].number(), row["layer"].text()))
    return element(
        "div",
        element("h3", name[0].upper() + name[1:]),
        note(found["reason"].text()),
        table(f"Validation, {name}", ["quantised", "loss", "log-mel distance, dB"], rows),
        _sensitivity(f"Most sensitive layers, {name}", layers[:OPEN]),
        element("details", element("summary", f"all {len(layers)} layers"), _sensitivity(f"Layers, {name}", layers)),
    )


def _sensitivity(caption: str, layers: list[Document]) -> Html:
    rows = [
        [
            row["layer"].text(),
            row["kind"].text(),
            f"{row['log_mel_db'].number():+.3f}",
            "float" if row["kept_float"].flag() else "int8",
        ]
        for row in layers
    ]
    return table(caption, ["layer", "kind", "this layer alone in int8: log-mel, dB", "kept in"], rows)
