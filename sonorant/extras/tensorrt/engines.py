"""Build a bundle's engines in a folder, with their keys, and reject stale ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.extras.tensorrt.key import EngineConfig, EngineKey, Machine, ShapeProfile, profiles_of
from sonorant.files import atomic_file, read_checked, sha256_file, user_caches, write_json
from sonorant.speech.bundle import Bundle, content_hash

REBUILD = "run: python -m tasks.build_engine --voice {}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine:
    """Contents of the JSON file stored next to an engine."""

    key: EngineKey
    sha256: str


class Engines:
    def __init__(self, bundle: Bundle, machine: Machine, folder: Path | None = None) -> None:
        """`folder` contains the engines; None means the bundle's folder in the user's cache."""
        self.bundle = bundle
        self.machine = machine
        self.folder = folder or cache_folder(bundle)

    def load(self, graph: str, variant: str) -> tuple[Path, EngineKey]:
        """Return the path and key of an engine. Raises SonorantError if it is missing, damaged or stale."""
        path = self._path(graph, variant)
        mend = f"{REBUILD.format(self.bundle.folder)} --variant {variant} --engines {self.folder}"
        if not path.is_file() or not self._description(path).is_file():
            raise SonorantError(f"{path}: no engine for graph {graph}, variant {variant}; {mend}")
        engine = self._read(path)
        if sha256_file(path) != engine.sha256:
            raise SonorantError(f"{path}: damaged (its hash differs from its key); {mend}")
        stale = engine.key.stale(sha256_file(self.bundle.graph_file(graph, variant)), self.machine)
        if stale:
            raise SonorantError(f"{path}: stale engine: {'; '.join(stale)}; {mend}")
        return path, engine.key

    def build(self, graph: str, variant: str, config: EngineConfig) -> str:
        """Build a graph's engine unless a valid one exists. Returns what was done and why."""
        source, path = self.bundle.graph_file(graph, variant), self._path(graph, variant)
        profiles = profiles_of(graph, self.bundle.description.lengths, config.max_batch)
        reason = self._reason_to_build(path, sha256_file(source), config, profiles)
        if reason is None:
            return "up to date"
        from sonorant.extras.tensorrt.builder import build_engine

        inputs = self.bundle.description.graphs[graph].inputs
        built = build_engine(source, inputs, profiles, config, self.folder / "timing.cache", label=f"{graph} {variant}")
        self._description(path).unlink(missing_ok=True)  # if killed now, the engine is incomplete
        with atomic_file(path) as temporary:
            temporary.write_bytes(built)
        key = EngineKey(onnx=sha256_file(source), machine=self.machine, config=config, profiles=profiles)
        write_json(self._description(path), dataclasses.asdict(Engine(key=key, sha256=sha256_file(path))))
        return reason

    def _reason_to_build(
        self, path: Path, onnx: str, config: EngineConfig, profiles: tuple[ShapeProfile, ...]
    ) -> str | None:
        if not path.is_file() or not self._description(path).is_file():
            return "built"
        try:
            engine = self._read(path)
        except SonorantError:
            return "rebuilt: its key was damaged"
        if sha256_file(path) != engine.sha256:
            return "rebuilt: its bytes were damaged"
        reasons = engine.key.stale(onnx, self.machine) + engine.key.changed(config, profiles)
        return f"rebuilt: {'; '.join(reasons)}" if reasons else None

    def _read(self, path: Path) -> Engine:
        description = self._description(path)
        try:
            return read_checked(description, Engine)
        except SonorantError as error:
            reason = str(error).split(";")[0]
            raise SonorantError(f"{reason}: not a valid engine key; {REBUILD.format(self.bundle.folder)}") from None

    def _path(self, graph: str, variant: str) -> Path:
        return self.folder / f"{graph}.{variant}.engine"

    def _description(self, path: Path) -> Path:
        return path.with_suffix(".json")


def cache_folder(bundle: Bundle) -> Path:
    """Return the bundle's folder in the user's cache, named by content hash because a download has a new path each
    time."""
    return user_caches() / "engines" / content_hash(bundle)[:16]
