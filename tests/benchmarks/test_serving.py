"""What the benchmark of the server calls a listener's real-time factor: as long as an answer took, over its speech."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from benchmarks.serving import Heard, load
from sonorant.serving.server import ServeConfig
from sonorant.serving.voices import Offer
from tests.support.serving import running


def test_each_number_of_listeners_has_its_real_time_factor(voice_bundle: Path) -> None:
    with running(ServeConfig(offers=(Offer(name="tiny", where=str(voice_bundle)),), workers=1)) as server:
        alone, many = (asyncio.run(load(server.url, listeners, 1.0)) for listeners in (1, 8))
    for row in (alone, many):
        p50, p95, p99 = (row["real_time_factor"][share] for share in ("p50", "p95", "p99"))
        assert 0 < p50 <= p95 <= p99
        assert row["work_real_time_factor"] > 0
    assert many["real_time_factor"]["p50"] > alone["real_time_factor"]["p50"], "eight take turns"
    assert many["work_real_time_factor"] < many["real_time_factor"]["p50"], "waiting is no work"


def test_waiting_counts() -> None:
    heard = Heard()
    heard.take(first=1.0, took=4.0, seconds=2.0)
    assert (heard.first, heard.factors, heard.audio) == ([1.0], [2.0], 2.0)
