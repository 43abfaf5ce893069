"""Find a bundle's version by a hash of its content."""

import dataclasses
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.registry.aliases import all_versions
from sonorant.registry.tracking.mlflow_store import Store, answering
from sonorant.speech.bundle import Bundle, content_hash, read_bundle

HASH_TAG = "bundle_sha256"
"""Version tag with the content hash."""


def content_of(voice: Bundle) -> str:
    """Hash of the bundle without its measurements."""
    choice = {key: value for key, value in voice.description.choice.items() if key in ("variant", "runtime")}
    return content_hash(dataclasses.replace(voice, description=dataclasses.replace(voice.description, choice=choice)))


def still_holds(bundle: Path, content: str) -> bool:
    try:
        return content_of(read_bundle(bundle)) == content
    except SonorantError:  # partly written
        return False


def versions_of(store: Store, model: str, content: str) -> list[Any]:
    """Versions with this content, oldest first."""
    versions = all_versions(store, model)
    return [versions[key] for key in sorted(versions) if versions[key].tags.get(HASH_TAG) == content]


def find_version(bundle: Path, model: str) -> int:
    """Number of the bundle's version, not necessarily the newest.

    Raises SonorantError if the bundle is damaged or not registered, TrackingUnavailable if MLflow does not answer.
    """
    content = content_of(read_bundle(bundle))
    with answering("registry") as store:
        found = versions_of(store, model, content)
    if not found:
        raise SonorantError(f"{bundle}: is no version of models:/{model}")
    return int(found[0].version)
