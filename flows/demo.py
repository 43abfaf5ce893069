"""`make demo`: run the flow train-and-export in this process and print its results."""

import argparse
from pathlib import Path
from typing import Any

from flows.own_prefect import run_flow, use_own_prefect
from flows.own_recordings import expected_time, find_recordings, overrides_for
from flows.results import summary
from flows.workspace import check_settings, parse_overrides
from sonorant.cli.say import utf8
from sonorant.errors import SonorantError
from sonorant.families.family import VoiceConfig
from sonorant.plugins import family_names, load_family
from sonorant.registry.registration import RegisterConfig
from tasks import params
from tasks.stage import run


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m flows.demo",
        description="Run every stage of dvc.yaml, register and promote the voice, print metrics and the next commands "
        "(`make demo`). With settings that differ from params.yaml, run in a copy below runs/workspaces; the voice is "
        "copied to voices/<name>.",
    )
    families = " or ".join(family_names())
    parser.add_argument("--family", help=f"family of the voice, {families} (default: from params.yaml)")
    corpus = "folder of recordings with metadata.csv or a text file for each; settings: corpora/recordings.yaml"
    parser.add_argument("--corpus", type=Path, metavar="FOLDER", help=corpus)
    change = "override a setting of params.yaml, such as corpus.kind=speakers; may be repeated"
    parser.add_argument(
        "--set", dest="changes", type=utf8, action="append", default=[], metavar="KEY=VALUE", help=change
    )
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

    state = run_flow(train_and_export, overrides)
    if not state.is_completed():
        raise SonorantError(f"the flow ended in state {state.name}: {state.message}; the same command resumes it")
    print(summary(state.result()))


def overrides_of(family: str | None) -> dict[str, Any] | None:
    """Return overrides that select `family` and a registered model for it; None if params.yaml selects it. Raises
    SonorantError for an unknown family."""
    if family is None:
        return None
    load_family(family)
    if params.load("voice", VoiceConfig).family == family:
        return None
    return {"voice.family": family, "register.model": f"{params.load('register', RegisterConfig).model}-{family}"}


if __name__ == "__main__":
    run(main)
