"""The pipeline's graph, read from dvc.yaml."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx

from sonorant.errors import SonorantError


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The stages of a project, and their files relative to it."""

    stages: tuple[str, ...]
    """Names; each follows those it needs."""
    needs: dict[str, tuple[str, ...]]
    """All stages, direct and indirect, that a stage needs."""
    inputs: dict[str, tuple[Path, ...]]
    """Other stages' outputs that a stage reads."""
    outs: tuple[Path, ...]
    commands: dict[str, str]
    sources: tuple[Path, ...]
    """Files that stages read and none writes."""
    cache: Path
    """Absolute folder of DVC's cache."""

    def order(self, wanted: Sequence[str] | None) -> list[str]:
        """The wanted stages (None = all) and all they need, in the order that `dvc repro <wanted>` would run them.

        Raises SonorantError for a stage that does not exist.
        """
        wanted = self.stages if wanted is None else wanted
        for name in wanted:
            if name not in self.stages:
                raise SonorantError(f"unknown stage '{name}'; dvc.yaml has: {', '.join(self.stages)}")
        chosen = {*wanted, *(need for name in wanted for need in self.needs[name])}
        return [name for name in self.stages if name in chosen]


def up_to_date(root: Path, stage: str) -> bool:
    """Whether `dvc repro --single-item` would find nothing to do. Raises SonorantError if DVC refuses the project."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(root)) as repo:
            return not repo.status(targets=[stage])
    except DvcException as error:
        raise SonorantError(f"{root / 'dvc.yaml'}: {' '.join(str(error).split())}") from None


def read_graph(root: Path) -> Pipeline:
    """Read dvc.yaml in the folder `root`, with the values of params.yaml. Raises SonorantError if DVC refuses it."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.stage import PipelineStage

    if not (root / "dvc.yaml").exists():
        raise SonorantError(f"{root / 'dvc.yaml'}: no such file; run from the project's folder")
    try:
        with Repo(str(root)) as repo:
            graph = networkx.DiGraph(repo.index.graph)  # from a stage to those it needs
            named = {stage: stage.name for stage in graph if isinstance(stage, PipelineStage)}
            place = {stage: number for number, stage in enumerate(named)}
            order = networkx.lexicographical_topological_sort(graph.reverse(), key=lambda stage: place.get(stage, -1))
            outs = {Path(out.fs_path) for stage in named for out in stage.outs}
            deps = {name: [Path(dep.fs_path) for dep in stage.deps] for stage, name in named.items()}
            written = {dep for read in deps.values() for dep in read if any(_overlap(dep, out) for out in outs)}
            sources = {dep for read in deps.values() for dep in read if dep not in written and dep.is_relative_to(root)}
            return Pipeline(
                stages=tuple(named[stage] for stage in order if stage in named),
                needs={
                    name: tuple(named[s] for s in networkx.descendants(graph, stage) if s in named)
                    for stage, name in named.items()
                },
                inputs={
                    name: tuple(sorted(dep.relative_to(root) for dep in read if dep in written))
                    for name, read in deps.items()
                },
                outs=tuple(sorted(out.relative_to(root) for out in outs)),
                commands={
                    name: stage.cmd if isinstance(stage.cmd, str) else " && ".join(stage.cmd)
                    for stage, name in named.items()
                },
                sources=tuple(sorted(dep.relative_to(root) for dep in sources)),
                cache=Path(repo.cache.local_cache_dir),
            )
    except DvcException as error:
        raise SonorantError(f"{root / 'dvc.yaml'}: {' '.join(str(error).split())}") from None


def _overlap(one: Path, other: Path) -> bool:
    """Whether one path equals or contains the other."""
    return one.is_relative_to(other) or other.is_relative_to(one)
