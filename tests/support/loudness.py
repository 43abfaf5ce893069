import json
import shutil
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from sonorant.files import sha256_file
from tests.support.edited import edited
from tests.support.serving import Running, ask


def louder(bundle: Path, out: Path, by: float) -> Path:
    """A copy of a bundle whose vocoder output is multiplied by `by`."""
    shutil.copytree(bundle, out)
    graph = out / "vocoder.fp32.onnx"
    model = onnx.load(graph)
    output = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["whole" if name == output else name for name in node.output]
    model.graph.node.append(onnx.helper.make_node("Mul", ["whole", "by"], [output]))
    model.graph.initializer.append(numpy_helper.from_array(np.array(by, np.float32), "by"))
    onnx.save(model, graph)
    with edited(out / "voice.json") as voice:
        voice["graphs"]["vocoder"]["variants"]["fp32"].update(bytes=graph.stat().st_size, sha256=sha256_file(graph))
    return out


def loudest(server: Running, text: str = "Hi.") -> int:
    response = ask(server.url, "/v1/audio/speech", body(text))
    return int(np.abs(np.frombuffer(response.read()[44:], "<i2").astype(int)).max())


def body(text: str) -> bytes:
    return json.dumps({"model": "tiny", "voice": "anna", "input": text, "response_format": "wav"}).encode()
