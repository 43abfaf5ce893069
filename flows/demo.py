"""`make demo`: run the flow in this process and print its results."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.own_prefect import use_own_prefect
from flows.own_recordings import expected_time, find_recordings, overrides_for
from flows.results import (
    choice_rows,
    codec_rows,
    decoding_rows,
    gate_rows,
    intelligibility_rows,
    naturalness_rows,
    plain_table,
    speaker_rows,
    stage_rows,
)
from flows.workspace import check_settings, parse_overrides
from sonorant.errors import SonorantError
from sonorant.families.family import VoiceConfig
from sonorant.plugins import family_names, load_family
from sonorant.registry.registration import RegisterConfig
from sonorant.registry.tracking.mlflow_store import DEFAULT_DATABASE, shown
from tasks import params
from tasks.stage import run

NEXT = """\
  source .venv/bin/activate
  sonorant say "Good morning." --voice {voice} -o morning.wav
  {again}
  make serve                                  # Prefect and MLflow to look at: models, runs, pictures, sound
"""
AGAIN = "dvc repro                                   # the same graph: nothing to be done"
BOTH = "dvc repro                                   # params.yaml's own voice; its report shows both side by side"


def main() -> None:
    """Run the pipeline and print figures, registry version, samples and the next commands."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.demo",
        description="What `make demo` runs: every stage of dvc.yaml, then register and promote; it ends with figures "
        "and the next commands. With another family than that of params.yaml, or another corpus, it works in a copy of "
        "the project below runs/workspaces.",
    )
    families = " or ".join(family_names())
    parser.add_argument("--family", help=f"family of the voice, {families} (default: that of params.yaml)")
    corpus = "folder of recordings of a person, with metadata.csv or a text beside each: a voice of them, with the "
    corpus += "settings of corpora/recordings.yaml"
    parser.add_argument("--corpus", type=Path, metavar="FOLDER", help=corpus)
    change = "a setting in place of that of params.yaml, more than once for several, such as corpus.kind=speakers"
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE", help=change)
    arguments = parser.parse_args()
    overrides = overrides_of(arguments.family)
    if arguments.corpus is not None:
        found, model = find_recordings(arguments.corpus), params.load("register", RegisterConfig).model
        overrides = {"register.model": model} | (overrides or {})
        family = arguments.family or params.load("voice", VoiceConfig).family
        overrides |= overrides_for(found, overrides["register.model"], family)
        print(expected_time(found, family), flush=True)
    if arguments.changes:
        overrides = (overrides or {}) | parse_overrides(arguments.changes, "--set")
    check_settings(params.PARAMS, overrides or {})
    use_own_prefect()
    from flows.train_and_export import train_and_export

    state: Any = train_and_export(overrides=overrides, return_state=True)
    if not state.is_completed():
        raise SonorantError(f"the flow ended as {state.name}: {state.message}; the same command goes on from there")
    print(summary(state.result()))


def overrides_of(family: str | None) -> dict[str, Any] | None:
    """The flow's overrides for a voice of this family, with its own registered model; None if params.yaml has it.

    Raises SonorantError for an unknown family.
    """
    if family is None:
        return None
    load_family(family)  # refuses an unknown one
    if params.load("voice", VoiceConfig).family == family:
        return None
    return {"voice.family": family, "register.model": f"{params.load('register', RegisterConfig).model}-{family}"}


def summary(found: Mapping[str, Any]) -> str:
    """The flow's result as text for a person; paths are relative to the current folder."""
    where, metrics, choice, version = Path(found["where"]), found["metrics"], found["choice"], found["version"]
    here = Path(os.path.relpath(where))
    ran = [row for row in choice_rows(choice) if not row["verdict"].startswith("not run: ")]
    sections = {
        "Word error rates": plain_table(intelligibility_rows(metrics)),
        "Beside the recordings": plain_table(naturalness_rows(metrics)),
        "What ships": f"  {choice.get('sentence', 'nothing was chosen')}\n{plain_table(ran)}\n"
        f"  what could not run here, and why: {here / 'reports/choice.json'}",
        "Seconds of each stage": plain_table(stage_rows(found["seconds"])),
    }
    if speakers := speaker_rows(metrics, choice.get("variant")):
        sections["By speaker"] = plain_table(speakers)
    if metrics.get("codec"):
        sections["The codec"] = plain_table(codec_rows(metrics))
        sections["Decoding"] = plain_table(decoding_rows(metrics))
    if version:
        sections["Gates"] = plain_table(gate_rows(found["gates"]))
        sections["Registry"] = registry_lines(version, found["champion"])
    samples = sorted((where / "reports/evaluation").glob("samples/*.wav"))[:6]
    sections["To listen to"] = "\n".join(f"  {here / path.relative_to(where)}" for path in samples) or "  no samples"
    sections["To look at"] = f"  {here / 'reports/index.html'}"
    sections["Next"] = NEXT.format(voice=here / "artifacts/voice", again=AGAIN if here == Path() else BOTH).rstrip()
    return "\n" + "\n\n".join(f"{title}\n{text}" for title, text in sections.items())


def registry_lines(version: Mapping[str, Any], champion: bool) -> str:
    """The voice's place in the registry, and how to reach it from another program."""
    alias = "champion" if champion else "challenger"
    address = shown(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{DEFAULT_DATABASE}")
    return (
        f"  models:/{version['name']}/{version['version']}, alias {alias}\n"
        f"  export MLFLOW_TRACKING_URI={address}\n"
        f'  sonorant say "From the registry." --voice models:/{version["name"]}@{alias} -o registry.wav'
    )


if __name__ == "__main__":
    run(main)
