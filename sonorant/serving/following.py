"""Download voices from MLflow's registry and follow their aliases to new versions."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from sonorant.errors import SonorantError, needing
from sonorant.registry.tracking.mlflow_store import TrackingUnavailable
from sonorant.serving.voice_processes import in_daemon_thread
from sonorant.serving.voices import REGISTRY, Offer, Offered, Voices, remove

AGAIN_SECONDS = 30.0
"""Seconds before a failed download is retried."""
_log = logging.getLogger(__name__)


def fetch(offer: Offer, folder: Path) -> Offered:
    """Return a voice, downloaded into `folder` if it is in the registry. Raises SonorantError if that fails."""
    if not offer.where.startswith(REGISTRY):
        return Offered(offer, Path(offer.where), "")
    version = _version_of(offer.where)
    return Offered(offer, _download(version, folder), version)


async def follow(voices: Voices, folder: Path, seconds: float) -> None:
    """Poll the registry every `seconds`, forever. A version that cannot speak is tried once; a failed download is
    retried after AGAIN_SECONDS."""
    followed = [one for one in voices.by_name.values() if one.offer.where.startswith(REGISTRY)]
    refused: dict[str, tuple[str, float]] = {}  # by voice: version, and when to try again
    while True:
        await asyncio.sleep(seconds)
        voices.keep_to_memory()
        for one in followed:
            name = one.offer.name
            try:
                version = await in_daemon_thread(_version_of, one.offer.where)
            except Exception as error:  # voices work without the registry
                one.trouble = str(error) if isinstance(error, SonorantError) else f"{name}: {type(error).__name__}"
                continue
            if version == one.version:
                refused.pop(name, None)
                one.trouble = ""
            elif refused.get(name, ("", 0.0))[0] != version or time.monotonic() >= refused[name][1]:
                try:
                    await _take(voices, one, version, folder)
                except Exception as error:
                    passes = not isinstance(error, SonorantError) or isinstance(error, TrackingUnavailable)
                    refused[name] = (version, time.monotonic() + AGAIN_SECONDS if passes else math.inf)
                    why = str(error) if isinstance(error, SonorantError) else type(error).__name__
                    one.trouble = f"{REGISTRY}{version} was refused; {one.version} remains in use: {why}"
                    _log.error("%s%s", one.trouble, f"; next attempt in {AGAIN_SECONDS:g} s" if passes else "")


async def _take(voices: Voices, one: Offered, version: str, folder: Path) -> None:
    bundle = await in_daemon_thread(_download, version, folder)
    try:
        loaded = await voices.start(bundle)
    except BaseException:
        remove(bundle)
        raise
    _log.warning("%s now uses %s%s", one.offer.name, REGISTRY, version)
    voices.replace(one, bundle, version, loaded)


def _version_of(uri: str) -> str:
    with needing("pipeline", uri):
        from sonorant.registry.download import version_of  # needs mlflow
    return version_of(uri)


def _download(version: str, folder: Path) -> Path:
    from sonorant.registry.download import download_bundle

    with TemporaryDirectory(dir=folder) as place:  # only the bundle is kept
        bundle = download_bundle(f"{REGISTRY}{version}", Path(place))
        return bundle.rename(mkdtemp(dir=folder))
