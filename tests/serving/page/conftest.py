import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support.serving import started
from tests.support.variants import with_variant
from tests.support.waiting import PATIENCE


@pytest.fixture(scope="session")
def two_variants(voice_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny voice in two variants, the second half as loud."""
    folder = tmp_path_factory.mktemp("variants")
    model = onnx.load(voice_bundle / "vocoder.fp32.onnx")
    output = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["whole" if name == output else name for name in node.output]
    model.graph.node.append(onnx.helper.make_node("Mul", ["whole", "half"], [output]))
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "half"))
    onnx.save(model, folder / "vocoder.onnx")
    return with_variant(voice_bundle, folder / "voice", "quiet", {"vocoder": folder / "vocoder.onnx"})


@pytest.fixture(scope="session")
def page(two_variants: Path) -> Iterator[str]:
    with served(two_variants) as address:
        yield address


@pytest.fixture(scope="session")
def codec_lm_page(codec_lm_bundle: Path) -> Iterator[str]:
    """Address of the demo page of a codec voice."""
    with served(codec_lm_bundle) as address:
        yield address


@contextmanager
def served(bundle: Path) -> Iterator[str]:
    """Address of a demo page; its process must exit cleanly without unexpected output."""
    with started(bundle, "--workers", "1") as (process, url):
        yield url
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read().splitlines()
        assert process.wait(PATIENCE) == 130
        told = "left out characters that cannot be spoken|did not go well"
        assert [line for line in errors if not re.search(told, line)] == []
