import dataclasses
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from sonorant.errors import SonorantError
from sonorant.extras.tensorrt.engines import Engine, Engines, cache_folder
from sonorant.extras.tensorrt.key import MOST, EngineConfig, EngineKey, Machine, missing, profiles_of
from sonorant.files import read_json, sha256_file, write_json
from sonorant.plugins import load_family
from sonorant.speech.buckets import Buckets
from sonorant.speech.bundle import Bundle, Lengths, read_bundle
from sonorant.speech.request import Limits
from sonorant.speech.runtimes import LoadOptions, load_runtime
from sonorant.text.phrases import LONGEST_PHRASE
from tests.support.command import run_command
from tests.support.imports import ROOT

H200 = Machine(tensorrt="10.16.1.11", gpu="NVIDIA H200", compute_capability=(9, 0))
OTHER_MAJOR = replace(H200, tensorrt="11.4.0.106")
L4 = replace(H200, gpu="NVIDIA L4", compute_capability=(8, 9))
CONFIG = EngineConfig(workspace_mib=64, max_batch=8, tf32=False, version_compatible=False, hardware_compatible=False)
GRAPHS = load_family("parallel").graphs
LENGTHS = Lengths(tokens=(6, 60, 120, 150), frames=(40, 270, 520, 740))


@pytest.fixture
def engines(voice_bundle: Path, tmp_path: Path) -> Engines:
    """A folder with a vocoder engine as if from this machine's H200; never run."""
    bundle = read_bundle(voice_bundle)
    (tmp_path / "vocoder.fp32.engine").write_bytes(b"engine")
    onnx = sha256_file(bundle.graph_file("vocoder", "fp32"))
    profiles = profiles_of("vocoder", bundle.description.lengths, CONFIG.max_batch)
    key = EngineKey(onnx=onnx, machine=H200, config=CONFIG, profiles=profiles)
    described = Engine(key=key, sha256=sha256_file(tmp_path / "vocoder.fp32.engine"))
    write_json(tmp_path / "vocoder.fp32.json", dataclasses.asdict(described))
    return Engines(bundle, H200, tmp_path)


def changed(engines: Engines, *keys: str, value: object) -> Engines:
    """Change one value in the engine's JSON, given its keys."""
    path = engines.folder / "vocoder.fp32.json"
    data = inner = read_json(path)
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    write_json(path, data)
    return engines


def on(machine: Machine, engines: Engines) -> Engines:
    return Engines(engines.bundle, machine, engines.folder)


def refused(engines: Engines, graph: str = "vocoder") -> str:
    with pytest.raises(SonorantError) as caught:
        engines.load(graph, "fp32")
    assert "python -m tasks.build_engine --voice" in str(caught.value)
    return str(caught.value)


def test_an_engine_that_fits_is_loaded_and_not_built_again(engines: Engines) -> None:
    path, key = engines.load("vocoder", "fp32")
    assert path.read_bytes() == b"engine" and key.machine == H200
    assert engines.build("vocoder", "fp32", CONFIG) == "up to date"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: on(OTHER_MAJOR, one), "built with TensorRT 10.16.1.11, but this machine has 11.4.0.106"),
        (lambda one: on(L4, one), "built on NVIDIA H200 (9.0), but this machine has NVIDIA L4 (8.9)"),
        (lambda one: changed(one, "key", "onnx", value="0" * 64), "built from another graph (0000000000"),
    ],
    ids=["another TensorRT", "another GPU", "another graph"],
)
def test_an_engine_that_does_not_fit_is_refused_by_name(
    engines: Engines, change: Callable[[Engines], Engines], message: str
) -> None:
    assert f"vocoder.fp32.engine: stale engine: {message}" in refused(change(engines))


def test_a_damaged_engine_and_a_damaged_key_are_refused_by_name(engines: Engines) -> None:
    (engines.folder / "vocoder.fp32.engine").write_bytes(b"enginE")
    assert "vocoder.fp32.engine: damaged" in refused(engines)
    changed(engines, "key", "machine", value="here")
    assert "vocoder.fp32.json: key 'key.machine': input should be an object" in refused(engines)


