"""Where the voice comes from: commits, data, steps, versions. Knows nothing of what became of it."""

from __future__ import annotations

from collections.abc import Mapping

from sonorant.report.document import Document
from sonorant.report.markup import Html, section, table


def lineage(models: Mapping[str, Document], hashes: Mapping[str, str], metrics: Document) -> Html:
    """`models`: title to model.json. `hashes`: a path of the project to DVC's hash of it."""
    environment = metrics["environment"]
    machine = [[name, str(value.value)] for name, value in environment.items() if name != "packages"]
    packages = [[name, version.text()] for name, version in environment["packages"].items()]
    kept = [[path, value] for path, value in hashes.items()] or [
        ["–", "not recorded: the report was not made by dvc repro"]
    ]
    return section(
        "lineage",
        "Lineage",
        table(
            "Trainings",
            ["model", "git commit", "data (SHA-256)", "steps", "validation loss"],
            [_model(*item) for item in models.items()],
        ),
        table("Files, by DVC's hash", ["path", "hash"], kept),
        table("Measured on", ["", ""], machine),
        table("Versions", ["package", "version"], packages),
    )


def _model(title: str, description: Document) -> list[str | None]:
    trained = description["provenance"]
    loss = trained.get("validation_loss")
    commit, data = trained.get("git_commit"), trained["data"].text()
    return [
        title,
        commit.text()[:12] if commit else "not recorded",
        data[:12],
        f"{trained['steps'].number():.0f}",
        f"{loss.number():.4f}" if loss else None,
    ]
