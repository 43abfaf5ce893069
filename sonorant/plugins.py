"""Plug-ins: voice families, commands, runtimes, corpus kinds and executors that the core does not import.

Each folder of `sonorant/extras` defines one `PLUGIN`, and an installed package may add one through an entry point
`<name> = "<module>:<attribute>"` in the group `sonorant.plugins`.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sonorant.errors import SonorantError

GROUP = "sonorant.plugins"
EXTRAS = "sonorant.extras"
PARALLEL = "sonorant.families.parallel.family:PARALLEL"
"""Module and attribute of the core's voice family."""


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """Everything that a plug-in adds, keyed by name. Values are `<module>:<attribute>`, imported on first use."""

    families: Mapping[str, str] = field(default_factory=dict)
    """Instances of `sonorant.families.family.Family`, keyed by `voice.family`."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """Functions that add a subcommand of `sonorant` to an argparse object, keyed by the subcommand."""
    programs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Subcommands of `sonorant` that run `<folder>/<name>.py` of the project: (folder, one line of help)."""
    runtimes: Mapping[str, str] = field(default_factory=dict)
    """Instances of `sonorant.speech.runtimes.ExtraRuntime`, keyed by runtime."""
    corpora: Mapping[str, str] = field(default_factory=dict)
    """Instances of `sonorant.corpus.importers.Importer`, keyed by `corpus.kind`."""
    executors: Mapping[str, str] = field(default_factory=dict)
    """Functions that take an address and the parameters of `sonorant.processes.spread`, keyed by the address's
    scheme."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Dataclasses of sections of params.yaml, keyed by section."""


@cache
def plugins() -> tuple[Plugin, ...]:
    """Return the plug-ins of `sonorant.extras` by name, then those of installed packages."""
    from importlib import metadata  # takes 20 ms, which `say` with a built-in family does not need

    extras = importlib.import_module(EXTRAS)
    own = [
        importlib.import_module(f"{EXTRAS}.{module.name}").PLUGIN for module in pkgutil.iter_modules(extras.__path__)
    ]
    return (*own, *(load(point.value) for point in sorted(metadata.entry_points(group=GROUP))))


def load(place: str) -> Any:
    """Import `<module>:<attribute>`. Raises SonorantError if it cannot be imported."""
    module, _, attribute = place.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SonorantError(f"cannot load {place} ({error}); reinstall its package") from None


def added(kind: str) -> dict[str, Any]:
    """Return everything that plug-ins add to the field `kind` of `Plugin`, keyed by name and not yet imported."""
    return {name: value for plugin in plugins() for name, value in getattr(plugin, kind).items()}


def family_names() -> list[str]:
    """Return `parallel`, then the families of plug-ins."""
    return ["parallel", *added("families")]


@cache
def load_family(name: str) -> Any:
    """Load the `sonorant.families.family.Family` with this name. Raises SonorantError listing all names if unknown."""
    if name == "parallel":
        return load(PARALLEL)
    families = added("families")
    if name not in families:
        raise SonorantError(f"unknown family '{name}'; use one of: {', '.join(family_names())}")
    return load(families[name])


def all_families() -> list[Any]:
    return [load_family(name) for name in family_names()]


def family_of(kind: str | None) -> Any:
    """Return the family with a model of this kind (`kind` in `model.json`). Raises SonorantError listing all kinds if
    unknown."""
    parallel = load_family("parallel")  # first, because looking for plug-ins takes time
    if kind in (one.name for one in parallel.kinds):
        return parallel
    for family in all_families():
        if kind in (one.name for one in family.kinds):
            return family
    raise SonorantError(f"unknown kind of model '{kind}'; use one of: {', '.join(all_kinds())}")


def model_kind(kind: str | None) -> Any:
    """Return the `sonorant.families.family.ModelKind` of this name. Raises SonorantError listing all kinds if
    unknown."""
    return next(one for one in family_of(kind).kinds if one.name == kind)


def all_kinds() -> dict[str, Any]:
    return {kind.name: kind for family in all_families() for kind in family.kinds}
