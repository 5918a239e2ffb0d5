"""rosbag2 in SQLite and ROS 1 bags: the same messages, the same datasets, and damage that is said."""

from __future__ import annotations

import hashlib
import re
import sqlite3
import struct
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import recorded
import zstandard
from rosbags_made import rosbag1, typestore, write_bag, write_db3
from s3server import S3Server

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.sources.location import location_of
from edgefirst_ros.sources.recording import TimeWindow, open_recording
from edgefirst_ros.sources.records import IMPLAUSIBLE
from edgefirst_ros.sources.ros1bag import Ros1Recording, Ros1Types

NAME = "maivin-sim_2026_05_01_09_00_00"
EVERY_FORMAT = build_config({"formats": ["edgefirst", "ncore", "l5kit"]})


@pytest.fixture(scope="module")
def content() -> Sequence[RawMessage]:
    return recorded.messages(seconds=4)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, content: Sequence[RawMessage]) -> dict[str, Path]:
    """The same messages as MCAP, as .db3 and as .bag, all of one name."""
    root = tmp_path_factory.mktemp("bags")
    mcap = recorded.record(root / f"{NAME}.mcap", content)
    db3 = write_db3(root / "rosbag2", content)
    return {
        "mcap": mcap,
        "db3": db3.rename(db3.with_name(f"{NAME}.db3")),
        "bag": write_bag(root / f"{NAME}.bag", content),
    }


def digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "capture_report.json"
    }


@pytest.fixture(scope="module")
def from_mcap(tmp_path_factory: pytest.TempPathFactory, files: dict[str, Path]) -> dict[str, str]:
    """Digests of the dataset of the MCAP."""
    out = tmp_path_factory.mktemp("out")
    convert([files["mcap"]], out, EVERY_FORMAT)
    return digests(out)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("kind", ["db3", "bag"])
def test_the_dataset_is_that_of_the_mcap(
    kind: str, files: dict[str, Path], from_mcap: dict[str, str], tmp_path: Path
) -> None:
    # ROS 1 has all of these messages but the sequence numbers in headers, which ROS 2 has not.
    done = convert([files[kind]], tmp_path, EVERY_FORMAT)
    assert digests(tmp_path) == from_mcap != {}
    totals = done.report["totals"]
    assert totals["received"] == sum(count for name, count in totals.items() if name != "received")


@pytest.mark.parametrize("kind", ["db3", "bag"])
def test_messages_are_those_that_were_recorded(
    kind: str, files: dict[str, Path], content: Sequence[RawMessage]
) -> None:
    recording = open_recording(files[kind])
    found = list(recording.messages(3))
    assert sorted(m[:5] for m in found) == sorted(m[:5] for m in content)
    assert (
        [m.arrival for m in found] == list(range(3, 3 + len(content))) == [*range(3, recording.next_arrival)]
    )
    assert recording.spans == [(content[0].receive_ns, content[-1].receive_ns)]
    assert set(recording.topics()) == {(m.topic, m.schema) for m in content}
    first_ns = content[0].receive_ns + 1_000_000_000
    window = TimeWindow(first_ns, first_ns + 500_000_000)
    inside = list(recording.messages(0, window))
    assert len(inside) == sum(window.has(m.receive_ns) for m in content)
    assert recording.outside.total() == len(content) - len(inside)
    early = list(recording.latched({"/tf_static"}, first_ns))
    assert len(early) == sum(m.topic == "/tf_static" and m.receive_ns < first_ns for m in content)


def same(found: Iterable[RawMessage], content: Sequence[RawMessage]) -> bool:
    return sorted(m[:5] for m in found if not m.fault) == sorted(m[:5] for m in content)


def test_what_rosbag2_compresses_is_read_file_by_file_or_message_by_message(
    files: dict[str, Path], content: Sequence[RawMessage], tmp_path: Path
) -> None:
    for kind in ("mcap", "db3"):
        packed = tmp_path / f"{files[kind].name}.zstd"
        packed.write_bytes(zstandard.compress(files[kind].read_bytes()))
        recording = open_recording(packed)
        assert same(recording.messages(), content)
        assert recording.sequence_name == NAME
    packed.write_bytes(packed.read_bytes()[:-1000])
    with pytest.raises(RecordingError, match=re.escape(f"{packed}: cannot be read")):
        open_recording(packed)
    each = [m._replace(data=zstandard.compress(m.data)) for m in content]
    bag = write_db3(tmp_path / "db3", content)
    with closing(sqlite3.connect(bag)) as database, database:
        rows = database.execute("SELECT id, data FROM messages").fetchall()
        database.executemany(
            "UPDATE messages SET data = ? WHERE id = ?", [(zstandard.compress(d), i) for i, d in rows]
        )
    for path in (recorded.record(tmp_path / "a.mcap", each), bag):
        assert same(open_recording(path).messages(), content)
    damaged = recorded.record(tmp_path / "b.mcap", [each[0]._replace(data=each[0].data[:4] + b"\xff" * 20)])
    (found,) = open_recording(damaged).messages()
    assert found.fault.startswith("its compressed data are damaged")
    huge = recorded.record(tmp_path / "c.mcap", [each[0]._replace(data=zstandard.compress(bytes(64 << 20)))])
    (found,) = open_recording(huge).messages()
    assert (found.data, found.fault) == (b"", IMPLAUSIBLE)


