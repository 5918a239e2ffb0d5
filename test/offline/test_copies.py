"""Datasets in an object store: copied once, whole, and read as the same files here."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from readable import NAME, copied, dataset, digests, drive
from s3server import Disturbance, S3Server, upload
from typer.testing import CliRunner, Result

import edgefirst_ros
from edgefirst_ros.cli.app import app
from edgefirst_ros.formats.edgefirst.many import Corpus
from edgefirst_ros.model.errors import ConfigError, DatasetError, DatasetNotFound, WriteError

obstore = pytest.importorskip("obstore", reason="no client of object stores: pip install obstore")
COUNT = 15


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "edgefirst_ros"


@pytest.fixture(scope="module")
def expected() -> list[int]:
    return digests(edgefirst_ros.open(dataset()), range(COUNT))


def gets(s3: S3Server) -> list[str]:
    return [request.path for request in s3.log.of("GET") if "list-type" not in request.path]


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("container", ["zip", "folder"])
def test_samples_are_those_of_the_same_files_here(bucket: str, container: str, s3: S3Server) -> None:
    upload(dataset("2026.10", container), f"{bucket}/sets/{NAME}")
    local = edgefirst_ros.open(dataset("2026.10", container))
    for place in (f"{bucket}/sets", f"{bucket}/sets/{NAME}/", f"{bucket}/sets/{NAME}/{NAME}.arrow"):
        opened = edgefirst_ros.open(place)
        assert opened.path.name == NAME
        assert digests(opened, range(COUNT)) == digests(local, range(COUNT))
        assert opened.to_polars().equals(local.to_polars())
        s3.log.clear()
        again = edgefirst_ros.open(place, keys=["time_ns"])
        assert [sample["time_ns"] for sample in again] == [sample["time_ns"] for sample in local]
        assert not [path for path in gets(s3) if NAME in path], "the copy is there"


def test_a_fleet_in_a_bucket_is_one_dataset(bucket: str, expected: list[int]) -> None:
    for name in ("monday", "tuesday"):
        upload(dataset(), f"{bucket}/sets/{name}/edgefirst/{NAME}")
    opened = edgefirst_ros.open(f"{bucket}/sets/")
    assert isinstance(opened, Corpus)
    assert digests(opened, range(2 * COUNT)) == 2 * expected
    assert opened.dataset_of(COUNT).endswith(f"sets/tuesday/edgefirst/{NAME}")
    mixed = edgefirst_ros.open([dataset(), f"{bucket}/sets/monday"])
    assert digests(mixed, range(2 * COUNT)) == 2 * expected


def test_an_object_that_was_replaced_is_fetched_anew(
    bucket: str, tmp_path: Path, expected: list[int]
) -> None:
    upload(dataset(), f"{bucket}/{NAME}")
    before = edgefirst_ros.open(f"{bucket}/{NAME}")
    upload(dataset("2026.10"), f"{bucket}/{NAME}")
    after = edgefirst_ros.open(f"{bucket}/{NAME}")
    assert (before.schema_version, after.schema_version) == (
        edgefirst_ros.open(dataset()).schema_version,
        "2026.10",
    )
    assert digests(before, range(COUNT)) == expected, "what was opened is that of the opened version"


def test_a_copy_that_was_interrupted_is_completed(bucket: str, s3: S3Server, cache: Path) -> None:
    upload(dataset("2025.01", "folder"), f"{bucket}/{NAME}")
    s3.log.disturb = lambda _, path, __: 403 if path.endswith("_007.camera.jpeg") else None
    with pytest.raises(DatasetError):
        edgefirst_ros.open(f"{bucket}/{NAME}")
    assert not list(cache.glob(f"*/{NAME}")), "what is not whole has no name"
    there = {path.name for path in cache.rglob("*.camera.jpeg")}
    assert there
    s3.log.clear()
    assert len(edgefirst_ros.open(f"{bucket}/{NAME}")) == COUNT
    assert not [path for path in gets(s3) if path.rpartition("/")[2] in there]


@pytest.mark.long
def test_processes_that_open_it_at_once_make_one_copy(bucket: str, s3: S3Server, tmp_path: Path) -> None:
    upload(dataset(), f"{bucket}/{NAME}")
    s3.log.clear()
    script = "import edgefirst_ros, sys; print(len(list(edgefirst_ros.open(sys.argv[1]))))"
    command = [sys.executable, "-c", script, f"{bucket}/{NAME}"]
    several = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) for _ in range(3)
    ]
    assert [each.communicate(timeout=120)[0] for each in several] == [f"{COUNT}\n"] * 3
    assert len({path for path in gets(s3) if path.endswith((".arrow", ".parquet"))}) == 2
    assert len([path for path in gets(s3) if path.endswith(f"/{NAME}.arrow")]) == 1


def test_a_disk_that_refuses_is_said(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(dataset(), f"{bucket}/{NAME}")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no-folder")
    with pytest.raises(WriteError, match="/proc/no-folder/edgefirst_ros"):
        edgefirst_ros.open(f"{bucket}/{NAME}")


def test_a_damaged_file_is_an_error(bucket: str, tmp_path: Path) -> None:
    damaged = copied(tmp_path)
    path = damaged / f"{NAME}.zip"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    upload(damaged, f"{bucket}/{NAME}")
    with pytest.raises(DatasetError, match=rf"{NAME}/{NAME}\.zip@.*length or CRC-32 is wrong"):
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
    for place in ("none", "none/none.arrow"):
        with pytest.raises(DatasetNotFound, match=f"{bucket}/{place}: holds no finished dataset"):
            edgefirst_ros.open(f"{bucket}/{place}")
    with pytest.raises(DatasetNotFound, match="no such bucket"):
        edgefirst_ros.open("s3://no-such-bucket-there/sets")
    with pytest.raises(ConfigError, match="ftp://a/b: unknown kind of URL"):
        edgefirst_ros.open("ftp://a/b")


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
        if not begin:
            begin, last = str(max(0, len(data) - int(last))), str(len(data) - 1)
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
        with pytest.raises(DatasetNotFound, match=f"{url}/none: holds no finished dataset"):
            edgefirst_ros.open(f"{url}/none")
        server.shutdown()


def test_l5kit_in_a_store_is_that_here(bucket: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    edgefirst_ros.convert(drive().mcap, out, name=NAME, page=False, formats=["l5kit"])
    upload(out, f"{bucket}/out")
    opened, local = edgefirst_ros.open(f"{bucket}/out/l5kit/{NAME}.zarr"), edgefirst_ros.open(out)
    assert len(opened) == len(local) > 0
    assert (opened[2]["target_positions"] == local[2]["target_positions"]).all()


def run(*command: object) -> Result:
    return CliRunner().invoke(app, [*map(str, command)], catch_exceptions=False)


def test_commands_look_at_what_is_in_a_bucket(bucket: str, tmp_path: Path) -> None:
    made = copied(tmp_path)
    upload(made, f"{bucket}/sets/{NAME}")
    url = f"{bucket}/sets/{NAME}"
    here, there = run("check", made), run("check", url)
    assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout)
    assert f"edgefirst/{NAME}" in there.stdout
    for ending in ("png", "html"):
        local, remote = tmp_path / f"local.{ending}", tmp_path / f"remote.{ending}"
        for place, output in ((made, local), (url, remote)):
            picture = ["--picture", output, "--rows", 2] if ending == "png" else ["-o", output]
            done = run("report", place, *picture)
            assert done.exit_code == 0, done.stderr
        assert remote.read_bytes() == local.read_bytes()
    missing = run("check", f"{bucket}/none")
    assert missing.exit_code == 2
    assert f"{bucket}/none" in missing.stderr
