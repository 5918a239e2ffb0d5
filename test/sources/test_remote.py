"""Recordings in object stores: what is requested, what is kept in memory, and what goes wrong."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import recorded
from drives import simulated
from s3server import S3Server
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.model.errors import ConfigError, ExtraNotInstalled, RecordingError
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources import remote
from edgefirst_ros.sources.location import Url, location_of
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.remote import RemoteFile

obstore = pytest.importorskip("obstore")
DRIVE: dict[str, Any] = {**recorded.SMALL, "seconds": 4, "mbit_s": 8.0}


@pytest.fixture(scope="module")
def local() -> Path:
    return simulated(DriveOptions(**DRIVE)).mcap


@pytest.fixture
def url(bucket: str, local: Path, s3: S3Server) -> str:
    """The recording in a bucket."""
    put(bucket, f"week/{local.name}", local)
    s3.log.clear()
    return f"{bucket}/week/{local.name}"


def put(bucket: str, key: str, content: Path | bytes) -> None:
    obstore.put(obstore.store.from_url(bucket), key, content)


def opened(text: str) -> McapRecording:
    return McapRecording(location_of(text))


def test_all_messages_come_as_from_a_file(s3: S3Server, url: str, local: Path) -> None:
    recording = opened(url)
    assert list(recording.messages()) == list(McapRecording(local).messages())
    assert len(s3.log.requests) == 2  # the last 256 KiB, and one stream
    assert (recording.host, recording.sequence_name) == (McapRecording(local).host, local.stem)


def test_info_takes_few_requests(s3: S3Server, url: str, local: Path) -> None:
    said = CliRunner().invoke(app, ["info", url])
    assert said.exit_code == 0, said.output
    assert "/camera/h264" in said.stdout
    assert "--whole reads all of it" in said.stdout
    assert len(s3.log.requests) <= 4
    s3.log.clear()
    whole = CliRunner().invoke(app, ["info", url, "--whole", "--json"])
    here = CliRunner().invoke(app, ["info", str(local), "--json"])
    assert whole.stdout == here.stdout


def test_bytes_are_those_of_the_file(s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any reads, in planned ranges and outside of them."""
    draw = random.Random(7)
    data = draw.randbytes(3_000_000)
    put(bucket, "data.mcap", data)
    monkeypatch.setattr(remote, "PART_BYTES", 100_000)
    stored = RemoteFile(Url(bucket, "data.mcap"))
    assert stored.size == len(data)
    for planned in (None, [], [(5, 1_200_000), (1_210_000, 1_400_000), (2_000_000, 2_000_001)]):
        with stored.open(planned) as file:
            for _ in range(60):
                at = draw.randrange(len(data) + 10)
                length = draw.choice([1, 9, 5_000, 300_000])
                assert file.seek(at) == file.tell() == at
                assert file.read(length) == data[at : at + length]
    with stored.open() as file:
        assert file.read() == data


def test_a_file_is_one_stream_and_what_is_kept_is_not_asked_for_again(s3: S3Server, bucket: str) -> None:
    data = random.Random(7).randbytes(3_000_000)
    put(bucket, "data.mcap", data)
    stored = RemoteFile(Url(bucket, "data.mcap"))
    stored.keep()
    s3.log.clear()
    for _ in range(2):
        with stored.open() as file:
            assert file.read() == data
    assert len(s3.log.requests) == 1


