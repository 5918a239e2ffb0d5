"""ROS 1 bags and rosbag2 databases assembled by hand, so that every part can say what no recorder would."""

from __future__ import annotations

import bz2
import sqlite3
import struct
from collections.abc import Iterable
from pathlib import Path

import lz4.frame

MAGIC = b"#ROSBAG V2.0\n"
NOW_NS = 1_773_483_630_000_000_000
HEADER = "=" * 80 + "\nMSG: std_msgs/Header\nuint32 seq\ntime stamp\nstring frame_id\n"
ROSBAG2 = """\
CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);
CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
  serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL, type_description_hash TEXT);
CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL, encoding TEXT NOT NULL,
  encoded_message_definition TEXT NOT NULL, type_description_hash TEXT NOT NULL);
CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL,
  data BLOB NOT NULL);
CREATE INDEX timestamp_idx ON messages (timestamp ASC);
INSERT INTO schema VALUES (4, 'jazzy');
INSERT INTO topics VALUES (1, '/imu', 'sensor_msgs/msg/Imu', 'cdr', '', '');
"""


def time(ns: int) -> bytes:
    return struct.pack("<II", *divmod(ns, 1_000_000_000))


def fields(values: dict[str, bytes]) -> bytes:
    parts = [name.encode() + b"=" + value for name, value in values.items()]
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)


def record(values: dict[str, bytes], data: bytes = b"", size: int | None = None) -> bytes:
    head = fields(values)
    length = len(data) if size is None else size
    return struct.pack("<I", len(head)) + head + struct.pack("<I", length) + data


def connection(number: int, topic: str, schema: str, text: str | bytes = "float64 x\n") -> bytes:
    body = text if isinstance(text, bytes) else text.encode()
    said = {"topic": topic.encode(), "type": schema.encode(), "md5sum": b"*", "message_definition": body}
    head = {"op": b"\7", "conn": struct.pack("<I", number), "topic": topic.encode()}
    return record(head, fields(said))


def message(of: int, data: bytes, ns: int = NOW_NS) -> bytes:
    return record({"op": b"\2", "conn": struct.pack("<I", of), "time": time(ns)}, data)


def chunk(*records: bytes, compression: str = "none", size: int | None = None) -> bytes:
    plain = b"".join(records)
    packed = {"none": bytes, "bz2": bz2.compress, "lz4": lz4.frame.compress}[compression](plain)
    length = struct.pack("<I", len(plain) if size is None else size)
    return record({"op": b"\5", "compression": compression.encode(), "size": length}, packed)


def chunk_info(at: int, count: int = 1, pairs: bytes = struct.pack("<II", 0, 1), ns: int = NOW_NS) -> bytes:
    return record(
        {
            "op": b"\6",
            "ver": struct.pack("<I", 1),
            "chunk_pos": struct.pack("<Q", at),
            "start_time": time(ns),
            "end_time": time(ns),
            "count": struct.pack("<I", count),
        },
        pairs,
    )


def bag(*chunks: bytes, summary: bytes = b"", counts: tuple[int, int] = (1, 1)) -> bytes:
    """A whole bag; without a summary it has no index, as a recorder that was killed leaves it."""
    body = b"".join(chunks)

    def head(index: int) -> bytes:
        conns, infos = (struct.pack("<I", count) for count in counts)
        values = {
            "op": b"\3",
            "index_pos": struct.pack("<Q", index),
            "conn_count": conns,
            "chunk_count": infos,
        }
        return MAGIC + record(values, b" " * 64)

    return head(len(head(0)) + len(body) if summary else 0) + body + summary


FIRST_CHUNK = len(bag())
"""Offset of the first chunk."""


def database(path: Path, more: str = "", rows: Iterable[tuple[object, ...]] = ()) -> Path:
    """A rosbag2 database with a topic, its messages (topic, time, data), and what else SQL makes of it."""
    path.unlink(missing_ok=True)
    opened = sqlite3.connect(path)
    # What SQL makes in thousands of steps need not be on the disk after each.
    opened.executescript(f"PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY; {ROSBAG2}")
    opened.executemany("INSERT INTO messages(topic_id, timestamp, data) VALUES (?, ?, ?)", rows)
    opened.commit()
    opened.executescript(more)
    opened.close()
    return path
