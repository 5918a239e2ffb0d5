"""What a user names as input: lists of recordings, patterns, shards; and how large named objects are."""

from __future__ import annotations

import io
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from edgefirst_ros.model.errors import ConfigError, RecordingError
from edgefirst_ros.model.untrusted import read_at_most, refuse_rows, refusing
from edgefirst_ros.sources.location import Location, Url, location_of, stored_file

MOST_LIST_BYTES = 1 << 30
"""Names of millions of recordings."""
COLUMNS = ("uri", "url", "path")
"""Of a table, those that hold recordings; any other one only if it is the only one of texts."""
Place = TypeVar("Place", Path, Url, Location)
_MAGIC = re.compile(r"[*?[]")
_ASKED_SINGLY = 4
"""Objects of one folder: to ask for each costs less than to list what may be many."""
AT_ONCE = 16
"""Requests to a store."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of a recording.

    Attributes:
        path: where it is.
        size: its bytes; -1 if it was named and not looked at.
        version: changes with its content: the ETag, or the time of its last change in nanoseconds.
        named: whether it was given by its own name, not found in a folder.
    """

    path: Location
    size: int
    version: str
    named: bool = False


def is_pattern(place: Location) -> bool:
    """Whether a path, or the key of a URL in a bucket, holds what patterns consist of."""
    text = str(place) if isinstance(place, Path) else "" if place.root.startswith("http") else place.key
    return _MAGIC.search(text) is not None


def top_of(place: Place) -> Place:
    """The folder below which all lies that a pattern may mean; the place itself if it is none."""
    text = str(place) if isinstance(place, Path) else place.key
    found = _MAGIC.search(text)
    if found is None or not is_pattern(place):
        return place
    head = text[: found.start()].rpartition("/")[0]
    if isinstance(place, Path):
        return Path(head or ("/" if text.startswith("/") else "."))
    return replace(place, key=head)


def key_pattern(place: Url) -> Callable[[str], bool]:
    """Whether a key is meant by a URL's pattern, or lies below one that is.

    ``*`` and ``?`` stand for characters of one folder's or file's name, ``**`` for any folders. What is
    written like the pattern itself is meant by it, too.
    """
    parts = ("(?:[^/]+/)*" if part == "**" else _segment(part) + "/" for part in place.key.split("/"))
    matches = re.compile("".join(parts)).match
    return lambda key: matches(f"{key}/") is not None or f"{key}/".startswith(f"{place.key}/")


def _segment(part: str) -> str:
    """A regular expression for one name."""
    simple = {"*": "[^/]*", "?": "[^/]"}

    def of(token: str) -> str:
        inside = token[1:-1].replace("\\", r"\\")
        if not inside:
            return re.escape(token)
        return f"[^/{inside[1:]}]" if inside[0] == "!" else f"[{inside}]"

    return "".join(simple.get(token) or of(token) for token in re.findall(r"\[!?[^]^]+\]|.", part))


def named(places: Sequence[str] | None, lists: Sequence[str] | None) -> list[str]:
    """All recordings that a user names, by themselves or in lists.

    Raises:
        ConfigError: there is none, or a list names none.
        RecordingNotFound: a list does not exist.
        RecordingError: it cannot be read.
    """
    found = [*(places or ()), *(place for each in lists or () for place in read_list(each))]
    if not found:
        raise ConfigError(["name recordings, folders or URLs to convert, or a list of them by --from"])
    return found


def read_list(text: str) -> list[str]:
    """The recordings that a list names: lines of a text, or a column of a Parquet file.

    Blank lines and those that begin with ``#`` are left out.

    Args:
        text: path or URL; ``-`` is standard input.

    Raises:
        ConfigError: it names nothing, or does not say by which column.
        RecordingNotFound: there is none.
        RecordingError: it cannot be read.
    """
    if text == "-":
        data = read_at_most(sys.stdin.buffer, MOST_LIST_BYTES)
    else:
        file = stored_file(location_of(text))
        with file.open() as opened:
            data = read_at_most(opened, min(file.size, MOST_LIST_BYTES))
    with refusing(text, RecordingError, "is no list of recordings"):
        found = _of_table(text, data) if data.startswith(b"PAR1") else data.decode().splitlines()
    names = [line.strip() for line in found]
    if not (wanted := [name for name in names if name and not name.startswith("#")]):
        raise ConfigError([f"--from {text}: names no recording"])
    return wanted


def _of_table(text: str, data: bytes) -> list[str]:
    import pyarrow as pa  # noqa: PLC0415 - lists of lines do without
    import pyarrow.parquet as pq  # noqa: PLC0415

    file = pq.ParquetFile(io.BytesIO(data))
    refuse_rows(file.metadata, len(data))
    texts = [each.name for each in file.schema_arrow if each.type in {pa.string(), pa.large_string()}]
    wanted = [name for name in COLUMNS if name in texts] or (texts if len(texts) == 1 else [])
    if not wanted:
        raise ConfigError(
            [f"--from {text}: which column names the recordings? expected {', '.join(COLUMNS)}"]
        )
    column = file.read([wanted[0]]).column(0).drop_null()
    return [str(value) for value in column.unique().to_pylist()]


def with_sizes(files: Sequence[InputFile]) -> list[InputFile]:
    """The same files, with sizes and versions of objects that were named.

    Raises:
        RecordingNotFound: there is no such object.
        RecordingError: it cannot be asked for.
    """
    named: dict[Location, list[Url]] = defaultdict(list)
    for file in files:
        if isinstance(file.path, Url) and file.size < 0:
            named[file.path.parent].append(file.path)
    if not named:
        return list(files)
    from edgefirst_ros.sources.remote import ObjectVersion, list_folder, read_version  # noqa: PLC0415

    known: dict[Location, ObjectVersion] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        large = [url for url, several in named.items() if len(several) > _ASKED_SINGLY]
        listable = [url for url in large if isinstance(url, Url) and not url.root.startswith("http")]
        for listed in pool.map(list_folder, listable):
            known |= {each.url: each.version for each in listed}
        left = [url for several in named.values() for url in several if url not in known]
        known |= zip(left, pool.map(read_version, left), strict=True)
    return [
        replace(file, size=known[file.path].size, version=known[file.path].tag) if file.size < 0 else file
        for file in files
    ]