def test_a_server_that_sends_more_than_it_was_asked_for_is_not_listened_to() -> None:
    class Endless(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(206)
            self.send_header("Content-Range", "bytes 900000-999999/1000000")
            self.send_header("Content-Length", str(1 << 40))
            self.end_headers()
            with suppress(OSError):  # the other side has gone
                while True:
                    self.wfile.write(bytes(1 << 20))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        data, version = remote.read_tail(Url(f"http://127.0.0.1:{server.server_port}", "a.mcap"), 100_000)
        server.shutdown()
    assert (len(data), version.size) == (100_000, 1_000_000)


def test_who_is_asked_by_https_does_not_lead_elsewhere_by_http() -> None:
    for scheme in ("http", "https"):
        options: Any = remote.connect(f"{scheme}://server").client_options
        assert str(options["allow_http"]).lower() == str(scheme == "http").lower()


def test_keys_that_are_no_paths_are_named_and_all_others_are_found(s3: S3Server, bucket: str) -> None:
    names = ["a/1.mcap", "b/!odd", "b/2.mcap", "b/c/3.mcap", "c/!tab", "c/4.mcap", "d.mcap"]
    for name in names:
        put(bucket, name, b"x")

    def renamed(data: bytes) -> bytes:
        """As objects of these names would be listed, which the server here cannot hold."""
        return data.replace(b"b/!odd", b"b//odd").replace(b"c/!tab", b"c/1&#x9;")

    s3.log.disturb = lambda *_: renamed
    odd: list[str] = []
    found = {each.url.key for each in remote.list_objects(location_of(bucket), odd)}  # type: ignore[arg-type]
    assert found == {name for name in names if "!" not in name}
    assert odd == [f"{bucket}/b//odd", f"{bucket}/c/1\\t"]


@pytest.mark.parametrize("how", [500, 503, "cut"])
def test_a_server_that_fails_now_and_then_costs_no_message(
    s3: S3Server,
    url: str,
    local: Path,
    how: Any,  # noqa: ANN401
) -> None:
    lock, seen = threading.Lock(), [0]

    def every_second(*_: str) -> Any:  # noqa: ANN401
        with lock:
            seen[0] += 1
            return how if seen[0] % 2 else None

    s3.log.disturb = every_second
    assert len(list(opened(url).messages())) == len(list(McapRecording(local).messages()))
    assert len(s3.log.requests) > 2


def test_a_file_that_changes_is_an_error(s3: S3Server, url: str, bucket: str, local: Path) -> None:
    recording = opened(url)
    put(bucket, f"week/{local.name}", local.read_bytes() + b"\0")
    with pytest.raises(RecordingError, match=rf"{url}: changed while it was read \(ETag .*: start again"):
        list(recording.messages())


def test_a_truncated_file_is_read_as_far_as_it_goes(bucket: str, local: Path, tmp_path: Path) -> None:
    cut = tmp_path / local.name
    cut.write_bytes(local.read_bytes()[:-1_000])
    put(bucket, "cut.mcap", cut)
    here, there = McapRecording(cut), opened(f"{bucket}/cut.mcap")
    assert there.topics() == here.topics()
    assert list(there.messages()) == list(here.messages()) != []
    assert (there.faults, there.note) == (here.faults, here.note)


def test_refused_credentials_are_said(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(RecordingError, match=rf"{url}: no permission .*; check AWS_ACCESS_KEY_ID and"):
        opened(url)


def test_ctrl_c_ends_the_wait_for_a_server(s3: S3Server, url: str) -> None:
    asked, answer = threading.Event(), threading.Event()

    def hang(*_: str) -> None:
        asked.set()
        answer.wait(60)

    s3.log.disturb = hang
    command = [sys.executable, "-m", "edgefirst_ros", "info", url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        assert asked.wait(60)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    answer.set()
    assert child.returncode == 130
    assert "interrupted" in said


def test_without_obstore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    remote._connect.cache_clear()
    with pytest.raises(ExtraNotInstalled, match=r"pip install 'edgefirst_ros\[cloud\]'"):
        opened("s3://bucket/drive.mcap")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ftp://server/drive.mcap", "unknown kind of URL; expected s3://"),
        ("s3:///drive.mcap", "names no bucket or server"),
        ("https://server/drive.mcap?token=1", "https://server/drive.mcap: URLs with a query cannot be read"),
    ],
)
def test_urls_that_cannot_be_read_are_said(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        location_of(text)
