"""Where a fleet's datasets go: a folder that is written directly, or a store that gets them when complete.

An object store to write to: conditional writes for notes, multipart uploads for datasets.
"""

from __future__ import annotations

import fnmatch
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from edgefirst_ros.fleet.health import is_full, patiently
from edgefirst_ros.fleet.notes import (
    DONE,
    MOST_NOTE_BYTES,
    MOST_TABLE_BYTES,
    SUFFIX,
    LocalNotes,
    Note,
    Notes,
    decoded,
    encoded,
    locked,
)
from edgefirst_ros.formats.crashsafe.names import refuse_links, refuse_links_in, replace_file
from edgefirst_ros.formats.crashsafe.sync import make_folder
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import ConfigError, RecordingError, WriteError
from edgefirst_ros.model.untrusted import REPORT
from edgefirst_ros.sources.location import Url, location_of
from edgefirst_ros.sources.remote import connect, is_answer, listed, number_of, translated
from edgefirst_ros.sources.s3query import SCHEMES, abort_uploads
from edgefirst_ros.sources.scratch import ADVICE, scratch_folder

if TYPE_CHECKING:
    from obstore.store import S3Store

    from edgefirst_ros.sources.remote import ObjectVersion

Result = TypeVar("Result")

PART_MIB = 16
"""Size of one part of a multipart upload: S3 takes 10,000 parts, so files of up to 160 GB."""
PART_VARIABLE = "EDGEFIRST_ROS_PART_MIB"
"""Environment variable with another one, from 5 on for S3."""
PARTS_AT_ONCE = 4


