"""A store in a folder, local or mounted on several machines."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.features.store.store import Entry
from sonorant.files import flush_to_disk

DRAFTS = "drafts"


class Folder:
    """Implements `sonorant.features.store.store.Store`."""

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, str(path)

    def read(self, name: str) -> bytes | None:
        with self._named():
            try:
                return (self.path / name).read_bytes()
            except FileNotFoundError:
                return None

    def fetch(self, name: str, target: Path) -> bool:
        with self._named():
            try:
                shutil.copyfile(self.path / name, target)
            except FileNotFoundError:
                return False
        return True

    def local(self, name: str) -> Path | None:
        return self.path / name

    def put(self, source: Path, name: str) -> None:
        with self._named():
            target = self._room_for(name)
            flush_to_disk(source)
            source.replace(target)
            flush_to_disk(target.parent)

    def create(self, name: str, data: bytes) -> bytes:
        with self._named(), self.draft() as folder:
            target, new = self._room_for(name), folder / "new"
            new.write_bytes(data)
            flush_to_disk(new)
            try:
                os.link(new, target)  # unlike a rename, never replaces an existing file
            except FileExistsError:
                return target.read_bytes()
            except OSError:  # file system without hard links
                new.replace(target)
            flush_to_disk(target.parent)
        return data

    def entries(self, prefix: str) -> Iterator[Entry]:
        with self._named():
            for folder, _, files in os.walk(self.path / prefix):
                for file in files:
                    path = Path(folder) / file
                    with suppress(FileNotFoundError):
                        found = path.stat()
                        yield Entry(path.relative_to(self.path).as_posix(), found.st_size, found.st_mtime)

    def delete(self, name: str) -> None:
        with self._named():
            (self.path / name).unlink(missing_ok=True)

    @contextmanager
    def draft(self) -> Iterator[Path]:
        with self._named():
            (self.path / DRAFTS).mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=self.path / DRAFTS))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def tidy(self, before: float, *, dry_run: bool) -> list[Entry]:
        found = []
        with self._named():
            for draft in sorted((self.path / DRAFTS).glob("*")):
                name = f"{DRAFTS}/{draft.name}"
                with suppress(FileNotFoundError):  # its process removed it
                    files, begun = list(self.entries(name)), draft.stat().st_mtime
                    newest = max([begun, *(file.modified for file in files)])
                    if newest <= before:
                        found.append(Entry(name, sum(file.size for file in files), newest))
                        if not dry_run:
                            shutil.rmtree(draft)
        return found

    def _room_for(self, name: str) -> Path:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = error.filename or self.path
            raise SonorantError(
                f"store {where}: {error.strerror}; free disk space or choose another store.place"
            ) from None
