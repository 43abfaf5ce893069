"""Projects with an MLflow registry: empty, with a champion, or also with a previous one. Each is made once and
copied."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sonorant.registry import promote, register
from sonorant.registry.tracking import open_store
from tests.registry.planted import CONFIG, GATES, figures, renamed, write_report

pytest.importorskip("mlflow")


@contextmanager
def standing_in(folder: Path) -> Iterator[Path]:
    """Work in `folder` with its store; restore mlflow's environment afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("SONORANT_EXECUTION", raising=False)
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        yield folder


def made(factory: pytest.TempPathFactory, fill: Callable[[Path], object], copied: Path | None = None) -> Path:
    folder = factory.mktemp("registry")
    if copied:
        shutil.copytree(copied, folder, dirs_exist_ok=True)
    with standing_in(folder):
        fill(folder)
    return folder


@pytest.fixture(scope="session")
def empty_store(tracked_project: Path) -> Path:
    return tracked_project / "runs"


@pytest.fixture(scope="session")
def store_of_one(tmp_path_factory: pytest.TempPathFactory, empty_store: Path, voice_bundle: Path) -> Path:
    return made(tmp_path_factory, lambda folder: crown(voice_bundle, folder), empty_store)


@pytest.fixture(scope="session")
def store_of_two(tmp_path_factory: pytest.TempPathFactory, store_of_one: Path, voice_bundle: Path) -> Path:
    return made(tmp_path_factory, lambda folder: crown(renamed(voice_bundle, folder / "second"), folder), store_of_one)


def crown(bundle: Path, folder: Path) -> None:
    register(bundle, figures(), write_report(folder / f"report of {bundle.name}"), CONFIG, {})
    assert promote("test-voice", GATES).passed


@pytest.fixture(autouse=True)
def project(tmp_path: Path, empty_store: Path) -> Iterator[Path]:
    """Current folder with an empty registry."""
    shutil.copytree(empty_store, tmp_path, dirs_exist_ok=True)
    with standing_in(tmp_path):
        yield tmp_path


@pytest.fixture
def champion(project: Path, store_of_one: Path, voice_bundle: Path) -> Path:
    """Version 1 is champion; returns its bundle."""
    shutil.copytree(store_of_one, project, dirs_exist_ok=True)
    return voice_bundle


@pytest.fixture
def two(project: Path, store_of_two: Path, voice_bundle: Path) -> Path:
    """Version 2 is champion, 1 previous; returns the bundle of version 1."""
    shutil.copytree(store_of_two, project, dirs_exist_ok=True)
    return voice_bundle


@pytest.fixture
def second(champion: Path, project: Path) -> Path:
    """A bundle with different content."""
    return renamed(champion, project / "second")


def aliases() -> dict[str, int]:
    found = open_store().client.get_registered_model("test-voice").aliases
    return {name: int(version) for name, version in found.items()}


def tags(version: int) -> dict[str, str]:
    return dict(open_store().client.get_model_version("test-voice", str(version)).tags)