class Bucket:
    """The objects below a URL, written and removed; names are relative to it.

    All methods raise WriteError if the store cannot be reached, or refuses.

    Args:
        url: of the objects.
        patience_s: for so long a request is made again while the store is at fault.
        stop: ends that.
    """

    def __init__(self, url: Url, patience_s: float = 0.0, stop: threading.Event | None = None) -> None:
        self.url, self._patience_s, self._stop = url, patience_s, stop
        self.store = connect(url.root)
        self._has_answered = False

    def list(self, folder: str) -> dict[str, int]:
        """Name and size of all objects below a folder."""
        return {name: version.size for name, version in self.versions(folder).items()}

    def versions(self, folder: str) -> dict[str, ObjectVersion]:
        """Name and version of all objects below a folder."""
        top = self.key(folder)
        cut = len(top) - len(folder)
        return self.ask(lambda: {o.url.key[cut:]: o.version for o in listed(Url(self.url.root, f"{top}/"))})

    def upload(self, name: str, path: Path, check: Callable[[], None] | None = None) -> None:
        """Put a file; it appears whole, or not at all. Large ones are sent in parts, some at a time."""
        import obstore

        part = number_of(PART_VARIABLE, PART_MIB, most=4096) << 20
        self.ask(
            lambda: obstore.put(
                self.store, self.key(name), path, chunk_size=part, max_concurrency=PARTS_AT_ONCE
            ),
            check,
        )

    def fetch(self, name: str, path: Path) -> bool:
        """Make a file of an object, a part at a time; whether there is one."""
        try:
            self.ask(lambda: self._fetch(name, path))
        except FileNotFoundError:
            return False
        return True

    def _fetch(self, name: str, path: Path) -> None:
        import obstore

        found = obstore.get(self.store, self.key(name))
        with path.open("wb") as file:
            for part in found.stream(min_chunk_size=PART_MIB << 20):
                file.write(bytes(part))

    def put(self, name: str, data: bytes, mode: Any = "overwrite") -> str:  # noqa: ANN401 - obstore's
        """Put a small object; its ETag.

        Raises:
            AlreadyExistsError: of obstore, or PreconditionError, as the mode demands.
        """
        import obstore

        return self.ask(lambda: obstore.put(self.store, self.key(name), data, mode=mode))["e_tag"] or ""

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects, if they exist."""
        import obstore

        keys = [self.key(name) for name in names]
        if keys:
            with suppress(FileNotFoundError):
                self.ask(lambda: obstore.delete(self.store, keys))

    def abort_uploads(self, folder: str) -> None:
        """Abort what killed processes began to upload below a folder, as far as the store tells: S3 does."""
        if self.url.root.startswith(SCHEMES):
            # What is not aborted costs money, until the bucket's lifecycle rule ends it, but harms nobody.
            with suppress(RecordingError):
                abort_uploads(cast("S3Store", self.store), Url(self.url.root, self.key(folder)))

    def lack(self) -> str:
        """Which conditional write the store does not know, by two requests; empty if it knows both.

        The object that they write stays. Where an earlier run has left it, the first request is refused as it
        should be, and the second one tries the other condition.
        """
        header = "If-None-Match"
        try:
            if self._refuses("create"):
                header = "If-Match"
                is_known = self._refuses({"e_tag": _NO_TAG})
            else:
                is_known = self._refuses("create")
        except WriteError as error:
            if _NOT_IMPLEMENTED not in str(error.__cause__):
                raise
            return f"does not implement conditional writes ({header})"
        return "" if is_known else f"ignores the conditions of writes ({header})"

    def _refuses(self, mode: Any) -> bool:  # noqa: ANN401 - obstore's
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            self.put(_PROBE, b"{}", mode)
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            return True
        return False

    def key(self, name: str) -> str:
        """The key of a name in the bucket."""
        return f"{self.url.key}/{name}" if self.url.key else name

    def ask(self, call: Callable[[], Result], check: Callable[[], None] | None = None) -> Result:
        """What a call of obstore returns; see ``patiently``.

        Raises:
            WriteError: for all errors of obstore but answers to conditions and FileNotFoundError.
        """
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        try:
            # Until the first answer a wrong address is likelier than an outage.
            found = patiently(call, self._patience_s if self._has_answered else 0.0, check, self._stop)
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            self._has_answered = True
            raise
        except BaseError as error:
            if not self._has_answered and is_answer(error):
                self._has_answered = True
                return self.ask(call, check)
            raise WriteError(str(translated(self.url, error, "written"))) from error
        self._has_answered = True
        return found


_PROBE = f"_conditions{SUFFIX}"
_NO_TAG = '"00000000000000000000000000000000"'
_NOT_IMPLEMENTED = "status code: 501"


class ObjectNotes:
    """Notes in an object store with conditional writes: S3, Google Cloud Storage, Azure.

    Args:
        bucket: where they are.
        single: the store has none, and no other run writes there: what is there is looked at first.
    """

    def __init__(self, bucket: Bucket, *, single: bool = False) -> None:
        self._bucket, self._single = bucket, single

    def names(self, folder: str) -> list[str]:
        """Names of all notes in a folder."""
        return sorted(self.states(folder))

    def states(self, folder: str) -> dict[str, str]:
        """By name, the ETag of a note, or the time of its last change."""
        versions = self._bucket.versions(folder)
        found = {name.removeprefix(f"{folder}/"): version.tag for name, version in versions.items()}
        wanted = (name for name in found if name.endswith(SUFFIX) and "/" not in name)
        return {name.removesuffix(SUFFIX): found[name] for name in wanted}

    def read(self, name: str) -> Note | None:
        """A note; its version is the ETag."""
        import obstore

        def got() -> tuple[bytes, str]:
            found = obstore.get(self._bucket.store, self._bucket.key(f"{name}{SUFFIX}"))
            is_note = found.meta["size"] <= MOST_NOTE_BYTES
            return bytes(found.bytes()) if is_note else b"", found.meta["e_tag"] or ""

        try:
            return decoded(name, *self._bucket.ask(got))
        except FileNotFoundError:
            return None

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

    def load(self, file: str) -> bytes | None:
        """An object beside the notes."""
        import obstore

        def get() -> bytes | None:
            found = obstore.get(self._bucket.store, self._bucket.key(file))
            return bytes(found.bytes()) if found.meta["size"] <= MOST_TABLE_BYTES else None

        try:
            return self._bucket.ask(get)
        except FileNotFoundError:
            return None

    def store(self, file: str, data: bytes) -> None:
        """Put an object beside the notes."""
        self._bucket.put(file, data)

    def _put_if(self, name: str, values: Mapping[str, Any], mode: Any) -> str | None:  # noqa: ANN401 - obstore's
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        if self._single:
            there = self.read(name)
            if (there is None) != (mode == "create") or (there and mode != {"e_tag": there.version}):
                return None
            mode = "overwrite"
        try:
            return self._bucket.put(f"{name}{SUFFIX}", encoded(values), mode)
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            # The client may have repeated a request that had succeeded, its answer lost.
            found = self.read(name)
            return found.version if found is not None and dict(found.values) == dict(values) else None


_UPLOADS = 8
"""Small files that are sent at a time."""
_SMALL = 1 << 20


class Output(Protocol):
    """An output folder or URL; a drive's datasets are in a folder of its name.

    All methods raise WriteError or another OSError if the storage refuses.
    """

    shown: str
    """The path or URL, by which other processes open the same output."""
    notes: Notes

    def lack(self) -> str:
        """What the storage lacks for two runs at once, in a few words; empty if nothing."""

    def place(self, name: str) -> AbstractContextManager[Path]:
        """The folder into which a drive is to be converted."""

    def holds(self, name: str) -> bool:
        """Whether there are files in a drive's folder."""

    def publish(
        self,
        name: str,
        folder: Path,
        paths: Sequence[Path],
        check: Callable[[], None],
        old: Mapping[str, int],
        *,
        is_resumed: bool = False,
    ) -> dict[str, int]:
        """Make what is complete in the folder visible in the output.

        Args:
            name: of the drive.
            folder: as ``place`` gave it.
            paths: what the conversion says that it wrote.
            check: called before every step that others can see; raises if it must not be done.
            old: files of the dataset that this one replaces; what is left of them is removed.
            is_resumed: an earlier task began with the same drive, and may have been killed amid an upload.

        Returns:
            Names and sizes of all files, relative to the drive's folder.
        """

    def alone(self) -> AbstractContextManager[None]:
        """Other runs that ask for the same wait meanwhile, where the storage has locks."""

    def put(self, name: str, data: bytes) -> str:
        """Write a file in the output, beside the drives; its path or URL."""

    def where(self, name: str) -> str:
        """How a table beside the drives names something in the output: a relative path, or a URL."""

    def renewed(self, name: str) -> AbstractContextManager[Path]:
        """A file beside the drives that is there or not, and is written within; it stays, or is put."""

    def fetched(self, names: Sequence[str]) -> AbstractContextManager[Path]:
        """A folder in which files of the output are, as far as they exist."""


