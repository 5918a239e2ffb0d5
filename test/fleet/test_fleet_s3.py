"""From a bucket to a bucket: killed in the middle, run again, and what readers see meanwhile."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from fleets import (
    COUNT,
    CUT,
    GARBAGE,
    OPTIONS,
    done_versions,
    is_of_dataset,
    locally,
    make_drives,
    run,
    start,
    wait_for,
)
from places import contents
from s3server import Disturbance, S3Server

from edgefirst_ros.fleet.output import open_output, upload_step

obstore = pytest.importorskip("obstore", reason="no client of object stores: pip install obstore")


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_drives(tmp_path_factory.mktemp("fleet") / "drives")


@pytest.fixture(scope="module")
def expected(drives: Path) -> Mapping[str, bytes]:
    return locally(drives)


def upload(drives: Path, bucket: str) -> None:
    store = obstore.store.from_url(bucket)
    for path in drives.iterdir():
        obstore.put(store, f"drives/{path.name}", path)


def stored(bucket: str) -> dict[str, bytes]:
    """All objects of datasets below ``sets/``."""
    store = obstore.store.from_url(f"{bucket}/sets")
    names = [meta["path"] for batch in obstore.list(store) for meta in batch]
    return {name: bytes(obstore.get(store, name).bytes()) for name in names if is_of_dataset(name)}


def times(bucket: str) -> dict[str, object]:
    store = obstore.store.from_url(f"{bucket}/sets")
    return {m["path"]: (m["e_tag"], m["last_modified"]) for batch in obstore.list(store) for m in batch}


def visible(objects: Mapping[str, bytes]) -> set[str]:
    """Drives of which a reader finds a dataset."""
    return {name.split("/")[0] for name in objects if upload_step(name.split("/", 1)[1])}


def data_of(objects: Mapping[str, bytes], drive: str) -> dict[str, bytes]:
    """What a dataset is made of, without what makes it visible."""
    return {
        name: data
        for name, data in objects.items()
        if name.startswith(f"{drive}/") and not upload_step(name.split("/", 1)[1])
    }


def test_a_killed_run_is_completed_by_the_next_one(
    bucket: str, s3: S3Server, drives: Path, expected: Mapping[str, bytes]
) -> None:
    upload(drives, bucket)
    notes = open_output(f"{bucket}/sets").notes
    command = ("convert", f"{bucket}/drives/", "-o", f"{bucket}/sets/", "--jobs", "2", *OPTIONS)
    process = start(*command)
    wait_for(lambda: len(done_versions(notes)) >= 2)
    process.send_signal(signal.SIGKILL)
    process.communicate()

    after_kill = stored(bucket)
    for drive in visible(after_kill):
        assert data_of(after_kill, drive) == data_of(expected, drive), "what a reader finds is whole"
    before, done = times(bucket), done_versions(notes)
    complete = {str(notes.read(f"_done/{key}").values["drive"]) for key in done}  # type: ignore[union-attr]
    assert 2 <= len(complete) < COUNT - 1

    s3.log.clear()
    code, _, err = run(*command)
    assert code == 1, err
    assert f"{GARBAGE}: " in err
    assert "begins with b'garbage'" in err
    assert stored(bucket) == expected
    assert len(done_versions(notes)) == COUNT - 1
    again = {name: when for name, when in times(bucket).items() if name.split("/")[0] in complete}
    assert again == {name: when for name, when in before.items() if name.split("/")[0] in complete}
    written = [r.path for r in s3.log.of("PUT", "POST") if r.status < 300]
    assert not [path for path in written for drive in complete if f"/sets/{drive}/" in path]
    read = {r.path.rpartition("/")[2] for r in s3.log.of("GET") if "/drives/" in r.path}
    assert not {f"{drive}.mcap" for drive in complete} & read, "what is done is not even read"
    assert {version for key, version in done_versions(notes).items() if key in done} == set(done.values())
    code, out, _ = run("info", f"{bucket}/sets/")
    assert code == 1
    assert f"{COUNT - 1} done, 0 running, 1 failed, 0 left" in out
    assert CUT in {str(notes.read(f"_done/{key}").values["drive"]) for key in done_versions(notes)}  # type: ignore[union-attr]


def test_readers_find_a_dataset_last(bucket: str, s3: S3Server, drives: Path) -> None:
    code, _, err = run("convert", drives / "drive00.mcap", "-o", f"{bucket}/sets", *OPTIONS)
    assert code == 0, err
    puts = [r.path.partition("/sets/")[2].partition("?")[0] for r in s3.log.of("PUT", "POST")]
    order = [name for name in puts if name.startswith("drive00/")]
    steps = [upload_step(name.split("/", 1)[1]) for name in order]
    assert steps == sorted(steps)
    assert {n.rpartition("/")[2] for n in order if upload_step(n.split("/", 1)[1]) == 1} == {
        "drive00-dataset.arrow",
        "quality.arrow",
        ".zgroup",
    }
    assert {Path(name).name for name in order[-2:]} == {"capture_report.html", "capture_report.json"}
    assert puts.index(order[-1]) < next(n for n, name in enumerate(puts) if name.startswith("_done/"))


@pytest.mark.long
def test_a_changed_configuration_replaces_whole_datasets(
    bucket: str, s3: S3Server, drives: Path, tmp_path: Path
) -> None:
    one = drives / "drive00.mcap"
    run("convert", one, "-o", f"{bucket}/sets", *OPTIONS)
    s3.log.clear()
    code, _, err = run("convert", one, "-o", f"{bucket}/sets", "--rate", "1")
    assert code == 0, err
    assert "drive00: is converted again: configuration or version changed" in err
    run("convert", one, "-o", tmp_path / "drive00", "--rate", "1")
    assert stored(bucket) == contents(tmp_path), "nothing is left of the format that is not wanted any more"
    assert len(done_versions(open_output(f"{bucket}/sets").notes)) == 1
    first = next(
        r.path for r in s3.log.of("PUT", "POST") if "/sets/drive00/" in r.path or "?delete" in r.path
    )
    assert "?delete" in first, "the old dataset vanishes before the new one comes"


@pytest.mark.long
def test_a_store_that_refuses_is_tried_again_by_the_next_run(bucket: str, s3: S3Server, drives: Path) -> None:
    def forbidden(method: str, path: str, _: str) -> Disturbance:
        return 403 if method == "PUT" and "/drive00/" in path else None

    s3.log.disturb = forbidden
    one = drives / "drive00.mcap"
    code, _, err = run("convert", one, "-o", f"{bucket}/sets", *OPTIONS)
    assert code == 1
    assert "/sets: no permission" in err
    s3.log.clear()
    code, _, err = run("convert", one, "-o", f"{bucket}/sets", *OPTIONS)
    assert code == 0, err
    assert open_output(f"{bucket}/sets").notes.names("_failed") == []


def test_a_bucket_that_is_not_there_is_an_error(bucket: str, drives: Path) -> None:
    for command in (
        ("convert", drives, "-o", "s3://no-such-bucket/sets"),
        ("info", "s3://no-such-bucket/sets"),
    ):
        code, _, err = run(*command)
        assert code == 2
        assert err.startswith("error: s3://no-such-bucket: no such bucket")


@pytest.mark.long
def test_a_dataset_of_unknown_origin_is_not_overwritten(bucket: str, drives: Path) -> None:
    store = obstore.store.from_url(f"{bucket}/sets")
    obstore.put(store, "drive00/edgefirst/precious.zip", b"precious")
    command = ("convert", drives / "drive00.mcap", "-o", f"{bucket}/sets", *OPTIONS)
    code, _, err = run(*command)
    assert code == 1
    assert "--overwrite replaces it" in err
    assert stored(bucket) == {"drive00/edgefirst/precious.zip": b"precious"}
    code, _, err = run(*command, "--overwrite")
    assert code == 0, err
    assert "drive00/edgefirst/precious.zip" not in stored(bucket)
