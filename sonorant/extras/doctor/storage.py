"""Check how fast, full and reliable the disk below a folder is. Writing is measured with a temporary file of bounded
size; nothing is written to a folder that training only reads."""

import errno
import fcntl
import mmap
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sonorant.extras.doctor.examination import Finding, not_run, ok, problem, warning
from sonorant.features.store.place import FILE as PLACE
from sonorant.features.store.place import Place

AREA = "storage"
MIB = 2**20
SIZE = 64 * MIB
"""Most bytes written and read."""
PLACES = 256
"""Random reads, of one page each."""
PAGE = mmap.PAGESIZE
FREE_WANTED = 5 * 2**30
"""Bytes for a run's checkpoints, samples and log."""
FREE_NEEDED = 2**30
READ_WANTED = 50 * MIB
WRITE_WANTED = 20 * MIB
LATENCY_WANTED = 0.005
"""Seconds of a random read; a batch takes a few dozen."""
NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "fuse", "ceph", "lustre", "gpfs", "beegfs", "9p", "glusterfs")


def examine_read(folder: Path) -> Iterator[Finding]:
    """Findings of a folder that training reads (features): of the store of its shards. Reads the largest file, writes
    nothing."""
    name = str(folder)
    if not folder.is_dir():
        yield problem(AREA, name, "no such folder", "run the stage that makes it (dvc repro features), or name another")
        return
    if (folder / PLACE).is_file():  # an index: what is read are the shards that it names
        place = Place.read(folder, "run: dvc repro features")
        if place.remote:
            yield not_run(AREA, f"{name} reading", f"its shards are in {place.store}")
            return
        folder = Path(place.store)
        if not folder.is_dir():
            yield problem(AREA, name, f"its shards are not in {folder}", "mount the store there (docs/scale.md)")
            return
    yield file_system(name, folder)
    files = [file for file in folder.rglob("*") if file.is_file()]
    largest = max(files, key=lambda file: file.stat().st_size, default=None)
    if largest is None or largest.stat().st_size < PAGE:
        yield not_run(AREA, f"{name} reading", "nothing in it is large enough to measure")
        return
    try:
        yield from reading(name, largest)
    except OSError as error:
        hint = "give this user the right to read it"
        yield problem(AREA, f"{name} reading", f"{largest.name}: {error.strerror}", hint)


def examine_write(folder: Path) -> Iterator[Finding]:
    """Findings of a folder that training writes (run directories)."""
    name = str(folder)
    existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    yield file_system(name, existing)
    try:
        free = os.statvfs(existing).f_bavail * os.statvfs(existing).f_frsize
        yield check_free(name, free)
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=existing) as place:
            yield check_lock(name, Path(place) / "lock")
            yield from writing(name, Path(place) / "file", min(SIZE, free // 20))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "make room there" if full else "give this user the right to write there, or name another folder"
        yield problem(AREA, f"{name} writing", f"{existing}: {error.strerror}", hint)


def check_free(name: str, free: int) -> Finding:
    """Whether `free` bytes suffice for run directories."""
    value = f"{free / 2**30:.1f} GiB"
    if free < FREE_NEEDED:
        hint = "a checkpoint may not fit: make room, or name a folder on another disk"
        return problem(AREA, f"{name} free", value, hint)
    if free < FREE_WANTED:
        hint = "make room: checkpoints of two trainings and their copies need a few GiB"
        return warning(AREA, f"{name} free", value, hint)
    return ok(AREA, f"{name} free", value)


def check_lock(name: str, file: Path) -> Finding:
    """Whether a lock keeps a second process out, which protects a run directory from a second trainer."""
    with file.open("w") as first, file.open("w") as second:
        try:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ok(AREA, f"{name} locks", "flock keeps a second one out")
        except OSError as error:
            value = f"flock: {error.strerror}"
        else:
            value = "flock lets a second one in"
    return problem(AREA, f"{name} locks", value, "mount it with locks (NFS: version 4), or use another disk")


def file_system(name: str, folder: Path) -> Finding:
    kind = file_system_kind(folder)
    if kind is None:
        return not_run(AREA, f"{name} kind", "this system has no /proc/mounts")
    over_network = " over the network" if kind.startswith(NETWORK_FILE_SYSTEMS) else ""
    return ok(AREA, f"{name} kind", kind + over_network)


def file_system_kind(folder: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """Type of the file system, by the longest mount point above the folder."""
    try:
        points = [line.split(" ")[1:3] for line in mounts.read_text().splitlines()]
    except OSError:
        return None
    real = folder.resolve()
    holding = [(len(point), kind) for point, kind in points if real.is_relative_to(point.replace("\\040", " "))]
    return max(holding)[1] if holding else None


def writing(name: str, file: Path, size: int) -> Iterator[Finding]:
    """Write `size` bytes, flush them to the disk, read them back."""
    block = np.random.default_rng(0).bytes(MIB)
    start = time.perf_counter()
    with file.open("wb") as out:
        for _ in range(max(1, size // MIB)):
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    rate = file.stat().st_size / (time.perf_counter() - start)
    value = f"{rate / MIB:.0f} MiB/s written and flushed"
    if rate < WRITE_WANTED:
        hint = "every checkpoint waits for this: put runs on a disk of this machine"
        yield warning(AREA, f"{name} writing", value, hint)
    else:
        yield ok(AREA, f"{name} writing", value)
    yield from reading(name, file)


def reading(name: str, file: Path) -> Iterator[Finding]:
    """Read up to SIZE bytes of a file in sequence, then single pages at random."""
    uncached = forget(file)
    start = time.perf_counter()
    done = 0
    with file.open("rb", buffering=0) as source:
        while done < SIZE and (block := source.read(MIB)):
            done += len(block)
    rate = done / (time.perf_counter() - start)
    median, slow = random_reads(file)
    told = "" if uncached else " (from the cache: this system cannot be asked to forget)"
    value = f"{rate / MIB:.0f} MiB/s in a row, a random page in {median * 1e3:.2f} ms (99 %: {slow * 1e3:.2f} ms){told}"
    if rate < READ_WANTED or median > LATENCY_WANTED:
        hint = "copy features to a fast disk first: data.preload in params.yaml (folder or memory)"
        yield warning(AREA, f"{name} reading", value, hint)
    else:
        yield ok(AREA, f"{name} reading", value)


def random_reads(file: Path) -> tuple[float, float]:
    """Seconds to read one page by its place, as feature stores are read: median and 99th percentile."""
    forget(file)
    seconds = []
    with file.open("rb", buffering=0) as source:
        for place in np.random.default_rng(0).integers(0, file.stat().st_size, PLACES).tolist():
            start = time.perf_counter()
            os.pread(source.fileno(), PAGE, place)
            seconds.append(time.perf_counter() - start)
    median, slow = np.percentile(seconds, [50, 99])
    return float(median), float(slow)


def forget(file: Path) -> bool:
    """Drop the file from the system's cache, so that the disk is measured; False if the system cannot."""
    if not hasattr(os, "posix_fadvise"):
        return False
    with file.open("rb") as source:
        os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True
