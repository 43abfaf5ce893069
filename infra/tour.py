"""A tour of the platform with the voice from `make demo`: python -m infra.tour, or `make tour` for both.

It starts the platform (PostgreSQL, S3 store, MLflow, Prefect, a worker), registers the voice with a deployment
run, serves the champion, speaks with OpenAI's client, trains another voice and makes it champion while the server runs,
and rolls back. The speech is in runs/tour. A second tour reuses registered voices. At the end, it stops the servers
that it started.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.background import last_line
from infra.platform.env_file import read_env
from infra.platform.native import NATIVE, START, Platform
from infra.speaking_server import served
from sonorant.errors import SonorantError
from sonorant.files import atomic_file
from sonorant.registry import RegisterConfig, find_version
from sonorant.registry.tracking import open_store
from tasks import params
from tasks.stage import run

OUT = Path("runs/tour")
VOICE = Path("artifacts/voice")
WORKSPACES = Path("runs/workspaces")
"""Copies of the project for runs with different settings, in folders named after run ids."""
TEXT = "Good morning. This is the champion."
OTHER = {"train_acoustic.seed": 2}
"""Settings of the second voice: the same training with different initial weights."""
PATIENCE = 120.0
"""Maximum seconds for the server to switch to a new champion."""


def walk() -> None:
    if not (VOICE / "voice.json").exists():
        raise SonorantError(f"{VOICE}: no voice; create one with: make demo")
    model = params.load("register", RegisterConfig).model
    with platform():
        first = deployed(model, {})
        reign(model, first)
        words = [f"models:/{model}@champion", "--poll-seconds", "1"]
        tell(f"sonorant serve {' '.join(words)}")
        with served(*words) as address:
            url = f"{address}v1"
            heard = [speak(url, 1)]
            second = deployed(model, OTHER)
            if second == first:
                raise SonorantError(f"the run with {OTHER} did not register a new version after {first}; see its log")
            reign(model, second)
            heard.append(spoken_anew(url, heard[0], 2))
            command("tasks.rollback", "--reason", "tour of the platform")
            heard.append(spoken_anew(url, heard[1], 3))
        if heard[2] != heard[0]:
            raise SonorantError(
                f"{OUT}: speech after the rollback (3.wav) differs from speech before (1.wav); check the served version"
            )
    tell(f"done: one server spoke with version {first}, then {second}, then {first} again: {OUT}/1.wav to 3.wav")


@contextmanager
def platform() -> Iterator[None]:
    """Run the platform with this process signed in. Servers that were already running keep running."""
    here = Platform.here()
    found = [name for name in NATIVE if here.servers.alive(name)]
    tell(START + (f"; already running: {', '.join(found)}" if found else ""))
    here.start()
    try:
        os.environ.update(read_env(here.client_file))
        command("infra.platform.check")
        yield
    finally:
        here.stop([name for name in NATIVE if name not in found])


def deployed(model: str, overrides: dict[str, Any]) -> int:
    """Run the deployment. Return the version of the resulting voice, which an earlier tour may have registered."""
    words = ["deployment", "run", "train-and-export/local"]
    words += ["--param", f"overrides={json.dumps(overrides)}"] if overrides else []
    tell(f"prefect {' '.join(words)}")
    done = subprocess.run([sys.executable, "-m", "prefect", *words], check=False, capture_output=True, text=True)
    run_id = re.search(r"UUID: (\S+)", done.stdout)
    if run_id is None:
        raise SonorantError(f"prefect deployment run failed: {last_line(done.stdout + done.stderr)}")
    command("prefect", "flow-run", "watch", run_id[1])
    return find_version((WORKSPACES / run_id[1] / VOICE) if overrides else VOICE, model)


def reign(model: str, version: int) -> None:
    """Make a version champion by moving the aliases, unless it already is."""
    aliases = client().get_registered_model(model).aliases
    if int(aliases.get("champion", 0)) != version:
        tell(f"the gates rejected version {version}; the tour moves the aliases itself")
        if "champion" in aliases:
            client().set_registered_model_alias(model, "previous", aliases["champion"])
        client().set_registered_model_alias(model, "champion", str(version))


def speak(url: str, number: int) -> bytes:
    """Speak TEXT with OpenAI's client; save it as `<number>.wav`."""
    from openai import OpenAI

    with OpenAI(base_url=url, api_key="none") as asking:
        (voice,) = asking.models.list().data
        speaker = (voice.model_extra or {})["speakers"][0]
        sound = asking.audio.speech.create(model=voice.id, voice=speaker, input=TEXT, response_format="wav").read()
    OUT.mkdir(parents=True, exist_ok=True)
    with atomic_file(OUT / f"{number}.wav") as file:
        file.write_bytes(sound)
    return sound


def spoken_anew(url: str, before: bytes, number: int) -> bytes:
    """Repeat `speak` until the audio differs from `before`. Raises SonorantError if it does not in time."""
    deadline = time.monotonic() + PATIENCE
    while (sound := speak(url, number)) == before:
        if time.monotonic() > deadline:
            raise SonorantError(
                f"{url}: still serves the old version {PATIENCE:g} s after the alias moved; see the messages above"
            )
        time.sleep(1.0)
    tell(f"{OUT}/{number}.wav: the server speaks with another version")
    return sound


def command(*words: str) -> None:
    tell(f"python -m {' '.join(words)}")
    if subprocess.run([sys.executable, "-m", *words], check=False).returncode != 0:
        raise SonorantError(f"python -m {words[0]} failed; see above")


def client() -> Any:
    return open_store().client


def tell(line: str) -> None:
    print(f"tour: {line}", flush=True)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    walk()


if __name__ == "__main__":
    run(main)
