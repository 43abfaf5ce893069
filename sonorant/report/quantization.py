"""What int8 costs, layer by layer, and whether training with it brought anything. Knows nothing of how layers are
quantised."""

from __future__ import annotations

from collections.abc import Sequence

from sonorant.report.document import Document
from sonorant.report.figures import with_interval
from sonorant.report.markup import Cell, Html, badge, element, join, note, section, table

METHODS = {"float": "float", "ptq": "after training (PTQ)", "qat": "in training (QAT)"}
MEASURES = {"log_mel_db": "log-mel distance, dB", "wrong_codes_percent": "wrong codes, %"}
"""What stands beside the loss, by its key."""
OPEN = 12
"""Layers shown at once, the most sensitive; the others open on a click."""


def quantization(found: Document, names: Sequence[str]) -> Html:
    """PTQ beside QAT and the sensitivity of every layer, model by model. `names`: of the model that speaks and of the
    one that sounds."""
    return section("quantization", "Quantisation", *map(_model, (found["predictor"], found["waveform"]), names))


def _model(found: Document, name: str) -> Html:
    shipped, measure = found["shipped"].text(), found["measure"].text()
    methods = [
        _method(found["figures"][method], title, method == shipped, measure) for method, title in METHODS.items()
    ]
    head = ["quantised", "loss", MEASURES[measure], "loss above float, %"]
    layers = sorted(found["sensitivity"].rows(), key=lambda row: (-row["loss_percent"].number(), row["layer"].text()))
    kept = sum(row["stays_float"].flag() for row in layers)
    tried = f"Each layer alone in int8: {kept} of {len(layers)} stay in float, those whose loss rises by more than "
    parts = [
        element("h3", name[0].upper() + name[1:]),
        note(found["sentence"].text()),
        table(f"On the validation split, {name}", head, methods),
    ]
    if layers:  # a model that others trained has none to try
        parts.append(note(f"{tried}{found['max_layer_loss'].number():g} %."))
        parts.append(_sensitivity(f"Most sensitive layers, {name}", layers[:OPEN], measure))
    if len(layers) > OPEN:
        parts.append(
            element(
                "details",
                element("summary", f"all {len(layers)} layers"),
                _sensitivity(f"Layers, {name}", layers, measure),
            )
        )
    return element("div", *parts)


def _method(figures: Document, title: str, ships: bool, measure: str) -> list[Cell]:
    name = join([title, " ", badge("ships", "good")]) if ships else title
    if figures.not_run:
        return [name, figures.not_run]
    above = figures.get("above_float")
    cost = with_interval(above, "loss_percent", "+.2f") if above else None
    return [name, with_interval(figures, "loss", ".4f"), with_interval(figures, measure, ".3f"), cost]


def _sensitivity(caption: str, layers: list[Document], measure: str) -> Html:
    rows = [
        [
            row["layer"].text(),
            row["kind"].text(),
            f"{row['weights'].number():,.0f}",
            f"{row['loss_percent'].number():+.3f}",
            f"{row[measure].number():+.3f}",
            "float" if row["stays_float"].flag() else "int8",
        ]
        for row in layers
    ]
    return table(caption, ["layer", "kind", "weights", "loss, %", MEASURES[measure], "kept in"], rows, prose=("kind",))
