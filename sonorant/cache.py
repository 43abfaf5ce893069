"""Results kept by the content they were computed from: an interrupted stage goes on where it stopped, and a recording
that was added or edited is worked on alone."""

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from sonorant.files import sha256_tree
from sonorant.processes import scheduler_address, spread, usable_cores

if TYPE_CHECKING:
    import diskcache

Item = TypeVar("Item")
_PER_PROCESS = 32  # fewer items are done sooner than a process starts


def code_of(*modules: ModuleType) -> str:
    """Hex SHA-256 of the source of modules and packages: a part of the key of everything that they compute."""
    return sha256_tree([file.parent if file.name == "__init__.py" else file for file in map(_file, modules)])


def _file(module: ModuleType) -> Path:
    assert module.__file__ is not None
    return Path(module.__file__)


def key_of(*parts: Any) -> str:
    """Hex SHA-256 of plain JSON values."""
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
    """Apply `function` to the items whose key the cache in `folder` lacks; return the results of all items, in order.

    A result is plain JSON and is kept as soon as it is there; what is returned is what `parse` makes of it. `folder`:
    None = compute all, keep nothing. `processes`, `prepare`, `arguments` and `reads` as in `spread`; few items are
    computed in this process.
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
    """JSON, not the package's pickles: a cache may come from elsewhere. Nothing is evicted."""
    import diskcache  # here, as training needs the keys of this module and has little installed

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
    from tqdm import tqdm  # as diskcache above

    if prepare and items:
        prepare(*arguments)
    for place, item in enumerate(tqdm(items, desc=label, unit=unit)):
        keep(place, function(item))
