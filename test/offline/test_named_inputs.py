"""What a user names as input: patterns, lists, and how many requests it takes to find drives."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drives import simulate
from faulty import FaultyOptions
from s3server import S3Server

from edgefirst_ros.model.errors import EdgeFirstError, RecordingNotFound
from edgefirst_ros.offline.drives import FoundFiles, find_files
from edgefirst_ros.offline.inputs import find_drive_files
from edgefirst_ros.offline.naming import key_pattern, read_list
from edgefirst_ros.sources.location import Url

SMALL = FaultyOptions(seconds=4, fps=5, width=144, height=64, lidar_points=64, cube_hz=0, imu_hz=20)


def names(found: FoundFiles) -> list[str]:
    return [file.path.name for file in found.files]


@pytest.mark.parametrize(
    ("pattern", "key", "is_meant"),
    [
        ("2025-*/a.mcap", "2025-01/a.mcap", True),
        ("2025-*/a.mcap", "2025-01/b/a.mcap", False),
        ("2025-*", "2025-01/b/a.mcap", True),
        ("**/a*.mcap", "x/y/ab.mcap", True),
        ("**/a*.mcap", "ab.mcap", True),
        ("d?/[ab].mcap", "d1/b.mcap", True),
        ("d?/[!ab].mcap", "d1/b.mcap", False),
        ("d?/a.mcap", "d//a.mcap", False),
        ("d.mcap*", "dxmcap", False),
        ("odd[1]/*.mcap", "odd1/a.mcap", True),
        ("odd[1].mcap", "odd[1].mcap", True),
    ],
)
def test_patterns_mean_keys_and_what_is_below_them(pattern: str, key: str, *, is_meant: bool) -> None:
    assert key_pattern(Url("s3://b", pattern))(key) == is_meant


def test_patterns_find_the_same_in_folders_and_stores(tmp_path: Path, s3: S3Server, bucket: str) -> None:
    obstore = pytest.importorskip("obstore")
    store = obstore.store.from_url(bucket)
    files = ("2025-01/a.mcap", "2025-02/b.mcap", "2025-02/deep/c.mcap", "2026-01/d.mcap", "2025-02/n.txt")
    for name in files:
        path = tmp_path / "drives" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        obstore.put(store, f"drives/{name}", b"x")
    for pattern, expected in {
        "2025-*/*.mcap": ["a.mcap", "b.mcap"],
        "2025-*": ["a.mcap", "b.mcap", "c.mcap"],
        "**/[cd].mcap": ["c.mcap", "d.mcap"],
        "2025-02/*": ["b.mcap", "c.mcap"],
    }.items():
        assert names(find_files([f"{bucket}/drives/{pattern}"])) == expected
        assert names(find_files([tmp_path / "drives" / pattern])) == expected
    for nothing in (f"{bucket}/drives/x*", tmp_path / "drives" / "x*"):
        with pytest.raises(RecordingNotFound, match="holds no recordings"):
            find_files([nothing])
    s3.log.clear()
    find_files([f"{bucket}/drives/2026-*/*"])
    assert [r.method for r in s3.log.requests] == ["GET"], "one listing"


def test_lists_are_lines_or_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["s3://b/a b.mcap", "/x/ü.mcap"]
    text = "# drives\n\n" + "\r\n".join(wanted) + "\n"
    (tmp_path / "list.txt").write_text(text)
    assert read_list(str(tmp_path / "list.txt")) == wanted
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert read_list("-") == wanted
    for number, columns in enumerate(
        ({"uri": wanted, "day": ["1", "2"]}, {"file": wanted, "n": [1, 2]}, {"path": [*wanted, wanted[0]]})
    ):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table(columns), path)
        assert read_list(str(path)) == wanted


@pytest.mark.guarded
def test_what_is_no_list_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"], "b": ["y"]}), tmp_path / "two.parquet")
    pq.write_table(pa.table({"path": ["x.mcap"] * 600_000}), tmp_path / "bomb.parquet", compression="zstd")
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    for name, fault in {
        "two.parquet": "which column",
        "bomb.parquet": "600,000 rows in",
        "empty": "names no recording",
        "bytes": "is no list of recordings",
        "cut.parquet": "is no list of recordings",
    }.items():
        with pytest.raises(EdgeFirstError, match=fault):
            read_list(str(tmp_path / name))
    with pytest.raises(RecordingNotFound):
        read_list(str(tmp_path / "missing"))


class TestRequests:
    """Finding drives of a store asks for little."""

    def test_files_that_adjoin_are_one_drive_among_many(
        self, s3: S3Server, bucket: str, tmp_path: Path
    ) -> None:
        obstore = pytest.importorskip("obstore")
        store = obstore.store.from_url(bucket)
        made = simulate(tmp_path, replace(SMALL, seconds=6, splits=3, split_names="device"))
        for path in made.files:
            obstore.put(store, f"d/{path.name}", path)
            (tmp_path / "all").mkdir(exist_ok=True)
            (tmp_path / "all" / path.name).write_bytes(path.read_bytes())
        host = made.files[0].stem.rpartition("_20")[0]
        for number in range(20):
            name = f"{host}_2031_03_{number + 1:02}_10_00_00.mcap"
            obstore.put(store, f"d/{name}", made.files[0])
            (tmp_path / "all" / name).write_bytes(made.files[0].read_bytes())
        s3.log.clear()
        remote = find_drive_files([f"{bucket}/d/"])
        assert [len(drive.parts) for drive in remote.drives] == [3, *[1] * 20]
        local = find_drive_files([tmp_path / "all"])
        assert [len(drive.parts) for drive in local.drives] == [3, *[1] * 20]

    def test_named_objects_are_listed_together(self, s3: S3Server, bucket: str) -> None:
        obstore = pytest.importorskip("obstore")
        store = obstore.store.from_url(bucket)
        for number in range(30):
            obstore.put(store, f"d/{number}.mcap", b"x" * number)
        s3.log.clear()
        found = find_drive_files([f"{bucket}/d/{n}.mcap" for n in reversed(range(30))])
        assert [drive.size for drive in found.drives] == [*reversed(range(30))]
        assert len(s3.log.requests) <= 2, json.dumps([r.path for r in s3.log.requests])
        with pytest.raises(RecordingNotFound):
            find_drive_files([f"{bucket}/d/{n}.mcap" for n in range(31)])
