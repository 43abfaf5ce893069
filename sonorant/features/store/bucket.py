"""A store in an S3 bucket."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError, needing
from sonorant.features.store.proxy import check_proxy
from sonorant.features.store.store import Entry

with needing("s3", "a store in a bucket"):
    import obstore
    from obstore.exceptions import (
        AlreadyExistsError,
        BaseError,
        NotFoundError,
        NotSupportedError,
        PermissionDeniedError,
        UnauthenticatedError,
    )
    from obstore.store import S3Store


ANSWER = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)
"""Pattern for the S3 error code and message in obstore's message."""


class Bucket:
    """A `sonorant.features.store.store.Store` on S3. obstore retries after HTTP 503 and broken connections."""

    def __init__(self, place: str) -> None:
        self.place = place.rstrip("/")
        check_proxy(os.environ.get("AWS_ENDPOINT_URL") or "https://")  # obstore would retry for three minutes
        with self._named():
            self._store = S3Store.from_url(self.place)

    def read(self, name: str) -> bytes | None:
        with self._named():
            try:
                return bytes(obstore.get(self._store, name).bytes())
            except (NotFoundError, FileNotFoundError):
                return None

    def fetch(self, name: str, target: Path) -> bool:
        with _on_this_disk(target):
            file = target.open("wb", buffering=0)
        with file, self._named():
            try:
                for part in obstore.get(self._store, name).stream(min_chunk_size=1 << 20):
                    with _on_this_disk(target):
                        _write(file, part)
            except (NotFoundError, FileNotFoundError):
                return False
        return True

    def local(self, name: str) -> Path | None:
        return None

    def put(self, source: Path, name: str) -> None:
        with self._named():
            obstore.put(self._store, name, source)

    def create(self, name: str, data: bytes) -> bytes:
        kept = self.read(name)  # some servers ignore `mode` below
        if kept is not None:
            return kept
        with self._named():
            try:
                obstore.put(self._store, name, data, mode="create")
            except (AlreadyExistsError, FileExistsError):
                return self.read(name) or data
            except (NotSupportedError, NotImplementedError):
                obstore.put(self._store, name, data)
        return data

    def entries(self, prefix: str) -> Iterator[Entry]:
        with self._named():
            for some in obstore.list(self._store, prefix):
                yield from (Entry(one["path"], one["size"], one["last_modified"].timestamp()) for one in some)

    def delete(self, name: str) -> None:
        with self._named():
            try:
                obstore.delete(self._store, name)
            except BaseError:  # obstore rejects some servers' responses to successful deletions
                if self._there(name):
                    raise

    def _there(self, name: str) -> bool:
        try:
            obstore.head(self._store, name)
        except (NotFoundError, FileNotFoundError):
            return False
        return True

    @contextmanager
    def draft(self) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix="sonorant-shard-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def tidy(self, before: float, *, dry_run: bool) -> list[Entry]:
        return []  # drafts are in the system's temporary folder

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            found = ANSWER.search(str(error))
            reason = " ".join((": ".join(found.groups()) if found else str(error)).split())[:200]
            raise SonorantError(f"store {self.place}: {reason}; {_remedy(error)}") from None


@contextmanager
def _on_this_disk(target: Path) -> Iterator[None]:
    """Name the local file instead of the bucket in disk errors."""
    try:
        yield
    except OSError as error:
        raise SonorantError(f"{target}: {error.strerror}; free disk space, or check the permissions") from None


def _write(file: FileIO, part: Any) -> None:
    rest = memoryview(part)
    while rest:
        rest = rest[file.write(rest) :]


def _remedy(error: Exception) -> str:
    refused = isinstance(error, PermissionDeniedError | UnauthenticatedError) or "ExpiredToken" in str(error)
    if refused and os.environ.get("AWS_SESSION_TOKEN"):  # JuiceFS returns InvalidAccessKeyId for an expired key
        return "the temporary key may have expired: sign in again and rerun the command; finished work is kept"
    return "check AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and that the bucket exists"
