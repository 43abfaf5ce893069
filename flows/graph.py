"""The pipeline's graph, read from dvc.yaml."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx
import yaml

from sonorant.errors import SonorantError


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    stages: tuple[str, ...]
    """Names of the stages in execution order."""
    needs: dict[str, tuple[str, ...]]
    """Direct and indirect prerequisites of each stage."""
    inputs: dict[str, tuple[Path, ...]]
    """Outputs of other stages that each stage reads."""
    params: dict[str, tuple[str, ...]]
    """Sections and keys of params.yaml that each stage reads or that dvc.yaml inserts into it."""
    outs: tuple[Path, ...]
    writes: dict[str, tuple[Path, ...]]
    """Outputs of each stage."""
    commands: dict[str, str]
    sources: tuple[Path, ...]
    """Files that stages read but no stage writes."""
    cache: Path
    """Absolute path of DVC's cache."""

    def writer(self, file: Path) -> str | None:
        return next((name for name, outs in self.writes.items() if any(file.is_relative_to(out) for out in outs)), None)

    def settings_of(self, stage: str, keys: Iterable[str]) -> list[str]:
        """Return those of `keys` (section.key) that the stage depends on, directly or indirectly."""
        read = {name for each in (stage, *self.needs[stage]) for name in self.params[each]}
        return [key for key in keys if any(f"{key}.".startswith(f"{name}.") for name in read)]

    def order(self, wanted: Sequence[str] | None) -> list[str]:
        """Return the stages `wanted` (None means all) and their prerequisites in the order of `dvc repro`. Raises
        SonorantError for an unknown stage."""
        wanted = self.stages if wanted is None else wanted
        for name in wanted:
            if name not in self.stages:
                raise SonorantError(f"unknown stage '{name}'; dvc.yaml has: {', '.join(self.stages)}")
        chosen = {*wanted, *(need for name in wanted for need in self.needs[name])}
        return [name for name in self.stages if name in chosen]


def up_to_date(root: Path, stage: str) -> bool:
    """Return whether the stage is up to date. Raises SonorantError if DVC cannot read the project."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(root)) as repo:
            return not repo.status(targets=[stage])
    except DvcException as error:
        raise SonorantError(f"{root / 'dvc.yaml'}: DVC: {' '.join(str(error).split())}; run: dvc status") from None


def read_graph(root: Path) -> Pipeline:
    """Read dvc.yaml in the folder `root`. Raises SonorantError if DVC cannot read it."""
    from dvc.dependency import ParamsDependency
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.stage import PipelineStage

    if not (root / "dvc.yaml").exists():
        raise SonorantError(f"{root / 'dvc.yaml'}: no such file; run this command in the project folder")
    try:
        with Repo(str(root)) as repo:
            graph = networkx.DiGraph(repo.index.graph)  # edges point to prerequisites
            named = {stage: stage.name for stage in graph if isinstance(stage, PipelineStage)}
            place = {stage: number for number, stage in enumerate(named)}
            order = networkx.lexicographical_topological_sort(graph.reverse(), key=lambda stage: place.get(stage, -1))
            writes = {name: [Path(out.fs_path) for out in stage.outs] for stage, name in named.items()}
            outs = {out for written in writes.values() for out in written}
            filled_in = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
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
                params={
                    name: (
                        *(key for dep in stage.deps if isinstance(dep, ParamsDependency) for key in dep.params),
                        *re.findall(r"\$\{([\w.]+)", str(filled_in[name])),
                    )
                    for stage, name in named.items()
                },
                outs=tuple(sorted(out.relative_to(root) for out in outs)),
                writes={name: tuple(out.relative_to(root) for out in outs) for name, outs in writes.items()},
                commands={
                    name: stage.cmd if isinstance(stage.cmd, str) else " && ".join(stage.cmd)
                    for stage, name in named.items()
                },
                sources=tuple(sorted(dep.relative_to(root) for dep in sources)),
                cache=Path(repo.cache.local_cache_dir),
            )
    except DvcException as error:
        raise SonorantError(f"{root / 'dvc.yaml'}: DVC: {' '.join(str(error).split())}; run: dvc status") from None


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)
