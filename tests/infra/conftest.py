"""One platform per session, because its servers take a minute to start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.platform import Stack, platform, why_not


@pytest.fixture(scope="session")
def stack(voice_bundle: Path) -> Iterator[Stack]:
    """A running platform with a small project, or skip."""
    if why := why_not():
        pytest.skip(why)
    with platform(voice_bundle) as found:
        yield found
