"""The bundle that ships: of all exported variants those that passed, the chosen one as the default. Knows nothing of the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sonorant.choice.decision import shipped_variants
from sonorant.errors import SonorantError
from sonorant.runtime.bundle import Bundle, Graph, write_bundle


def ship(exported: Bundle, choice: Mapping[str, Any], out: Path) -> None:
    """Write the bundle `out` from the `exported` one, atomically.

    Raises SonorantError if a graph lacks the chosen variant, or a file is damaged.
    """
    variants = shipped_variants(choice)
    graphs = {
        name: _kept(exported, name, graph, variants, choice["variant"]) for name, graph in exported.description.graphs.items()
    }
    files = [exported.graph_file(name, variant) for name, graph in graphs.items() for variant in graph.variants]
    reference = exported.reference_file()
    files += [reference] if reference else []
    write_bundle(out, replace(exported.description, graphs=graphs, choice=dict(choice)), dict.fromkeys(files))


def _kept(exported: Bundle, name: str, graph: Graph, variants: list[str], default: str) -> Graph:
    if default not in graph.variants:
        raise SonorantError(f"{exported.folder}: graph {name} has no variant '{default}', which was chosen; run evaluate again")
    return replace(graph, variants={v: graph.variants[v] for v in variants if v in graph.variants}, default_variant=default)
