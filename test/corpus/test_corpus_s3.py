"""Datasets in an object store: the same samples, few bytes, forked processes, objects that change."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from readable import NAME, copied, dataset, digests
from s3server import Disturbance, S3Server, upload
from typer.testing import CliRunner, Result

import edgefirst_ros
from edgefirst_ros.cli.app import app
from edgefirst_ros.corpus import fetching
from edgefirst_ros.corpus.cache import MEGABYTES
from edgefirst_ros.corpus.corpus import Corpus
from edgefirst_ros.model.errors import ConfigError, DatasetError, DatasetNotFound

obstore = pytest.importorskip("obstore", reason="no client of object stores: pip install obstore")
COUNT = 15


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "_OWN", {})
    return tmp_path / "cache" / "edgefirst_ros"


@pytest.fixture(scope="module")
def expected() -> list[int]:
    return digests(edgefirst_ros.open(dataset()), range(COUNT))


@pytest.mark.parametrize("container", ["zip", "folder"])
def test_samples_are_those_of_the_same_files_here(
    bucket: str, container: str, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(dataset("2026.10", container), f"{bucket}/sets/{NAME}")
    local = edgefirst_ros.open(dataset("2026.10", container))
    for bound in ("100", "0"):
        monkeypatch.setenv(MEGABYTES, bound)
        fetching._OWN.clear()
        for place in (f"{bucket}/sets", f"{bucket}/sets/{NAME}/", f"{bucket}/sets/{NAME}/{NAME}.arrow"):
            opened = edgefirst_ros.open(place)
            assert str(opened.path) == f"{bucket}/sets/{NAME}"
            assert len(opened) == COUNT
        assert digests(opened, range(COUNT)) == digests(local, range(COUNT))
        for mine, theirs in zip(opened.with_keys(["quality", "masks"]), local, strict=True):
            for key in ("quality", "name", "frame", "labels_masks"):
                assert str(mine[key]) == str(theirs[key])
        assert opened.to_polars().equals(local.to_polars())
        assert opened.file(3, "camera.jpeg") == local.file(3, "camera.jpeg")
        assert [s["time_ns"] for s in opened[4:9]] == [s["time_ns"] for s in local[4:9]]


def test_opening_reads_the_directory_and_the_table_only(
    bucket: str, s3: S3Server, tmp_path: Path, expected: list[int]
) -> None:
    """100 samples as large as those of a camera, of which opening reads less than a twentieth."""
    made = large(tmp_path)
    upload(made, f"{bucket}/{NAME}")
    size = (made / f"{NAME}.zip").stat().st_size
    s3.log.clear()
    opened = edgefirst_ros.open(f"{bucket}/{NAME}", keys=["image", "boxes2d"])
    assert len(opened) == 100
    of_zip = [request for request in s3.log.of("GET") if ".zip" in request.path]
    assert sum(request.received for request in of_zip) < size / 20
    assert len(of_zip) <= 2
    assert s3.log.bytes_read < size / 20

    s3.log.clear()
    assert opened[0]["image"] is not None
    assert [request.range != "" for request in s3.log.of("GET")].count(True) <= 2
    read = s3.log.bytes_read
    assert read < size / 30
    assert opened[0]["image"] is not None
    assert s3.log.bytes_read == read, "the second time it comes from the cache"

    s3.log.clear()
    again = edgefirst_ros.open(f"{bucket}/{NAME}", keys=["image", "boxes2d"])
    assert len(again) == 100
    assert not [request for request in s3.log.of("GET") if ".zip" in request.path or ".arrow" in request.path]


def large(folder: Path) -> Path:
    """A dataset of 100 samples, each a picture of 50 kB with three others."""
    source, made = dataset(), folder / NAME
    made.mkdir()
    with (
        zipfile.ZipFile(source / f"{NAME}.zip") as archive,
        zipfile.ZipFile(made / f"{NAME}.zip", "w") as out,
    ):
        names = archive.namelist()
        picture = next(name for name in names if name.endswith(".camera.jpeg"))
        data = archive.read(picture) + os.urandom(30_000)
        for number in range(100):
            out.writestr(f"seq/seq_{number:06d}.camera.jpeg", data)
            for kind in ("lidar.pcd", "radar.pcd"):
                out.writestr(f"seq/seq_{number:06d}.{kind}", os.urandom(20_000))
    table = pa.table({"name": ["seq"] * 100, "frame": pa.array(range(100), pa.uint32())})
    with pa.ipc.new_file(made / f"{NAME}.arrow", table.schema) as writer:
        writer.write_table(table)
    return made


def test_a_fleet_in_a_bucket_is_one_dataset(bucket: str, s3: S3Server, expected: list[int]) -> None:
    for drive in ("monday", "tuesday"):
        upload(dataset(), f"{bucket}/sets/{drive}/edgefirst/{NAME}")
    opened = edgefirst_ros.open(f"{bucket}/sets/")
    assert isinstance(opened, Corpus)
    assert digests(opened, range(2 * COUNT)) == 2 * expected
    assert opened.dataset_of(COUNT) == f"{bucket}/sets/tuesday/edgefirst/{NAME}"
    mixed = edgefirst_ros.open([dataset(), f"{bucket}/sets/monday"])
    assert digests(mixed, range(2 * COUNT)) == 2 * expected
    s3.log.clear()
    assert [sample["name"] for sample in opened.with_keys(["image"])]
    assert not s3.log.requests, "all is in the cache"


def test_a_batch_is_fetched_at_once(bucket: str, s3: S3Server) -> None:
    upload(dataset("2025.01", "folder"), f"{bucket}/{NAME}")
    opened = edgefirst_ros.open(f"{bucket}/{NAME}", keys=["image"])
    under_way, most = [0], [0]

    def watch(*_: str) -> Disturbance:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        time.sleep(0.1)
        under_way[0] -= 1
        return None

    s3.log.clear()
    s3.log.disturb = watch
    samples = opened.__getitems__([1, 5, 2, 9, 4])
    assert len(s3.log.requests) == 5
    assert most[0] >= 4
    s3.log.clear()
    assert [sample["name"] for sample in samples] == [opened[number]["name"] for number in (1, 5, 2, 9, 4)]
    assert not s3.log.requests


@pytest.mark.parametrize(("start", "read"), [("fork", 3), ("fork", 30), ("spawn", 30)])
def test_processes_read_what_this_one_opened(bucket: str, start: str, read: int, tmp_path: Path) -> None:
    """Also after this one read much; in a process of its own, as that of the suite has threads.

    Forked from one that only opened and looked, each has a client of its own, and starts no process for it.
    """
    upload(dataset(), f"{bucket}/{NAME}")
    (tmp_path / "workers.py").write_text(WORKERS)
    done = subprocess.run(
        [sys.executable, tmp_path / "workers.py", f"{bucket}/{NAME}", str(dataset()), start, str(read)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), MEGABYTES: "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "30 samples\n"


WORKERS = """
import multiprocessing, sys
import edgefirst_ros
from edgefirst_ros.corpus.fetching import requests
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.sources.remote import connect, has_client, was_forked
from readable import digests

