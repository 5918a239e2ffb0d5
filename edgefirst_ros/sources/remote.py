"""Object stores through obstore: connections, ranges of objects, listings, and errors that say what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from edgefirst_ros.errors import RecordingError, RecordingNotFound, extra
from edgefirst_ros.sources.location import Url

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ObjectStore, RetryConfig

RETRIES = 6
"""Times that a request is made again after a server error or a broken connection, over some 12 s."""
EXTRA = "cloud"
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL), or "
    "AWS_SKIP_SIGNATURE=true for a public bucket",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or GOOGLE_SKIP_SIGNATURE=true for a public bucket",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_SAS_TOKEN",
}
_OTHER_SCHEMES = {"s3a": "s3", "abfs": "az", "abfss": "az"}
_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_")
_MISSING = ("169.254.169.254", "metadata.google.internal", "MissingCredentials", "Account must be specified")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist", "bucket name")
_REFUSED = (" 401 ", " 403 ", "AccessDenied", "Forbidden")
_NO_NETWORK = ("error sending request", "dns error", "ConnectError", "timed out", "HTTP error")


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """What tells whether an object is still the same one: its size in bytes, and its ETag or time stamp."""

    size: int
    tag: str


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a listing."""

    url: Url
    version: ObjectVersion


def connect(root: str) -> ObjectStore:
    """The store of a bucket, container or server; credentials come from the environment.

    The environment is what obstore reads: variables, files they name, and the identity of the machine; for S3
    also the profiles of boto3 where that is installed. A process that is forked after a store was used hangs
    in its own first request: start processes by spawn or forkserver.

    Raises:
        ExtraNotInstalled: obstore is missing.
        RecordingError: credentials or options in the environment make no sense.
    """
    # Part of the key, since tests and long-lived processes may change them.
    return _connect(root, tuple(item for item in sorted(os.environ.items()) if item[0].startswith(_PREFIXES)))


@lru_cache(maxsize=64)
def _connect(root: str, environment: tuple[tuple[str, str], ...]) -> ObjectStore:
    with extra(EXTRA):
        from obstore.store import HTTPStore, from_url  # noqa: PLC0415 - only where a URL is given

    retry: RetryConfig = {
        "max_retries": RETRIES,
        "retry_timeout": timedelta(minutes=2),
        "backoff": {
            "init_backoff": timedelta(milliseconds=200),
            "max_backoff": timedelta(seconds=5),
            "base": 2,
        },
    }
    with _said(Url(root, "")):
        if root.startswith("http"):
            # An object may be named as those of a cloud; this is a plain server nevertheless.
            return HTTPStore.from_url(root, client_options={"allow_http": True}, retry_config=retry)
        options: dict[str, Any] = {}
        names = {name for name, _ in environment}
        if root.startswith("s3") and not names & {"AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"}:
            options = _profile()
        return from_url(root, retry_config=retry, **options)


def _profile() -> dict[str, Any]:
    """Credentials of boto3's profiles, empty where it is not installed or has none."""
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 - optional

        return {"credential_provider": Boto3CredentialProvider()}
    except (ImportError, ValueError):
        return {}


def read_range(url: Url, begin: int, end: int) -> tuple[memoryview, ObjectVersion]:
    """The bytes ``begin <= offset < end`` of an object, and its version.

    Raises:
        RecordingNotFound: no such object or bucket.
        RecordingError: it cannot be read; the message says what to do.
    """
    return _get(url, {"range": (begin, end)})


def read_tail(url: Url, length: int) -> tuple[memoryview, ObjectVersion]:
    """The last ``length`` bytes of an object, all of a smaller one, and its version.

    Raises:
        RecordingNotFound: no such object or bucket.
        RecordingError: it cannot be read; the message says what to do.
    """
    if url.root.partition("://")[0] in {"az", "abfs", "abfss"}:  # has no ranges from the end
        version = read_version(url)
        if not version.size:
            return memoryview(b""), version
        return read_range(url, max(0, version.size - length), version.size)
    try:
        return _get(url, {"range": {"suffix": length}})
    except RecordingError as error:
        if "416 " not in str(error.__cause__):
            raise
        return memoryview(b""), read_version(url)  # an empty object has no last bytes


def read_version(url: Url) -> ObjectVersion:
    """The version of an object, without its bytes.

    Raises:
        RecordingNotFound: no such object or bucket.
        RecordingError: it cannot be read.
    """
    store = connect(url.root)
    with _said(url):
        import obstore  # noqa: PLC0415

        return _version(obstore.head(store, url.key))


def list_objects(url: Url) -> Iterator[StoredObject]:
    """All objects below a prefix, in any order.

    Raises:
        RecordingNotFound: no such bucket.
        RecordingError: it cannot be listed.
    """
    if url.root.startswith("http"):
        raise RecordingError(f"{url}: a web server lists no folders; name a file, as in {url}/drive.mcap")
    store = connect(url.root)
    with _said(url):
        import obstore  # noqa: PLC0415

        for each in obstore.list(store, url.key or None, chunk_size=1000):
            for meta in each:
                yield StoredObject(Url(url.root, meta["path"]), _version(meta))


def _get(url: Url, options: GetOptions) -> tuple[memoryview, ObjectVersion]:
    store = connect(url.root)
    with _said(url):
        import obstore  # noqa: PLC0415

        found = obstore.get(store, url.key, options=options)
        return memoryview(found.bytes()), _version(found.meta)


def _version(meta: ObjectMeta) -> ObjectVersion:
    return ObjectVersion(meta["size"], meta["e_tag"] or meta["last_modified"].isoformat())


@contextmanager
def _said(url: Url) -> Iterator[None]:
    """Turn obstore's errors into sentences on this URL."""
    from obstore.exceptions import BaseError  # noqa: PLC0415

    try:
        yield
    except (BaseError, FileNotFoundError, ValueError) as error:
        if isinstance(error, RecordingError | RecordingNotFound):
            raise
        raise translated(url, error) from error


def translated(url: Url, error: Exception, wanted: str = "read") -> RecordingError | RecordingNotFound:
    """An error of obstore as a sentence on a URL that cannot be ``wanted``, and what to do."""
    text, kind = str(error), type(error).__name__
    scheme = url.root.partition("://")[0]
    variables = _CREDENTIALS.get(_OTHER_SCHEMES.get(scheme, scheme), "")

    def has(*words: str) -> bool:
        return any(word in text for word in words)

    if has(*_NO_BUCKET):
        return RecordingNotFound(f"{url.root}: no such bucket; check its name, its region and the endpoint")
    if isinstance(error, FileNotFoundError):
        return RecordingNotFound(f"{url}: no such object")
    if has(*_MISSING):
        said = f"no credentials were found: set {variables}"
    elif kind in {"PermissionDeniedError", "UnauthenticatedError"} or has(*_REFUSED):
        which = f"check {variables}" if variables else "the server demands a login, which is not supported"
        said = f"no permission ({_reason(text)}); {which}"
    elif kind == "NotSupportedError":
        said = "the server sends no parts of files (HTTP ranges); download it first"
    elif has(*_NO_NETWORK):
        said = f"no answer ({_reason(text)}); check the network and the endpoint"
    else:
        said = f"cannot be {wanted}: {_reason(text)}"
    return RecordingError(f"{url}: {said}")


def _reason(text: str) -> str:
    """What an error of obstore says in its first line, or the code that a server gave."""
    _, found, code = text.partition("<Code>")
    if found:
        return code.partition("</Code>")[0]
    line = text.split("\n", 1)[0]
    return line if len(line) <= 300 else f"{line[:300]}…"
