"""The command `sonorant store`: gc, check and copy of a store of features and codes."""

import argparse
import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sonorant.errors import SonorantError

if TYPE_CHECKING:
    from sonorant.features.store.upkeep import Needed

EXAMPLES = """\
examples:
  sonorant store check data/features data/codes                read every shard and compare it with its hash
  sonorant store gc data/features data/codes --dry-run         what no index needs
  sonorant store gc data/features data/codes --only            remove what these two do not need, older indexes' too
  sonorant store copy data/features --to s3://bucket/prefix    so that other machines find the shards there
"""


def add_store(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    store = commands.add_parser(
        "store",
        help="shards of features and codes: remove what is not needed, find what is damaged, copy them",
        description="Maintain the store with the shards of features and codes (docs/scale.md).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = store.add_argument
    add("action", choices=("gc", "check", "copy"), help="what to do")
    add("indexes", nargs="+", type=Path, metavar="INDEX", help="folders that the stages wrote, such as data/features")
    add("--only", action="store_true", help="gc: forget all other indexes that were made from the store")
    add("--dry-run", action="store_true", help="gc: only print what would be removed")
    add("--hours", type=_hours, default=24.0, help="gc: keep what is younger (default 24)")
    add("--delete-damaged", action="store_true", help="check: remove what is damaged, so that its stage makes it anew")
    add("--to", metavar="PLACE", help="copy: a folder or s3://bucket/prefix")
    store.set_defaults(run=_run)


def _hours(text: str) -> float:
    with suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text} is not a number of hours")


def _run(arguments: argparse.Namespace) -> None:
    from sonorant.features.indexes import needed_of
    from sonorant.features.store import open_store
    from sonorant.features.store.upkeep import collect, copy

    needed = [one for index in arguments.indexes if (one := needed_of(index)) is not None]
    if not needed:
        raise SonorantError(f"{arguments.indexes[0]}: an index without shards; name data/features")
    if arguments.action == "gc":
        removed = collect(needed, only=arguments.only, hours=arguments.hours, dry_run=arguments.dry_run)
        did = "would remove" if arguments.dry_run else "removed"
        what = f"{removed.shards} shards, {removed.objects} arrays, {removed.drafts} drafts"
        what += f", {removed.bytes / 2**30:.2f} GiB"
        print(f"{did} {what}; forgot {removed.indexes} indexes")
    elif arguments.action == "copy":
        if not arguments.to:
            raise SonorantError("sonorant store copy: --to is missing, a folder or s3://bucket/prefix")
        print(f"copied {copy(needed, open_store(arguments.to))} objects to {arguments.to}; set store.place to it")
    else:
        _check(needed, arguments.delete_damaged)


def _check(needed: "list[Needed]", delete: bool) -> None:
    """Read everything. Raises SonorantError if something is missing or damaged and was not removed."""
    from sonorant.features.store.upkeep import faults, store_of

    store, found = store_of(needed), list(faults(needed))
    for name, fault in found:
        print(f"{store.place}/{name}: {fault}")
        if delete:
            store.delete(name)
    total = sum(len(one.objects) for one in needed)
    if not found:
        print(f"{total} arrays in {store.place} are what their names say")
        return
    remedy = (
        "now run: dvc repro --force --single-item features (of codes: train_waveform)"
        if delete
        else "run it with --delete-damaged"
    )
    message = f"{len(found)} of {total} arrays in {store.place} are missing or damaged; {remedy}"
    if not delete:
        raise SonorantError(message)
    print(message)