READ = int(sys.argv[4])

def read(given):
    opened, numbers = given
    opened.ahead(numbers)
    assert len(edgefirst_ros.open(sys.argv[1])) == 15
    assert was_forked() == (sys.argv[3] == "fork" and READ > 16)
    assert (requests()._helper is None) == (not was_forked())
    if was_forked():
        try:
            connect("s3://any")
        except RecordingError as error:
            assert "start it by spawn" in str(error)
        else:
            raise AssertionError("its first request would hang")
    return digests(opened, numbers)

def main():
    opened = edgefirst_ros.open(sys.argv[1])
    expected = digests(edgefirst_ros.open(sys.argv[2]), range(15))
    assert digests(opened, [n % 15 for n in range(READ)]) == [expected[n % 15] for n in range(READ)]
    assert has_client() == (READ > 16)
    assert (requests()._helper is None) == has_client()
    with multiprocessing.get_context(sys.argv[3]).Pool(2) as pool:
        parts = pool.map(read, [(opened, range(0, 8)), (opened, range(8, 15))])
    assert sum(parts, []) == expected
    assert digests(opened, range(15)) == expected
    print(15 + len(sum(parts, [])), "samples")

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("container", ["zip", "folder"])
def test_an_object_that_was_replaced_is_an_error(bucket: str, container: str, tmp_path: Path) -> None:
    upload(dataset("2025.01", container), f"{bucket}/{NAME}")
    opened = edgefirst_ros.open(f"{bucket}/{NAME}")
    first = digests(opened, range(1))
    other = copied(tmp_path, "2025.01", container)
    for path in filter(Path.is_file, other.rglob("*")):
        if path.suffix not in {".arrow"}:
            path.write_bytes(path.read_bytes()[:-1] + b"X")
    upload(other, f"{bucket}/{NAME}")
    assert digests(opened, range(1)) == first, "what was read is that of the opened version"
    with pytest.raises(
        DatasetError, match=r"has changed since the dataset was opened \(ETag .*, now .*\); open"
    ):
        opened[1]
    for sample in range(2, COUNT):
        with pytest.raises(DatasetError, match="has changed"):
            opened[sample]
    obstore.delete(obstore.store.from_url(bucket), keys(bucket))
    with pytest.raises(DatasetError, match="is gone since the dataset was opened"):
        opened[1]


def keys(bucket: str) -> list[str]:
    return [meta["path"] for batch in obstore.list(obstore.store.from_url(bucket)) for meta in batch]


def test_a_damaged_file_is_an_error(bucket: str, tmp_path: Path) -> None:
    damaged = copied(tmp_path)
    path = damaged / f"{NAME}.zip"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    upload(damaged, f"{bucket}/{NAME}")
    with pytest.raises(DatasetError, match=rf"^{bucket}/{NAME}/{NAME}\.zip@.*length or CRC-32 is wrong"):
        list(edgefirst_ros.open(f"{bucket}/{NAME}"))


