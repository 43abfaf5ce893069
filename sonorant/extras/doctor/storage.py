"""Check the disks that hold features and run directories: free space, file locking, and speed."""

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.extras.doctor.finding import Finding, not_run, ok, problem, warning
from sonorant.features.store.place import FILE as PLACE
from sonorant.features.store.place import Place

MIB = 2**20
SIZE = 64 * MIB
"""Maximum bytes to write or read in a speed test."""
FREE_WANTED, FREE_NEEDED = 5 * 2**30, 2**30
"""Minimum free bytes: for the checkpoints of two training runs, and for one checkpoint."""
READ_WANTED, WRITE_WANTED = 50 * MIB, 20 * MIB
"""Minimum read and write speeds in bytes per second."""


def examine_read(folder: Path) -> Iterator[Finding]:
    """Yield findings on a feature store. Reads up to SIZE bytes of its largest shard; writes nothing."""
    name = f"{folder} reading"
    try:
        if (folder / PLACE).is_file():  # an index of shards in another store
            place = Place.read(folder, "run: dvc repro features")
            if place.remote:
                yield not_run(name, f"its shards are in {place.store}")
                return
            folder = Path(place.store)
        files = [file for file in folder.rglob("*") if file.is_file()]
        if not files:
            raise SonorantError(f"no shards in {folder}")
        yield reading(name, max(files, key=lambda file: file.stat().st_size))
    except (SonorantError, OSError) as error:
        yield problem(name, str(error), "run: dvc repro features, or give another folder")


def examine_write(folder: Path) -> Iterator[Finding]:
    """Yield findings on a folder of run directories. Writes and removes a temporary file of at most SIZE bytes."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    try:
        free = shutil.disk_usage(existing).free
        yield check_free(f"{folder} free", free)
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=existing) as place:
            yield check_flock(f"{folder} locks", Path(place) / "lock")
            yield writing(f"{folder} writing", Path(place) / "file", min(SIZE, free // 20))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "free some space there" if full else "give this user write permission there, or use another folder"
        yield problem(f"{folder} writing", f"{existing}: {error.strerror}", hint)


def check_free(name: str, free: int) -> Finding:

    value = f"{free / 2**30:.1f} GiB"
    if free < FREE_NEEDED:
        return problem(name, value, "a checkpoint may not fit: free some space, or use another disk")
    if free < FREE_WANTED:
        return warning(name, value, "free some space: checkpoints of two trainings need a few GiB")
    return ok(name, value)


def check_flock(name: str, file: Path) -> Finding:
    """Check that file locks exclude other processes, because a lock protects a run directory from a second trainer."""
    value = "flock lets a second process in"
    with file.open("w") as first, file.open("w") as second:
        try:
            for each in (first, second):
                fcntl.flock(each, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ok(name, "flock keeps a second process out")
        except OSError as error:
            value = f"flock: {error.strerror}"
    return problem(name, value, "mount it with file locking (NFS version 4), or use another disk")


def writing(name: str, file: Path, size: int) -> Finding:
    """Measure the speed of writing `size` bytes and flushing them to the disk."""
    block = os.urandom(MIB)
    start = time.perf_counter()
    with file.open("wb") as out:
        for _ in range(max(1, size // MIB)):
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    rate = file.stat().st_size / (time.perf_counter() - start)
    value = f"{rate / MIB:.0f} MiB/s written and flushed"
    if rate < WRITE_WANTED:
        return warning(name, value, "every checkpoint waits for this disk: put runs on a local one")
    return ok(name, value)


def reading(name: str, file: Path) -> Finding:
    """Measure the speed of reading up to SIZE bytes, bypassing the page cache if possible."""
    with file.open("rb", buffering=0) as source:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        start, done = time.perf_counter(), 0
        while done < SIZE and (block := source.read(MIB)):
            done += len(block)
    rate = done / (time.perf_counter() - start)
    value = f"{rate / MIB:.0f} MiB/s read sequentially"
    if rate < READ_WANTED:
        return warning(name, value, "copy features to a fast disk: data.preload in params.yaml (folder or memory)")
    return ok(name, value)
