"""The S3 server that other tests use: it keeps objects, and its proxy counts and disturbs."""

from __future__ import annotations

import pytest
from s3server import S3Server

obstore = pytest.importorskip("obstore")


def test_requests_and_bytes_are_counted(s3: S3Server, bucket: str) -> None:
    store = obstore.store.from_url(bucket)
    obstore.put(store, "folder/file", bytes(300_000))
    s3.log.clear()
    assert len(obstore.get_range(store, "folder/file", start=0, length=1000)) == 1000
    assert [(each.range, each.status) for each in s3.log.requests] == [("bytes=0-999", 206)]
    assert s3.log.bytes_read == 1000


@pytest.mark.parametrize("how", [503, "cut"])
def test_disturbed_requests_are_tried_again(s3: S3Server, bucket: str, how: int | str) -> None:
    store = obstore.store.from_url(bucket)
    obstore.put(store, "file", bytes(300_000))
    s3.log.clear()
    left = [how]
    s3.log.disturb = lambda *_: left.pop() if left else None  # type: ignore[assignment]
    assert len(obstore.get(store, "file").bytes()) == 300_000
    assert len(s3.log.requests) == 2
