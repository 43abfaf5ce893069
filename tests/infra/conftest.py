"""One platform for the session: its servers take a minute to start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.platform import Stack, platform, why_not


@pytest.fixture(scope="session")
def stack(voice_bundle: Path) -> Iterator[Stack]:
    """A running platform with a small project; a test that wants it is skipped by name where it cannot be."""
    if why := why_not():
        pytest.skip(why)
    with platform(voice_bundle) as found:
        yield found
