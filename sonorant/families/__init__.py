"""Every family of voice by name. A package adds one by an entry point `<name> = "<module>:<attribute>"` in the group
`sonorant.families`; the attribute is a `sonorant.families.family.Family`."""

import importlib
from functools import cache

from sonorant.errors import SonorantError
from sonorant.families.family import Family, ModelKind

GROUP = "sonorant.families"
BUILT_IN = {
    "parallel": "sonorant.families.parallel.family:PARALLEL",
    "codec_lm": "sonorant.extras.codec_lm.family:CODEC_LM",
}
"""Name -> module and attribute, imported when the family is asked for."""


def family_names() -> list[str]:
    """All names, the built-in families first."""
    return [*BUILT_IN, *sorted(_registered())]


@cache
def load_family(name: str) -> Family:
    """The family of a name. Raises SonorantError listing the names if there is none, or if it cannot be imported."""
    place = BUILT_IN.get(name) or _registered().get(name)
    if place is None:
        raise SonorantError(f"unknown family '{name}'; there are: {', '.join(family_names())}")
    module, _, attribute = place.partition(":")
    try:
        family: Family = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SonorantError(f"family '{name}': cannot load {place} ({error}); reinstall its package") from None
    return family


def all_families() -> list[Family]:
    """Every family, in the order of `family_names`."""
    return [load_family(name) for name in family_names()]


def family_of(kind: str | None) -> Family:
    """The family that has a model of this kind (`kind` in `model.json`). Raises SonorantError listing the kinds."""
    for name in BUILT_IN:  # entry points are looked up only where no built-in family has the kind
        if kind in [one.name for one in load_family(name).kinds]:
            return load_family(name)
    for family in all_families():
        if kind in [one.name for one in family.kinds]:
            return family
    kinds = ", ".join(one.name for family in all_families() for one in family.kinds)
    raise SonorantError(f"unknown kind of model '{kind}'; there are: {kinds}")


def model_kind(kind: str | None) -> ModelKind:
    """The kind of model of this name. Raises SonorantError listing the kinds."""
    return next(one for one in family_of(kind).kinds if one.name == kind)


def all_kinds() -> dict[str, ModelKind]:
    """Every kind of model by name."""
    return {kind.name: kind for family in all_families() for kind in family.kinds}


@cache
def _registered() -> dict[str, str]:
    """Name -> module and attribute of the families that installed packages register."""
    from importlib import metadata  # 20 ms, and a voice of a built-in family needs none of it

    return {point.name: point.value for point in metadata.entry_points(group=GROUP) if point.name not in BUILT_IN}
