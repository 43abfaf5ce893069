"""DNSMOS rates a clip shorter than its window once."""

from __future__ import annotations

import numpy as np
import pytest

from sonorant.evaluation import raters


def test_a_short_clip_is_rated_as_one_window_of_it() -> None:
    pytest.importorskip("speechmos", reason="speechmos, an optional extra, is not installed")
    time = np.arange(4 * raters.RATE) / raters.RATE
    clip = (0.3 * np.sin(2 * np.pi * 150 * time) * np.sin(2 * np.pi * 3 * time) ** 2).astype(np.float32)
    short, window = raters.rate_clips([(clip, raters.RATE), (np.resize(clip, raters.WINDOW), raters.RATE)])
    np.testing.assert_array_equal(short, window)
