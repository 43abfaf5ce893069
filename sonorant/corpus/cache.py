"""Cache of results, keyed by the inputs and code that they were computed from. An interrupted stage continues where it
stopped, and after a recording is added or edited, only that recording is processed."""

import ast
import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from sonorant.files import sha256_file
from sonorant.processes import scheduler_address, spread, usable_cores

if TYPE_CHECKING:
    import diskcache

Item = TypeVar("Item")
_PER_PROCESS = 32  # fewer items take less time than starting a process


def code_of(*modules: ModuleType) -> str:
    """Return the hexadecimal SHA-256 of modules and packages (see `hash_of_code`), part of the key of all their
    results."""
    digest = hashlib.sha256()
    files = [Path(str(module.__file__)) for module in modules]
    for root in sorted(file.parent if file.name == "__init__.py" else file for file in files):
        for file in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(root.parent)}\0{hash_of_code(file)}\n".encode())
    return digest.hexdigest()


@cache
def hash_of_code(file: Path) -> str:
    """Return the hexadecimal SHA-256 of a file; for Python files, without comments, docstrings and formatting."""
    if file.suffix != ".py":
        return sha256_file(file)
    code = _syntax(ast.parse(file.read_text(encoding="utf-8")))
    return hashlib.sha256(repr(code).encode()).hexdigest()


def _syntax(node: Any) -> Any:
    """Convert a syntax tree to nested tuples, without string statements and empty fields, which are more numerous in
    newer Pythons."""
    if isinstance(node, list):
        return [_syntax(each) for each in node if not _is_docstring(each)]
    if not isinstance(node, ast.AST):
        return node
    fields = ((name, getattr(node, name, None)) for name in node._fields)
    return (type(node).__name__, *((name, _syntax(value)) for name, value in fields if value not in (None, [])))


def _is_docstring(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def key_of(*parts: Any) -> str:
    """Return the hexadecimal SHA-256 of plain JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def compute_missing(
    function: Callable[[Item], Any],
    items: Sequence[Item],
    keys: Sequence[str],
    folder: Path | None,
    *,
    label: str,
    unit: str,
    processes: int | None = None,
    prepare: Callable[..., None] | None = None,
    arguments: tuple[Any, ...] = (),
    reads: Sequence[Path] = (),
    parse: Callable[[Any], Any] = lambda result: result,
) -> list[Any]:
    """Apply `function` to the items whose keys are missing from the cache in `folder`. Return the results of all items,
    in order.

    Results are plain JSON, stored as soon as computed, and converted by `parse` before they are returned. If `folder`
    is None, all items are computed and nothing is stored. `processes`, `prepare`, `arguments` and `reads` are as in
    `spread`; a few items are computed in this process.
    """
    with ExitStack() as stack:
        cache: Any = stack.enter_context(_open(folder)) if folder else {}
        known = [None if (result := cache.get(key)) is None else parse(result) for key in keys]
        missing = [place for place, result in enumerate(known) if result is None]

        def keep(place: int, result: Any) -> None:
            if folder:
                cache[keys[missing[place]]] = result
            known[missing[place]] = parse(result)

        workers = 1 + len(missing) // _PER_PROCESS
        if workers > 1 and processes is None and scheduler_address():
            apply: Any = partial(spread, reads=reads)
        else:
            workers = min(processes or usable_cores(), workers)
            apply = _in_this_process if workers == 1 else partial(spread, processes=workers)
        work = [items[place] for place in missing]
        apply(function, work, label=label, unit=unit, prepare=prepare, arguments=arguments, keep=keep)
    return known


def _open(folder: Path) -> "diskcache.Cache":
    """Open a cache of JSON instead of the package's pickles, because a cache may come from elsewhere. Nothing is
    evicted."""
    import diskcache  # imported here, because training uses this module's keys with few packages installed

    return diskcache.Cache(str(folder), disk=diskcache.JSONDisk, eviction_policy="none")


def _in_this_process(
    function: Callable[[Item], Any],
    items: Sequence[Item],
    *,
    label: str,
    unit: str,
    prepare: Callable[..., None] | None,
    arguments: tuple[Any, ...],
    keep: Callable[[int, Any], None],
) -> None:
    from tqdm import tqdm  # imported here for the same reason as diskcache

    if prepare and items:
        prepare(*arguments)
    for place, item in enumerate(tqdm(items, desc=label, unit=unit)):
        keep(place, function(item))