def test_messages_of_ros_1_in_mcap_are_read_and_other_encodings_are_named(
    content: Sequence[RawMessage], tmp_path: Path
) -> None:
    store, few = typestore(content), content[:40]
    old = [m._replace(data=bytes(store.cdr_to_ros1(m.data, m.schema))) for m in few]
    texts = {m.schema: store.generate_msgdef(m.schema, ros_version=1)[0] for m in few}
    old = [m._replace(definition=texts[m.schema]) for m in old]
    path = recorded.record(tmp_path / "a.mcap", old, encoding="ros1")
    assert same(open_recording(path).messages(), few)
    path = recorded.record(tmp_path / "b.mcap", few, encoding="protobuf")
    assert {m.fault for m in open_recording(path).messages()} == {
        "it is in protobuf, which is not read: record it from ROS 2, as CDR"
    }


def test_types_have_had_other_names() -> None:
    """As bags of 2010 call them."""
    header = "uint32 seq\ntime stamp\nstring frame_id\n"
    text = f"roslib/Header header\n================\nMSG: roslib/Header\n{header}"
    stamped = struct.pack("<IIII", 7, 1, 2, 1) + b"a"
    data, definition, fault = Ros1Types().as_cdr("a_msgs/Stamped", text, stamped)
    assert not fault
    assert "std_msgs/Header" in definition
    assert data == b"\0\1\0\0" + struct.pack("<III", 1, 2, 2) + b"a\0"


def test_types_unknown_to_us_decode_by_the_definitions_of_the_bag(files: dict[str, Path]) -> None:
    found = next(m for m in open_recording(files["bag"]).messages() if m.topic == "/model/output")
    assert "edgefirst_msgs/Box" in found.definition
    assert decode(found).datum


def test_a_message_that_cannot_be_converted_is_refused_alone(
    tmp_path: Path, content: Sequence[RawMessage]
) -> None:
    message = next(m for m in content if m.topic == "/imu")
    path = tmp_path / "a.bag"
    store = typestore(content)
    with rosbag1.Writer(path) as writer:
        connection = writer.add_connection(message.topic, message.schema, typestore=store)
        writer.write(connection, 1, b"short")
        writer.write(connection, 2, store.cdr_to_ros1(message.data, message.schema))
    found = list(Ros1Recording(path).messages())
    assert [bool(m.fault) for m in found] == [True, False]
    assert found[0].fault.startswith("cannot be converted from ROS 1: ")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.db3", b"", "a.db3: is empty, and no bag"),
        ("a.db3", b"SQLite format 3\0" + bytes(5000), "a.db3: cannot be read: "),
        ("a.db3", b"no database" * 100, "a.db3: cannot be read: .*not a database"),
        ("a.bag", b"no bag" * 100, "a.bag: begins with b'no bagno bagn', not with b'#ROSBAG V2.0"),
        ("a.bag", b"#ROSBAG V1.2\n" + bytes(100), "a.bag: begins with .*V1.2.*; is it a bag of ROS 1?"),
    ],
)
def test_what_is_no_bag_is_said(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(RecordingError, match=said):
        open_recording(path)


def test_a_bag_that_was_cut_is_refused_with_what_mends_it(files: dict[str, Path], tmp_path: Path) -> None:
    """A recorder that is killed leaves no index."""
    data = files["bag"].read_bytes()
    at = data.index(b"index_pos=") + len(b"index_pos=")
    path = tmp_path / "cut.bag"
    path.write_bytes(data[:at] + struct.pack("<Q", 0) + data[at + 8 : len(data) // 2])
    with pytest.raises(RecordingError, match=r"cut\.bag: .*`rosbag reindex` may mend it"):
        open_recording(path)


def damaged(file: Path, folder: Path) -> Path:
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 40_000] = b"\xff" * 40_000
    path = folder / f"damaged{file.suffix}"
    path.write_bytes(data)
    return path


def test_damage_in_a_bag_ends_what_is_read_of_it_and_is_a_fault(
    tmp_path: Path, content: Sequence[RawMessage]
) -> None:
    """ROS 1 has no checksums: where the framing of records breaks, nothing behind it can be trusted."""
    path = write_bag(tmp_path / "a.bag", content[:100])
    data = bytearray(path.read_bytes())
    at = data.index(b"time=", data.index(content[50].data[-40:])) - 20
    data[at : at + 40] = b"\xff" * 40
    path.write_bytes(data)
    recording = open_recording(path)
    found = list(recording.messages())
    assert 0 < len(found) < 100
    assert [m[:5] for m in found] == [m[:5] for m in sorted(content[:100], key=lambda m: m.receive_ns)][
        : len(found)
    ]
    assert [fault.text.startswith("damaged: ") for fault in recording.faults] == [True]
    assert 0 < recording.faults[0].bytes <= recording.size


def test_a_damaged_database_says_how_to_save_it(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"damaged.db3: .* malformed; sqlite3 FILE .recover saves"):
        open_recording(damaged(files["db3"], tmp_path))


def test_a_bag_in_a_bucket_is_copied_first(
    s3: S3Server, bucket: str, files: dict[str, Path], content: Sequence[RawMessage]
) -> None:
    obstore = pytest.importorskip("obstore")
    obstore.put(obstore.store.from_url(bucket), f"{NAME}.db3", files["db3"])
    recording = open_recording(location_of(f"{bucket}/{NAME}.db3"))
    assert len(list(recording.messages())) == len(content)
    assert (recording.host, recording.size) == ("maivin-sim", files["db3"].stat().st_size)
