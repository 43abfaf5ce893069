"""The options by which subcommands are told of a voice. Does not know what they do with it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sonorant.errors import SonorantError


def add_voice(command: argparse.ArgumentParser) -> None:
    """Add the option --voice."""
    command.add_argument(
        "--voice",
        required=True,
        metavar="VOICE",
        help="folder of a voice bundle, or of the registry models:/<name>@<alias> or models:/<name>/<version>",
    )


@contextmanager
def bundle_folder(voice: str) -> Iterator[Path]:
    """The bundle's folder; one from the registry lies in a temporary folder for as long. Raises SonorantError if there
    is none."""
    if not voice.startswith("models:/"):
        yield Path(voice)
        return
    with TemporaryDirectory() as temporary:
        try:
            from sonorant.registry import download_bundle  # needs mlflow, which speaking from a folder does not
        except ModuleNotFoundError as error:
            raise SonorantError(
                f"{voice}: the registry needs '{error.name}'; run: pip install 'sonorant[pipeline]'"
            ) from None
        yield download_bundle(voice, Path(temporary))
