"""The tree of a text's words that gruut works on, in place of networkx.

gruut walks the tree some fifty times for a sentence and changes it a few times, so the order of a walk is kept until
then. networkx takes half of a sentence's time for it, and is the longest of gruut's imports. Names are networkx's, as
far as gruut uses them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

Edge = tuple[int, int]


class DiGraph:
    """A directed graph whose edges stay in the order in which they were added."""

    def __init__(self) -> None:
        self.nodes: dict[int, dict[str, Any]] = {}
        self._after: dict[int, dict[int, None]] = {}
        self._before: dict[int, dict[int, None]] = {}
        self._walks: dict[int, Sequence[int]] = {}
        self._leaves: dict[int, Sequence[Any]] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def add_node(self, node: int, **attributes: Any) -> None:
        if node not in self.nodes:
            self.nodes[node], self._after[node], self._before[node] = {}, {}, {}
        self.nodes[node].update(attributes)
        self._forget()

    def add_edge(self, start: int, end: int) -> None:
        self.add_node(start)
        self.add_node(end)
        self._after[start][end] = self._before[end][start] = None
        self._forget()

    def add_edges_from(self, edges: Iterable[Edge]) -> None:
        for start, end in edges:
            self.add_edge(start, end)

    def remove_edges_from(self, edges: Iterable[Edge]) -> None:
        """Edges that are not there are passed over."""
        for start, end in edges:
            if end in self._after.get(start, {}):
                del self._after[start][end], self._before[end][start]
        self._forget()

    def out_degree(self, node: int) -> int:
        return len(self._after[node])

    def out_edges(self, node: int) -> list[Edge]:
        return [(node, end) for end in self._after[node]]

    def successors(self, node: int) -> Iterable[int]:
        return iter(self._after[node])

    def predecessors(self, node: int) -> Iterable[int]:
        return iter(self._before[node])

    def walk(self, source: int) -> Sequence[int]:
        """Nodes that can be reached from `source`, each once, before those behind it."""
        if source not in self._walks:
            order: dict[int, None] = {}
            ahead = [source]
            while ahead:
                node = ahead.pop()
                if node not in order:
                    order[node] = None
                    ahead.extend(reversed(self._after[node]))
            self._walks[source] = tuple(order)
        return self._walks[source]

    def leaves(self, source: int) -> Sequence[Any]:
        """What the nodes hold, as `data`, from which no edge leads on, in the order of `walk`."""
        if source not in self._leaves:
            self._leaves[source] = tuple(
                self.nodes[node]["data"] for node in self.walk(source) if not self._after[node]
            )
        return self._leaves[source]

    def _forget(self) -> None:
        self._walks, self._leaves = {}, {}


def dfs_preorder_nodes(graph: DiGraph, source: int) -> Sequence[int]:
    return graph.walk(source)


def leaves(graph: DiGraph, node: Any) -> Sequence[Any]:
    """In place of `gruut.utils.leaves`."""
    return graph.leaves(node.node)
