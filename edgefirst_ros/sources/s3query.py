"""Requests of S3 that obstore has not: keys that it cannot name, and uploads that were broken off.

obstore signs URLs of objects only. Here the query becomes part of the endpoint's address, and what obstore
adds for the object a parameter that servers ignore (``x-id``, as Amazon's clients send): whatever credentials
it has are used, and none are handled here.
"""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote_plus, urlencode
from urllib.request import Request, urlopen

from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.model.untrusted import read_at_most, refusing
from edgefirst_ros.sources.location import Url

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Store

Method = Literal["GET", "DELETE"]
SCHEMES = ("s3://", "s3a://")
TRIES = 6
FIRST_PAUSE_S = 0.2
TIMEOUT_S = 60.0
_MOST_BYTES = 16 << 20
"""A page has 1,000 entries of some hundred bytes, and keys of at most 1,024."""
_VALID = timedelta(minutes=15)
_ANY = "x"


def is_odd(key: str) -> bool:
    """Whether obstore cannot name an object: parts that are empty, ``.`` or ``..``, or control characters."""
    return any(part in {"", ".", ".."} for part in key.strip("/").split("/")) or any(
        character < " " or character == "\x7f" for character in key
    )


def list_all(store: S3Store, url: Url, after: str = "") -> Iterator[tuple[str, int, str]]:
    """Key, bytes and ETag of all objects below a prefix in order, from behind ``after`` on; odd ones, too.

    Raises:
        RecordingError: the store does not answer, or not with a listing.
    """
    query = {"list-type": "2", "encoding-type": "url", "prefix": f"{url.key}/" if url.key else ""}
    query |= {"start-after": after} if after else {}
    while True:
        page = _page(store, url, query)
        is_encoded = page.findtext("{*}EncodingType") == "url"
        for each in page.iterfind("{*}Contents"):
            key = each.findtext("{*}Key") or ""
            with refusing(url, RecordingError, "cannot be listed"):
                size = int(each.findtext("{*}Size") or 0)
            yield unquote_plus(key) if is_encoded else key, size, each.findtext("{*}ETag") or ""
        following = page.findtext("{*}NextContinuationToken")
        if page.findtext("{*}IsTruncated") != "true" or not following:
            return
        query["continuation-token"] = following


def abort_uploads(store: S3Store, url: Url) -> int:
    """Abort all multipart uploads below a prefix that were begun and not completed; how many there were.

    Raises:
        RecordingError: the store does not answer, or not with a listing.
    """
    # What is aborted is gone from the next page, so the first one is asked for again.
    page = _page(store, url, {"uploads": "", "prefix": f"{url.key}/"})
    found = [
        (u.findtext("{*}Key") or "", u.findtext("{*}UploadId") or "") for u in page.iterfind("{*}Upload")
    ]
    for key, upload in found:
        if key.startswith(f"{url.key}/") and not is_odd(key):
            with suppress(FileNotFoundError):
                _answer(store, Url(url.root, key), "DELETE", {"uploadId": upload})
    return len(found)


def _page(store: S3Store, url: Url, query: Mapping[str, str]) -> ET.Element:
    data = _answer(store, Url(url.root, ""), "GET", query)
    with refusing(url, RecordingError, "cannot be listed"):
        return ET.fromstring(data)  # bounded, and expat refuses entities that grow


def _answer(store: S3Store, url: Url, method: Method, query: Mapping[str, str]) -> bytes:
    pauses_s = [FIRST_PAUSE_S * 2**n for n in range(TRIES - 1)]
    while True:
        try:
            request = Request(_signed(store, url, method, query), method=method)
            with urlopen(request, timeout=TIMEOUT_S) as answer:
                return read_at_most(answer, _MOST_BYTES)
        except (HTTPError, URLError, TimeoutError, ConnectionError) as error:
            code = error.code if isinstance(error, HTTPError) else 0
            if code == HTTPStatus.NOT_FOUND:
                raise FileNotFoundError(str(url)) from error
            is_refused = 400 <= code < 500 and code != HTTPStatus.TOO_MANY_REQUESTS
            if is_refused or not pauses_s:
                raise RecordingError(f"{url}: cannot be listed: {error}") from error
        time.sleep(pauses_s.pop(0))


def _signed(store: S3Store, url: Url, method: Method, query: Mapping[str, str]) -> str:
    """The URL of a request: an object's or the bucket's, with this query."""
    import obstore  # noqa: PLC0415 - only where a URL is given
    from obstore.exceptions import BaseError  # noqa: PLC0415

    asked = urlencode({**query, "x-id": ""}, quote_via=quote)
    try:
        plain, is_signed = obstore.sign(store, method, _ANY, _VALID), True
    except BaseError:  # a public bucket, without credentials; with any, the address is found all the same
        anyone = _with(store, access_key_id=_ANY, secret_access_key=_ANY, skip_signature=False)
        plain, is_signed = obstore.sign(anyone, method, _ANY, _VALID), False
    base = plain.partition("?")[0].removesuffix(f"/{_ANY}")
    address = f"{base}/{quote(url.key)}?{asked}" if url.key else f"{base}?{asked}"
    if not is_signed:
        return address
    return obstore.sign(
        _with(store, endpoint=address, virtual_hosted_style_request=True), method, _ANY, _VALID
    )


def _with(store: S3Store, **changed: Any) -> S3Store:  # noqa: ANN401 - obstore's
    from obstore.store import S3Store  # noqa: PLC0415

    return S3Store(
        config=cast("S3Config", {**store.config, **changed}),
        client_options=store.client_options,
        credential_provider=store.credential_provider,
    )
