"""From a bucket to a bucket: killed in the middle, away for a time, and what readers see meanwhile."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from fleets import (
    COUNT,
    GARBAGE,
    OPTIONS,
    done_in,
    is_of_dataset,
    locally,
    make_drives,
    notes_of,
    run,
    start,
    wait_for,
)
from s3server import Disturbance, S3Server

from edgefirst_ros.config.model import Config
from edgefirst_ros.fleet import output as outputs
from edgefirst_ros.fleet import run as running
from edgefirst_ros.fleet.notes import BEGUN, DONE, FAILED
from edgefirst_ros.fleet.output import upload_step
from edgefirst_ros.model.errors import StorageUnreachable
from edgefirst_ros.offline.inputs import suggested
from edgefirst_ros.offline.sessions import recorded_settings
from edgefirst_ros.sources import remote

obstore = pytest.importorskip("obstore", reason="no client of object stores: pip install obstore")


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_drives(tmp_path_factory.mktemp("fleet") / "drives")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "RENEW_S", 0.5)
    monkeypatch.setattr(running, "FIRST_PAUSE_S", 0.1)


def upload(drives: Path, bucket: str, count: int = COUNT) -> tuple[str, str]:
    """Put some drives in a bucket; where they are, and where their datasets go."""
    store = obstore.store.from_url(bucket)
    for path in sorted(drives.iterdir())[:count]:
        obstore.put(store, f"drives/{path.name}", path)
    return f"{bucket}/drives/", f"{bucket}/sets"


def stored(bucket: str) -> dict[str, bytes]:
    """All objects of datasets below ``sets/``."""
    store = obstore.store.from_url(f"{bucket}/sets")
    names = [meta["path"] for batch in obstore.list(store) for meta in batch]
    return {name: bytes(obstore.get(store, name).bytes()) for name in names if is_of_dataset(name)}


def times(bucket: str) -> dict[str, object]:
    store = obstore.store.from_url(f"{bucket}/sets")
    return {m["path"]: (m["e_tag"], m["last_modified"]) for batch in obstore.list(store) for m in batch}


def data_of(objects: Mapping[str, bytes], drive: str) -> dict[str, bytes]:
    """What a dataset is made of, without what makes it visible."""
    own = {name: data for name, data in objects.items() if name.startswith(f"{drive}/")}
    return {name: data for name, data in own.items() if not upload_step(name.split("/", 1)[1])}


@pytest.mark.long
def test_a_killed_run_is_completed_by_the_next_one(bucket: str, s3: S3Server, drives: Path) -> None:
    places, expected = upload(drives, bucket), locally(drives)
    command = ("convert", places[0], "-o", places[1], "--jobs", "2", *OPTIONS)
    process = start(*command)
    wait_for(lambda: len(done_in(places[1])) >= 2)
    process.send_signal(signal.SIGKILL)
    process.communicate()

    after = stored(bucket)
    visible = {name.split("/")[0] for name in after if upload_step(name.split("/", 1)[1])}
    for drive in visible:
        assert data_of(after, drive) == data_of(expected, drive), "what a reader finds is whole"
    before, complete = times(bucket), done_in(places[1])
    assert 2 <= len(complete) < COUNT - 1

    s3.log.clear()
    code, _, err = run(*command)
    assert code == 1, err
    assert f"failed: {GARBAGE}: " in err
    assert stored(bucket) == expected
    assert len(done_in(places[1])) == COUNT - 1
    assert notes_of(places[1]).list_keys(BEGUN) == {}
    again = {name: when for name, when in times(bucket).items() if name.split("/")[0] in complete}
    assert again == {name: when for name, when in before.items() if name.split("/")[0] in complete}
    read = {r.path.rpartition("/")[2] for r in s3.log.of("GET") if "/drives/" in r.path}
    assert not {f"{drive}.mcap" for drive in complete} & read, "what is done is not even read"
    code, out, _ = run("info", places[1])
    assert (code, out.splitlines()[0]) == (1, f"{COUNT - 1} done, 0 begun, 1 failed, 0 left")


def test_a_plan_reads_no_note(bucket: str, s3: S3Server, drives: Path) -> None:
    places = upload(drives, bucket, 2)
    command = ("convert", places[0], "-o", places[1], "--jobs", "1", "--format", "edgefirst")
    assert run(*command)[0] == 0
    s3.log.clear()
    code, _, err = run(*command, "--dry-run")
    assert code == 0
    assert "2 drives, 2 done before: 0 to convert" in err
    assert len(s3.log.requests) <= 5
    assert {r.method for r in s3.log.requests} == {"GET"}
    assert all("list-type" in r.path for r in s3.log.requests)


@pytest.mark.long
@pytest.mark.parametrize("begins", ["/drives/drive01.mcap", "/sets/drive01/", "/sets/_done/"])
def test_an_outage_costs_nothing_but_time(bucket: str, s3: S3Server, drives: Path, begins: str) -> None:
    places, since_s = upload(drives, bucket, 2), 0.0

    def away(_: str, path: str, __: str) -> Disturbance:
        nonlocal since_s
        if not since_s and begins in path:
            since_s = time.monotonic()
        return 503 if since_s and time.monotonic() - since_s < 0.7 else None

    s3.log.disturb = away
    code, _, err = run("convert", places[0], "-o", places[1], *OPTIONS)
    assert code == 0, err
    assert any(request.status == 503 for request in s3.log.requests)
    assert "is tried again" not in err, "what has begun is not begun anew"
    assert stored(bucket) == {
        n: d for n, d in locally(drives).items() if n.startswith(("drive00", "drive01"))
    }
    assert done_in(places[1]) == {"drive00", "drive01"}


@pytest.mark.long
@pytest.mark.parametrize("answer", [503, (403, "ExpiredToken")])
def test_a_longer_outage_leaves_drives_to_the_next_run(
    bucket: str, s3: S3Server, drives: Path, monkeypatch: pytest.MonkeyPatch, answer: Disturbance
) -> None:
    monkeypatch.setattr(running, "MOST_PAUSES", 2)
    monkeypatch.setattr(remote, "RETRIES", 1)
    places = upload(drives, bucket, 2)
    s3.log.disturb = lambda method, path, _: answer if method == "PUT" and "/sets/drive01/" in path else None
    code, _, err = run("convert", places[0], "-o", places[1], *OPTIONS)
    assert code == 1, err
    assert "drive01: is tried again: " in err
    assert "left: drive01: " in err
    assert "1 of 2 drives are left" in err
    assert notes_of(places[1]).list_keys(FAILED) == {}
    s3.log.clear()
    code, _, err = run("convert", places[0], "-o", places[1], *OPTIONS)
    assert code == 0, err
    assert "2 drives, 1 done before: 1 to convert" in err
    assert len(notes_of(places[1]).list_keys(DONE)) == 2


@pytest.mark.long
def test_a_changed_configuration_replaces_whole_datasets(bucket: str, drives: Path) -> None:
    one = drives / "drive00.mcap"
    run("convert", one, "-o", f"{bucket}/sets", *OPTIONS)
    code, _, err = run("convert", one, "-o", f"{bucket}/sets", "--format", "edgefirst")
    assert code == 0, err
    assert "again, since configuration or version changed" in err
    assert {name.split("/")[1] for name in stored(bucket)} == {"edgefirst"}
    assert [len(keys) for keys in notes_of(f"{bucket}/sets").list_keys(DONE).values()] == [1]


@pytest.mark.long
def test_what_no_note_knows_is_not_overwritten(bucket: str, drives: Path) -> None:
    obstore.put(obstore.store.from_url(bucket), "sets/drive00/edgefirst/precious.zip", b"precious")
    command = ("convert", drives / "drive00.mcap", "-o", f"{bucket}/sets", *OPTIONS)
    code, _, err = run(*command)
    assert (code, "--overwrite replaces it" in err) == (1, True)
    assert stored(bucket) == {"drive00/edgefirst/precious.zip": b"precious"}
    assert run(*command, "--overwrite")[0] == 0
    assert "drive00/edgefirst/precious.zip" not in stored(bucket)


@pytest.mark.long
def test_a_second_run_is_refused(bucket: str, drives: Path) -> None:
    """Once the first one has renewed its lock, which takes it 10 s; until then it may have been killed."""
    places, one = upload(drives, bucket, 3), min(drives.iterdir())
    for number in range(20):
        obstore.put(obstore.store.from_url(bucket), f"drives/more{number:02}.mcap", one)
    process = start("convert", places[0], "-o", places[1], "--jobs", "1", *OPTIONS)
    wait_for(lambda: notes_of(places[1]).list_keys(BEGUN))
    outputs.RENEW_S = 10.0  # as in the other process
    code, _, err = run("convert", places[0], "-o", places[1], *OPTIONS)
    process.kill()
    process.communicate()
    assert code == 2
    assert f"process {process.pid} on " in err


def test_a_bucket_that_is_not_there_is_an_error(drives: Path, s3: S3Server) -> None:
    for command in (
        ("convert", drives, "-o", "s3://no-such-bucket/sets"),
        ("info", "s3://no-such-bucket/sets"),
    ):
        code, _, err = run(*command)
        assert (code, "no such bucket" in err) == (2, True), err


def test_an_outage_changes_no_settings(
    bucket: str, s3: S3Server, drives: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be read of a recording decides how it is converted."""
    monkeypatch.setattr(remote, "RETRIES", 0)
    inputs = [f"{upload(drives, bucket, 1)[0]}drive00.mcap"]
    s3.log.disturb = lambda *_: 503
    with pytest.raises(StorageUnreachable):
        recorded_settings(inputs)
    with pytest.raises(StorageUnreachable):
        suggested(inputs, Config())