def open_output(
    text: str, patience_s: float = 0.0, *, single: bool = False, stop: threading.Event | None = None
) -> Output:
    """The output of a path or URL.

    Args:
        text: path or URL.
        patience_s: for so long a request is made again while a store is at fault.
        single: see ``ObjectNotes``.
        stop: ends that.

    Raises:
        ConfigError: a URL that cannot be written to.
        ExtraNotInstalled: the client of object stores is missing.
    """
    location = location_of(text)
    if isinstance(location, Url) and location.root.startswith("http"):
        raise ConfigError([f"{text}: cannot be written to; expected a folder, or s3://, gs:// or az://"])
    if isinstance(location, Url):
        return ObjectOutput(Bucket(location, patience_s, stop), single=single)
    return LocalOutput(location)


class LocalOutput:
    """A folder; datasets are written where they stay, and get their names when they are complete."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self.shown = str(self._root)
        self.notes: Notes = LocalNotes(self._root)

    def lack(self) -> str:
        """Nothing: two runs on a file system without locks go unnoticed."""
        return ""

    @contextmanager
    def place(self, name: str) -> Iterator[Path]:
        """The drive's folder itself.

        Raises:
            WriteError: it is a symbolic link, or one is in it.
        """
        refuse_links_in(self._root / name, self._root / name, kind=WriteError)
        yield self._root / name

    def holds(self, name: str) -> bool:
        """Whether there are files in a drive's folder."""
        return any(files for _, _, files in os.walk(self._root / name))

    def publish(
        self,
        name: str,  # noqa: ARG002 - the folder is the drive's
        folder: Path,
        paths: Sequence[Path],
        check: Callable[[], None],
        old: Mapping[str, int],
        *,
        is_resumed: bool = False,  # noqa: ARG002 - nothing is uploaded
    ) -> dict[str, int]:
        """Remove files of the old dataset that the new one does not have; all else is there already."""
        check()
        refuse_links_in(folder, folder, kind=WriteError)
        single = {
            path
            for path in paths
            if path.parent == folder or upload_step(path.relative_to(folder).as_posix()) == 2
        }
        tops = {path if path.is_dir() else path.parent for path in paths if path not in single}
        there = _sizes(folder)
        files = {
            file: size
            for file, size in there.items()
            if (path := folder / file) in single or not tops.isdisjoint(path.parents)
        }
        # A note only chooses from what is found in the folder: none of its names is ever a path.
        for left in (there.keys() - files.keys()) & old.keys():
            (folder / left).unlink()
        for empty, _, _ in os.walk(folder, topdown=False):
            if not any(os.scandir(empty)):
                Path(empty).rmdir()
        return files

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock of the folder of notes."""
        refuse_links(self._root, self._root / DONE)
        make_folder(self._root / DONE)
        with locked(self._root / DONE):
            yield

    def put(self, name: str, data: bytes) -> str:
        """Write a file beside the drives."""
        make_folder(self._root)
        replace_file(self._root / name, data)
        return str(self._root / name)

    def where(self, name: str) -> str:
        """The path from here."""
        return name

    @contextmanager
    def renewed(self, name: str) -> Iterator[Path]:
        """The file itself."""
        refuse_links(self._root, self._root / name)
        yield self._root / name

    def fetched(self, names: Sequence[str]) -> AbstractContextManager[Path]:
        """The folder that they are in."""
        return nullcontext((self._root / names[0]).parent)


class ObjectOutput:
    """An object store; datasets are made on local scratch (``TMPDIR``), and uploaded when complete."""

    def __init__(self, bucket: Bucket, *, single: bool = False) -> None:
        self._bucket = bucket
        self.shown = str(bucket.url)
        self.notes: Notes = ObjectNotes(bucket, single=single)

    def lack(self) -> str:
        """See ``Bucket.lack``."""
        return self._bucket.lack()

    @contextmanager
    def place(self, name: str) -> Iterator[Path]:
        """An empty folder on local scratch, which is removed afterwards."""
        with scratch_folder() as folder:
            try:
                yield folder / name
            except Exception as error:
                if is_full(error):
                    text = f"{tempfile.gettempdir()}: datasets are made here, and it is full"
                    raise WriteError(f"{text}; {ADVICE}") from error
                raise

    def holds(self, name: str) -> bool:
        """Whether there are objects below a drive's name."""
        return bool(self._bucket.list(name))

    def publish(
        self,
        name: str,
        folder: Path,
        paths: Sequence[Path],  # noqa: ARG002 - the folder was empty
        check: Callable[[], None],
        old: Mapping[str, int],  # noqa: ARG002 - what is there is listed
        *,
        is_resumed: bool = False,
    ) -> dict[str, int]:
        """Upload the files: those by which readers find a dataset after all others, the report last.

        Of a dataset that is replaced, these are removed first: no reader finds the old and the new one mixed.
        """
        files = _sizes(folder)
        there = self._bucket.list(name)
        check()
        if is_resumed:
            self._bucket.abort_uploads(name)
        self._bucket.remove(n for n in there if upload_step(n.removeprefix(f"{name}/")))
        for step in range(3):
            wanted = [file for file in sorted(files) if upload_step(file) == step]
            self._upload(name, folder, [file for file in wanted if files[file] <= _SMALL], check)
            for file in wanted:
                if files[file] > _SMALL:
                    check()
                    self._bucket.upload(f"{name}/{file}", folder / file, check)
        self._bucket.remove(there.keys() - {f"{name}/{file}" for file in files})
        return files

    def _upload(self, name: str, folder: Path, files: Sequence[str], check: Callable[[], None]) -> None:
        check()
        with ThreadPoolExecutor(_UPLOADS) as pool:
            for done in [pool.submit(self._bucket.upload, f"{name}/{f}", folder / f, check) for f in files]:
                done.result()

    def alone(self) -> AbstractContextManager[None]:
        """A store has no locks; an object appears whole."""
        return nullcontext()

    def put(self, name: str, data: bytes) -> str:
        """Put an object beside the drives."""
        self._bucket.put(name, data)
        return f"{self.shown}/{name}"

    def where(self, name: str) -> str:
        """The URL."""
        return f"{self.shown}/{name}"

    @contextmanager
    def renewed(self, name: str) -> Iterator[Path]:
        """A copy on local scratch, which is uploaded."""
        with scratch_folder() as folder:
            path = folder / name
            self._bucket.fetch(name, path)
            yield path
            self._bucket.upload(name, path)

    @contextmanager
    def fetched(self, names: Sequence[str]) -> Iterator[Path]:
        """Copies on local scratch."""
        with scratch_folder() as folder:
            for name in names:
                self._bucket.fetch(name, folder / Path(name).name)
            yield folder


def upload_step(file: str) -> int:
    """When a file of a drive appears: 0 data, 1 what makes a dataset visible, 2 the report on all of them."""
    name = Path(file).name
    if name.removesuffix(".html").removesuffix(".json").endswith(REPORT.removesuffix(".json")):
        return 2
    made_by = FORMATS.get(Path(file).parts[0])
    return int(made_by is not None and any(fnmatch.fnmatchcase(name, p) for p in made_by.visible_by))


def _sizes(folder: Path) -> dict[str, int]:
    """Names relative to a folder and sizes of all files in it; unfinished ones are left out."""
    paths = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in paths
        if not path.name.endswith(".part") and path.is_file()
    }
