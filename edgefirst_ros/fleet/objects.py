"""An object store to write to: conditional writes for notes, multipart uploads for datasets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from edgefirst_ros.errors import WriteError
from edgefirst_ros.fleet.notes import MOST_NOTE_BYTES, SUFFIX, Note, decoded, encoded
from edgefirst_ros.sources.location import Url
from edgefirst_ros.sources.remote import connect, translated

PART_BYTES = 16 << 20
"""Bytes of one part of a multipart upload: S3 takes 10,000 parts, so files of up to 160 GB."""
PARTS_AT_ONCE = 4


class Bucket:
    """The objects below a URL, written and removed; names are relative to it.

    All methods raise WriteError if the store cannot be reached, or refuses.
    """

    def __init__(self, url: Url) -> None:
        self.url = url
        self.store = connect(url.root)

    def list(self, folder: str) -> dict[str, int]:
        """Name and size of all objects below a folder."""
        with self.errors():
            import obstore

            top = self.key(folder)
            cut = len(top) - len(folder)
            return {
                meta["path"][cut:]: meta["size"]
                for batch in obstore.list(self.store, f"{top}/")
                for meta in batch
            }

    def upload(self, name: str, path: Path) -> None:
        """Put a file; it appears whole, or not at all. Large ones are sent in parts, some at a time."""
        with self.errors():
            import obstore

            obstore.put(
                self.store, self.key(name), path, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )

    def put(self, name: str, data: bytes) -> None:
        """Put a small object."""
        with self.errors():
            import obstore

            obstore.put(self.store, self.key(name), data)

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects, if they exist."""
        keys = [self.key(name) for name in names]
        if keys:
            with self.errors(), suppress(FileNotFoundError):
                import obstore

                obstore.delete(self.store, keys)

    def key(self, name: str) -> str:
        """The key of a name in the bucket."""
        return f"{self.url.key}/{name}" if self.url.key else name

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of the store into WriteError, except answers to conditions and FileNotFoundError."""
        from obstore.exceptions import (
            AlreadyExistsError,
            BaseError,
            PreconditionError,
        )

        try:
            yield
        except (AlreadyExistsError, PreconditionError):
            raise
        except BaseError as error:
            raise WriteError(str(translated(self.url, error, "written"))) from error


class ObjectNotes:
    """Notes in an object store with conditional writes: S3, Google Cloud Storage, Azure."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def names(self, folder: str) -> list[str]:
        """Names of all notes in a folder."""
        found = [name.removeprefix(f"{folder}/") for name in self._bucket.list(folder)]
        return sorted(n.removesuffix(SUFFIX) for n in found if n.endswith(SUFFIX) and "/" not in n)

    def read(self, name: str) -> Note | None:
        """A note; its version is the ETag."""
        import obstore

        try:
            with self._bucket.errors():
                found = obstore.get(self._bucket.store, self._key(name))
                is_note = found.meta["size"] <= MOST_NOTE_BYTES
                data, tag = bytes(found.bytes()) if is_note else b"", found.meta["e_tag"] or ""
        except FileNotFoundError:
            return None
        return decoded(name, data, tag)

    def create(self, name: str, values: Mapping[str, Any]) -> str | None:
        """Write a note that must not exist yet: ``If-None-Match: *``."""
        return self._put_if(name, values, "create")

    def replace(self, name: str, values: Mapping[str, Any], version: str) -> str | None:
        """Replace a note if it still has this version: ``If-Match``."""
        return self._put_if(name, values, {"e_tag": version})

    def put(self, name: str, values: Mapping[str, Any]) -> None:
        """Write a note."""
        self._bucket.put(f"{name}{SUFFIX}", encoded(values))

    def remove(self, name: str) -> None:
        """Remove a note if it exists."""
        self._bucket.remove([f"{name}{SUFFIX}"])

    def _put_if(self, name: str, values: Mapping[str, Any], mode: Any) -> str | None:  # noqa: ANN401 - obstore's
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            with self._bucket.errors():
                made = obstore.put(self._bucket.store, self._key(name), encoded(values), mode=mode)
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            # The client may have repeated a request that had succeeded, its answer lost.
            found = self.read(name)
            return found.version if found is not None and dict(found.values) == dict(values) else None
        return made["e_tag"] or ""

    def _key(self, name: str) -> str:
        return self._bucket.key(f"{name}{SUFFIX}")
