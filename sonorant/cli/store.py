"""The command `sonorant store`: clean up, check or copy a store of features and codes."""

import argparse
import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sonorant.errors import SonorantError
from sonorant.files import read_json

if TYPE_CHECKING:
    from sonorant.features.store.upkeep import Needed

EXAMPLES = """\
examples:
  sonorant store check data/features data/codes                compare every shard with its hash
  sonorant store gc data/features data/codes --dry-run         list what no index needs
  sonorant store gc data/features data/codes --only            remove everything that these two indexes do not need
  sonorant store copy data/features --to s3://bucket/prefix    copy the shards where other machines can read them
"""


def add_store(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    store = commands.add_parser(
        "store",
        help="remove unneeded shards of features and codes, find damaged ones, or copy them",
        description="Maintain the store that contains the shards of features and codes (docs/scale.md).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = store.add_argument
    add("action", choices=("gc", "check", "copy"), help="what to do")
    add("indexes", nargs="+", type=Path, metavar="INDEX", help="folder written by a stage, such as data/features")
    add("--only", action="store_true", help="gc: forget all other indexes of the store")
    add("--dry-run", action="store_true", help="gc: only print what would be removed")
    add("--hours", type=_hours, default=24.0, help="gc: keep files that are younger than this (default 24)")
    add("--delete-damaged", action="store_true", help="check: remove damaged shards, so their stage writes them again")
    add("--to", metavar="PLACE", help="copy: destination, a folder or s3://bucket/prefix")
    store.set_defaults(run=_run)


def _hours(text: str) -> float:
    with suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text} is not a number of hours, at least 0")


def _run(arguments: argparse.Namespace) -> None:
    for index in arguments.indexes:
        read_json(index / "header.json")
    from sonorant.features.indexes import needed_of
    from sonorant.features.store import open_store
    from sonorant.features.store.upkeep import collect, copy

    needed = [one for index in arguments.indexes if (one := needed_of(index)) is not None]
    if not needed:
        raise SonorantError(f"{arguments.indexes[0]}: the index has no shards; give a folder such as data/features")
    if arguments.action == "gc":
        removed = collect(needed, only=arguments.only, hours=arguments.hours, dry_run=arguments.dry_run)
        did = "would remove" if arguments.dry_run else "removed"
        what = f"{removed.shards} shards, {removed.objects} arrays, {removed.drafts} drafts"
        what += f", {removed.bytes / 2**30:.2f} GiB"
        print(f"{did} {what}; forgot {removed.indexes} indexes")
    elif arguments.action == "copy":
        if not arguments.to:
            raise SonorantError("sonorant store copy: --to is missing; give a folder or s3://bucket/prefix")
        print(f"copied {copy(needed, open_store(arguments.to))} objects to {arguments.to}; set store.place to it")
    else:
        _check(needed, arguments.delete_damaged)


def _check(needed: "list[Needed]", delete: bool) -> None:
    from sonorant.features.store.upkeep import faults, store_of

    store, found = store_of(needed), list(faults(needed))
    for name, fault in found:
        print(f"{store.place}/{name}: {fault}")
        if delete:
            store.delete(name)
    total = sum(len(one.objects) for one in needed)
    if not found:
        print(f"{total} arrays in {store.place} match their hashes")
        return
    remedy = (
        "now run: dvc repro --force --single-item features (for codes: train_waveform)"
        if delete
        else "run the command again with --delete-damaged"
    )
    message = f"{len(found)} of {total} arrays in {store.place} are missing or damaged; {remedy}"
    if not delete:
        raise SonorantError(message)
    print(message)
