from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from sonorant.serving.server import ServeConfig
from sonorant.serving.voices import Offer
from tests.support.serving import Running, running


@pytest.fixture(scope="session")
def server(voice_bundle: Path, codec_lm_bundle: Path) -> Iterator[Running]:
    """A server of the voices `tiny` and `codes`; the second loads on first use."""
    offers = (Offer(name="tiny", where=str(voice_bundle)), Offer(name="codes", where=str(codec_lm_bundle)))
    with running(ServeConfig(offers=offers, workers=1, streams=2, queue=1)) as served:
        yield served