def test_a_server_that_fails_now_and_then_changes_nothing(
    bucket: str, s3: S3Server, expected: list[int]
) -> None:
    upload(dataset(), f"{bucket}/{NAME}")
    s3.log.clear()
    count = [0]

    def fail(*_: str) -> Disturbance:
        count[0] += 1
        return 503 if count[0] % 2 else None

    s3.log.disturb = fail
    assert digests(edgefirst_ros.open(f"{bucket}/{NAME}"), range(2)) == expected[:2]


def test_what_is_not_there_is_said(bucket: str) -> None:
    upload(dataset(), f"{bucket}/{NAME}")
    for place, said in (
        ("none", f"{bucket}/none: holds no finished EdgeFirst dataset"),
        ("none/none.arrow", "holds no finished EdgeFirst dataset"),
    ):
        with pytest.raises(DatasetNotFound, match=said):
            edgefirst_ros.open(f"{bucket}/{place}")
    with pytest.raises(DatasetNotFound, match="no such bucket"):
        edgefirst_ros.open("s3://no-such-bucket-there/sets")
    with pytest.raises(ConfigError, match="ftp://a/b: unknown kind of URL"):
        edgefirst_ros.open("ftp://a/b")


def test_a_list_in_a_bucket_names_datasets_from_its_folder(bucket: str, tmp_path: Path) -> None:
    upload(dataset(), f"{bucket}/sets/monday/{NAME}")
    one = edgefirst_ros.open(dataset(), keys=["time_ns"])
    rows = {
        "dataset": [f"monday/{NAME}", f"../sets/monday/{NAME}"],
        "sequence": [one[0]["sequence"]] * 2,
        "frame": [one[5]["frame"], one[2]["frame"]],
    }
    pq.write_table(pa.table(rows), tmp_path / "list.parquet")
    obstore.put(obstore.store.from_url(bucket), "sets/list.parquet", tmp_path / "list.parquet")
    opened = edgefirst_ros.open(f"{bucket}/sets/list.parquet", keys=["time_ns"])
    assert [sample["time_ns"] for sample in opened] == [one[5]["time_ns"], one[2]["time_ns"]]


def test_it_can_be_pickled(bucket: str, expected: list[int]) -> None:
    upload(dataset(), f"{bucket}/{NAME}")
    again = pickle.loads(pickle.dumps(edgefirst_ros.open(f"{bucket}/{NAME}")))
    assert digests(again, range(COUNT)) == expected
    assert multiprocessing.current_process().name == "MainProcess"


def run(*command: object) -> Result:
    return CliRunner().invoke(app, [*map(str, command)], catch_exceptions=False)


class WithRanges(SimpleHTTPRequestHandler):
    """A plain web server that sends parts of files."""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        try:
            data = Path(self.translate_path(self.path)).read_bytes()
        except OSError:
            self.send_error(404)
            return
        begin, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        part = data[int(begin) : int(last) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{int(begin) + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", f'W/"{len(data)}"')
        self.end_headers()
        self.wfile.write(part)

    def do_HEAD(self) -> None:
        path = Path(self.translate_path(self.path))
        self.send_response(200 if path.is_file() else 404)
        if path.is_file():
            self.send_header("Content-Length", str(path.stat().st_size))
            self.send_header("ETag", f'W/"{path.stat().st_size}"')
        self.end_headers()


def test_a_dataset_on_a_web_server_is_named_by_itself(
    expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = dataset().parent
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(WithRanges, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        for place in (f"{url}/{NAME}", f"{url}/{NAME}/{NAME}.zip"):
            assert digests(edgefirst_ros.open(place), range(COUNT)) == expected
        with pytest.raises(DatasetNotFound, match=f"{url}/none/none.arrow: no such object"):
            edgefirst_ros.open(f"{url}/none")
        server.shutdown()


def test_commands_look_at_what_is_in_a_bucket(bucket: str, s3: S3Server, tmp_path: Path) -> None:
    made = copied(tmp_path)
    size = (made / f"{NAME}.zip").stat().st_size
    upload(made, f"{bucket}/sets/{NAME}")
    url = f"{bucket}/sets/{NAME}"
    here, there = run("check", made), run("check", url)
    assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout)
    assert f"edgefirst/{NAME}" in there.stdout
    for option, ending, rows in (("--picture", "png", ["--rows", 2]), ("-o", "html", [])):
        s3.log.clear()
        local, remote = tmp_path / f"local.{ending}", tmp_path / f"remote.{ending}"
        for place, output in ((made, local), (url, remote)):
            done = run("report", place, option, output, *rows)
            assert done.exit_code == 0, done.stderr
        assert remote.read_bytes() == local.read_bytes()
        of_zip = sum(r.received for r in s3.log.of("GET") if r.path.endswith(".zip"))
        assert 0 < of_zip < (size / 3 if rows else size * 1.1)
    missing = run("check", f"{bucket}/none")
    assert missing.exit_code == 2
    assert f"{bucket}/none" in missing.stderr
