"""Section on quantisation: sensitivity by layer, PTQ and QAT."""

from collections.abc import Sequence

from sonorant.evaluation.report.document import Document
from sonorant.pages.blocks import Badge, Cell, Fold, Group, Part, Section, Table

METHODS = {"float": "float", "ptq": "after training (PTQ)", "qat": "in training (QAT)"}
MEASURES = {"log_mel_db": "log-mel distance, dB", "wrong_codes_percent": "wrong codes, %"}
OPEN = 12
"""Number of layers shown; others are folded."""


def quantization(models: Sequence[tuple[str, Document]]) -> Section:
    return Section(anchor="quantization", title="Quantisation", parts=[_model(*model) for model in models])


def _model(name: str, found: Document) -> Group:
    measure, shipped = found["measure"].text(), found["shipped"].text()
    head = ["quantised", "", "loss", MEASURES.get(measure, measure), "loss above float, %"]
    methods = [_method(method, found["figures"][method], method == shipped, measure) for method in METHODS]
    table = Table(caption=f"On the validation split, {name}", head=head, rows=methods)
    parts: list[Part] = [found["sentence"].text(), table]
    layers = sorted(found["sensitivity"].rows(), key=lambda row: (-row["loss_percent"].number(), row["layer"].text()))
    if layers:  # empty for pretrained models
        kept = sum(row["stays_float"].flag() for row in layers)
        limit = f"those that raise the loss by more than {found['max_layer_loss'].number():g} %"
        parts.append(f"Each layer alone in int8: {kept} of {len(layers)} stay in float, {limit}.")
        parts.append(_sensitivity(f"Most sensitive layers, {name}", layers[:OPEN], measure))
    if len(layers) > OPEN:
        every = _sensitivity(f"Layers, {name}", layers, measure)
        parts.append(Fold(summary=f"all {len(layers)} layers", parts=[every]))
    return Group(title=name[0].upper() + name[1:], parts=parts)


def _method(method: str, figures: Document, ships: bool, measure: str) -> list[Cell]:
    name: list[Cell] = [METHODS[method], Badge("ships", "good") if ships else ""]
    if figures.not_run:
        return [*name, figures.not_run]
    cost = figures.estimate("above_float", "loss_percent", form="+.2f")
    return [*name, figures.estimate("loss", form=".4f"), figures.estimate(measure, form=".3f"), cost]


def _sensitivity(caption: str, layers: Sequence[Document], measure: str) -> Table:
    rows: list[list[Cell]] = [
        [
            row["layer"].text(),
            row["kind"].text(),
            row.figure("weights", form=",.0f"),
            row.figure("loss_percent", form="+.3f"),
            row.figure(measure, form="+.3f"),
            "float" if row["stays_float"].flag() else "int8",
        ]
        for row in layers
    ]
    head = ["layer", "kind", "weights", "loss, %", MEASURES.get(measure, measure), "kept in"]
    return Table(caption=caption, head=head, rows=rows, prose=["kind"])
