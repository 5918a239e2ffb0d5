"""Stores that are away for a time, refuse, know no conditions, or hold what others left."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from fleets import OPTIONS, done_versions, is_of_dataset, locally, make_drives, run
from s3server import Disturbance, S3Server

from edgefirst_ros.config.model import Config
from edgefirst_ros.fleet import health
from edgefirst_ros.fleet import run as coordinator
from edgefirst_ros.fleet.engines.engine import Argument, Engine, Result
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.model.errors import StorageUnreachable, WriteError
from edgefirst_ros.offline.inputs import suggested
from edgefirst_ros.offline.sessions import recorded_settings
from edgefirst_ros.sources import remote, s3query
from edgefirst_ros.sources.location import Url

obstore = pytest.importorskip("obstore", reason="no client of object stores: pip install obstore")
COUNT = 2


class Here(Engine):
    """Tasks in this process, where tests can make things quicker."""

    text, workers = "this process", 1

    def __init__(self) -> None:
        self.pool, self.slots_left = ThreadPoolExecutor(1), 1

    @property
    def slots(self) -> int:
        return self.slots_left

    def avoid(self, worker: str) -> None:
        assert worker == socket.gethostname()
        self.slots_left = 0

    def submit(self, function: Callable[[Argument], Result], argument: Argument) -> Future[Result]:
        return self.pool.submit(function, argument)

    def stop(self) -> None:
        pass

    def shutdown(self) -> None:
        self.pool.shutdown()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "RETRIES", 0)
    monkeypatch.setattr(s3query, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(coordinator, "LOOK_S", 0.0)
    monkeypatch.setattr(coordinator, "_WAKE_S", 0.02)
    monkeypatch.setattr("edgefirst_ros.cli.fleet._engine", lambda *_: Here())


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_drives(tmp_path_factory.mktemp("store") / "drives", count=COUNT)


@pytest.fixture
def expected(drives: Path) -> Mapping[str, bytes]:
    return locally(drives)


@pytest.fixture
def places(bucket: str, drives: Path) -> tuple[str, str]:
    """Drives in a bucket, and where their datasets go."""
    store = obstore.store.from_url(bucket)
    for path in drives.iterdir():
        obstore.put(store, f"drives/{path.name}", path)
    return f"{bucket}/drives", f"{bucket}/sets"


def stored(bucket: str) -> dict[str, bytes]:
    """All objects of datasets below ``sets/``."""
    store = obstore.store.from_url(f"{bucket}/sets")
    names = [meta["path"] for batch in obstore.list(store) for meta in batch]
    return {name: bytes(obstore.get(store, name).bytes()) for name in names if is_of_dataset(name)}


class Outage:
    """All requests are answered with an error for a time, from the first one of a kind on."""

    def __init__(self, seconds: float, answer: Disturbance, begins: str) -> None:
        self.seconds, self.answer, self.begins = seconds, answer, begins
        self.since_s = 0.0

    def __call__(self, method: str, path: str, _: str) -> Disturbance:
        if not self.since_s and self.begins in f"{method} {path}":
            self.since_s = time.monotonic()
        return self.answer if self.since_s and time.monotonic() - self.since_s < self.seconds else None


@pytest.mark.parametrize(
    "begins",
    [
        pytest.param("/drives/drive01.mcap", id="reading"),
        pytest.param("/sets/drive01/", id="publishing", marks=pytest.mark.long),
        pytest.param("PUT /{bucket}/sets/_done/", id="noting", marks=pytest.mark.long),
        pytest.param("PUT /{bucket}/sets/_running/", id="claiming", marks=pytest.mark.long),
    ],
)
def test_an_outage_costs_nothing_but_time(
    s3: S3Server, bucket: str, places: tuple[str, str], expected: Mapping[str, bytes], begins: str
) -> None:
    outage = Outage(0.7, 503, begins.format(bucket=bucket.removeprefix("s3://")))
    s3.log.disturb = outage
    code, _, err = run("convert", places[0], "-o", places[1], *OPTIONS)
    assert code == 0, err
    assert any(request.status == 503 for request in s3.log.requests)
    assert stored(bucket) == expected
    notes = open_output(places[1]).notes
    assert len(done_versions(notes)) == COUNT
    assert notes.names("_failed") == notes.names("_running") == []


def test_a_wrong_address_is_no_outage(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    begin_s = time.monotonic()
    with pytest.raises(WriteError, match="no answer"):
        open_output(f"{bucket}/sets", 600.0).notes.names("_done")
    assert time.monotonic() - begin_s < 20


def test_an_outage_at_the_start_is_waited_for(s3: S3Server, bucket: str) -> None:
    s3.log.disturb = Outage(0.2, 503, "/")
    assert open_output(f"{bucket}/sets", 60.0).notes.names("_done") == []
    assert {request.status for request in s3.log.requests} >= {200, 503}


@pytest.mark.long
def test_a_longer_outage_leaves_drives_to_the_next_run(
    s3: S3Server, bucket: str, places: tuple[str, str], expected: Mapping[str, bytes]
) -> None:
    s3.log.disturb = lambda method, path, _: 503 if method == "PUT" and "/sets/drive01/" in path else None
    code, _, err = run("convert", places[0], "-o", places[1], "--patience", "0.005", *OPTIONS)
    assert code == 1, err
    assert "drive01: is tried again in 0 s: " in err
    assert "failed: drive01: " in err
    assert len(done_versions(open_output(places[1]).notes)) == COUNT - 1
    s3.log.clear()
    code, _, err = run("convert", places[0], "-o", places[1], *OPTIONS)
    assert code == 0, err
    assert stored(bucket) == expected


def test_credentials_that_expire_end_the_run_without_blaming_a_drive(
    s3: S3Server, bucket: str, places: tuple[str, str], expected: Mapping[str, bytes]
) -> None:
    s3.log.disturb = Outage(
        1e9, (403, "ExpiredToken"), "GET /{bucket}/drives/drive".format(bucket=bucket.removeprefix("s3://"))
    )
    code, _, err = run("convert", places[0], "-o", places[1], *OPTIONS)
    assert code == 1, err
    s3.log.clear()
    assert f"quarantined: {socket.gethostname()}: {bucket}/" in err
    assert "no permission (ExpiredToken); check AWS_ACCESS_KEY_ID" in err
    assert "the fleet's report was not written" in err
    assert f"{COUNT} of {COUNT} drives are left" in err
    notes = open_output(places[1]).notes
    assert notes.names("_failed") == []
    for name in notes.names("_running"):  # of this process, which lives on, other than a worker's
        notes.remove(f"_running/{name}")
    assert run("convert", places[0], "-o", places[1], *OPTIONS)[0] == 0
    assert stored(bucket) == expected


LACKS: dict[Disturbance, str] = {
    "unconditional": "ignores the conditions of writes (If-None-Match)",
    "no conditions": "does not implement conditional writes (If-None-Match)",
}


@pytest.mark.parametrize("kind", ["unconditional", pytest.param("no conditions", marks=pytest.mark.long)])
def test_a_store_without_conditions_is_for_one_run_at_a_time(
    s3: S3Server, bucket: str, places: tuple[str, str], expected: Mapping[str, bytes], kind: Disturbance
) -> None:
    s3.log.clear()
    s3.log.disturb = lambda *_: kind
    command = ("convert", places[0], "-o", places[1], *OPTIONS)
    code, _, err = run(*command)
    assert code == 2
    assert f"{places[1]}: the store {LACKS[kind]}" in err
    assert "--single-run" in err
    written = [r.path.partition("/sets/")[2].partition("?")[0] for r in s3.log.of("PUT", "POST", "DELETE")]
    assert written == ["_conditions.json"] * len(written)
    assert 1 <= len(written) <= 2
    s3.log.requests.clear()
    code, _, err = run(*command, "--single-run")
    assert code == 0, err
    assert "let no other run write there before this one ends" in " ".join(err.split())
    assert {r.path.partition("/sets/")[2] for r in s3.log.requests if r.condition} == {"_conditions.json"}
    assert stored(bucket) == expected
    notes = open_output(places[1]).notes
    assert len(done_versions(notes)) == COUNT
    assert notes.names("_running") == []


def test_a_store_with_conditions_is_recognised_by_two_requests(s3: S3Server, bucket: str) -> None:
    output = open_output(f"{bucket}/sets")
    for conditions in (["*", "*"], ["*", '"00000000000000000000000000000000"']):
        s3.log.clear()
        assert output.lack() == ""
        assert [request.condition for request in s3.log.requests] == conditions


def test_an_outage_changes_no_settings(s3: S3Server, places: tuple[str, str]) -> None:
    """What would be read of a recording decides how it is converted."""
    inputs = [f"{places[0]}/drive00.mcap"]
    s3.log.disturb = lambda *_: 503
    with pytest.raises(StorageUnreachable):
        recorded_settings(inputs)
    with pytest.raises(StorageUnreachable):
        suggested(inputs, Config())


@pytest.fixture
def uploads(s3: S3Server, bucket: str) -> Callable[[], set[str]]:
    """Keys of which an upload in parts was begun; two of them are left by a process that was killed."""
    store = obstore.store.from_url(bucket)
    for key in ("sets/drive00/edgefirst/a b.zip", "sets/drive000/b.zip", "other/c.zip"):
        # What obstore has not sent it does not complete, either.
        obstore.open_writer(store, key, buffer_size=5 << 20).write(bytes(6 << 20))

    def open_ones() -> set[str]:
        page = s3query._page(store, Url(bucket, ""), {"uploads": ""})
        return {each.findtext("{*}Key") or "" for each in page.iterfind("{*}Upload")}

    assert len(open_ones()) == 3, s3.log.requests
    return open_ones


def test_uploads_that_were_broken_off_are_aborted(
    bucket: str, places: tuple[str, str], uploads: Callable[[], set[str]]
) -> None:
    from edgefirst_ros.fleet.keys import discover, key_of  # noqa: PLC0415

    notes = open_output(places[1]).notes
    (one, *_), _ = discover([places[0]])
    dead = {"run": "theirs", "drive": key_of(one, "").drive, "released": True}
    notes.put("_running/drive00", dead)
    code, _, err = run("convert", f"{places[0]}/drive00.mcap", "-o", places[1], *OPTIONS)
    assert code == 0, err
    assert uploads() == {"sets/drive000/b.zip", "other/c.zip"}, "of one's own keys alone"


@pytest.fixture
def odd(s3: S3Server, bucket: str) -> Iterator[None]:
    """A listing as S3 gives it; the server of the tests would not have such keys itself."""
    changed = {
        b"drives/drive90.mcap": b"drives//x.mcap",
        b"drives/drive91.mcap": b"drives/./../y.mcap",
        b"drives/drive92.mcap": b"drives/%09tab%0A.mcap",
        b"drives/drive93.mcap": b"drives/b%5Cc.mcap",
        b"drives/drive94.mcap": b"drives/%F0%9F%9A%97+2%2B3.mcap",
    }
    for key in changed:
        obstore.put(obstore.store.from_url(bucket), key.decode(), b"")

    def as_s3(data: bytes) -> bytes:
        for key, other in changed.items():
            data = data.replace(key, other)
        if b"<EncodingType>url" not in data:
            data = data.replace(b"%09", b"&#x9;").replace(b"%0A", b"&#xA;").replace(b"%5C", b"\\")
            data = data.replace(b"%F0%9F%9A%97+2%2B3", "🚗 2+3".encode())
        return data

    s3.log.disturb = lambda method, path, _: as_s3 if method == "GET" and "list-type" in path else None
    yield
    s3.log.clear()


@pytest.mark.usefixtures("odd")
def test_odd_keys_are_skipped_and_named(s3: S3Server, places: tuple[str, str], tmp_path: Path) -> None:
    from edgefirst_ros.fleet.keys import discover  # noqa: PLC0415

    found, notes = discover([places[0]])
    for name in ("b\\c.mcap", "🚗 2+3.mcap", *(f"drive0{n}.mcap" for n in range(COUNT))):
        (tmp_path / name).touch()
    alike, _ = discover([tmp_path])
    assert [drive.name for drive in found] == [drive.name for drive in alike], "and as in a folder"
    named = ", ".join(f"{places[0]}/{key}" for key in ("/x.mcap", "./../y.mcap", "\\ttab\\n.mcap"))
    assert notes == [f"left unread in the folders given: 3 with keys that are no paths ({named})"]
    assert len([r for r in s3.log.requests if "list-type" in r.path]) == 2


@pytest.mark.usefixtures("odd")
def test_odd_keys_in_the_output_are_left_alone(places: tuple[str, str]) -> None:
    from edgefirst_ros.fleet.output import Bucket  # noqa: PLC0415

    root, _, _ = places[0].rpartition("/")
    names = Bucket(Url(root, "")).list("drives")
    assert {f"drives/drive0{n}.mcap" for n in range(COUNT)} < names.keys()
    assert not [name for name in names if "//" in name]