def test_an_absent_engine_is_named(engines: Engines) -> None:
    assert "decoder.fp32.engine: no engine for graph decoder, variant fp32" in refused(engines, "decoder")


def test_compatible_engines_are_taken_where_they_run(engines: Engines) -> None:
    later, newer_gpu = replace(H200, tensorrt="10.20.0.1"), replace(H200, gpu="NVIDIA B200", compute_capability=(10, 0))
    old_gpu = replace(H200, gpu="NVIDIA T4", compute_capability=(7, 5))
    path = engines.folder / "vocoder.fp32.engine"
    changed(engines, "key", "config", "version_compatible", value=True)
    assert on(later, engines).load("vocoder", "fp32")[0] == path
    assert "stale engine" in refused(on(OTHER_MAJOR, engines))
    assert "stale engine" in refused(on(newer_gpu, engines))
    changed(engines, "key", "config", "hardware_compatible", value=True)
    assert on(newer_gpu, engines).load("vocoder", "fp32")[0] == path
    assert "stale engine" in refused(on(old_gpu, engines))


def test_why_an_engine_would_be_built_again(engines: Engines) -> None:
    key = engines.load("vocoder", "fp32")[1]
    assert key.changed(replace(CONFIG, tf32=True), key.profiles) == ["tf32 was False, is True"]
    assert key.changed(CONFIG, profiles_of("vocoder", LENGTHS, 4)) == ["different shape profiles"]


@pytest.mark.parametrize("graph", GRAPHS)
def test_profiles_cover_all_buckets_and_twice_the_longest(graph: str) -> None:
    usual, long = profiles_of(graph, LENGTHS, 8)
    sizes = {"encoder": ("tokens",), "decoder": ("tokens", "frames"), "vocoder": ("frames",)}
    dimensions = ("batch", *sizes[graph])
    shapes = [shape for name, shape in Buckets.of(LENGTHS, (1, 4)).plan() if name == graph]
    for shape in shapes:
        assert any(profile.covers(dict(zip(dimensions, shape, strict=True))) for profile in (usual, long)), shape
    assert usual.covers({"batch": 1, "frames": 520}) and (graph == "decoder" or usual.covers({"tokens": 120}))
    assert long.covers({"batch": 8, "tokens": 800, "frames": 1480})
    assert not long.covers({"batch": 9}) and not long.covers({"frames": 2000})
    for profile in (usual, long):
        for least, tuned, most in (profile.batch, profile.tokens, profile.frames):
            assert 1 <= least <= tuned <= most


def test_a_corpus_of_short_utterances_bounds_no_sentence() -> None:
    """Twice the longest piece of a text in `say` and `stream`."""
    assert {"tokens": 2 * LONGEST_PHRASE, "frames": 2 * Limits().frames} == MOST
    short = Lengths(tokens=(3, 10, 20, 40), frames=(8, 30, 60, 120))
    for graph in GRAPHS:
        assert profiles_of(graph, short, 1)[1].covers({"batch": 1} | MOST)


def test_engines_are_found_wherever_the_bundle_lies(voice_bundle: Path, tmp_path: Path) -> None:
    here, copied = read_bundle(voice_bundle), read_bundle(shutil.copytree(voice_bundle, tmp_path / "elsewhere"))
    assert cache_folder(copied) == cache_folder(here)
    other = Bundle(here.folder, replace(here.description, choice={"variant": "int8"}))
    assert cache_folder(other) != cache_folder(here)


@pytest.mark.skipif(missing() is None, reason="TensorRT and a GPU are here")
def test_where_tensorrt_is_absent_it_says_so(voice_bundle: Path) -> None:
    with pytest.raises(SonorantError, match=r"^TensorRT is not installed; "):
        load_runtime("tensorrt", read_bundle(voice_bundle), LoadOptions())
    done = run_command("tasks.build_engine", "--voice", voice_bundle, cwd=ROOT)
    assert (done.returncode, done.stderr.count("\n"), "TensorRT is not installed" in done.stderr) == (1, 1, True)


def test_no_extra_installs_a_second_onnx_runtime() -> None:
    """Both install the same files and break each other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    assert [package for package in packages if package.startswith("onnxruntime")] == ["onnxruntime"]
