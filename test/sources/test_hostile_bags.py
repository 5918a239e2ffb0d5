"""Bags of strangers: nothing of them is run, and what they declare costs no more than what they hold."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import recorded
from bagbytes import FIRST_CHUNK, NOW_NS, bag, chunk, chunk_info, connection, database, message, record
from rosbags_made import rosbag1, write_bag, write_db3
from test_hostile_files import MOST_MB, peak_mb
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.sources.recording import SUFFIXES, open_recording
from edgefirst_ros.sources.ros1bag import Ros1Type

IMU = "sensor_msgs/msg/Imu"
ROWS = [(1, NOW_NS + n, b"\0\1\0\0" + bytes(60)) for n in range(50)]


def types(count: int, line: Callable[[int], str]) -> str:
    return "".join(f"===\nMSG: sensor_msgs/T{n}\n{line(n)}\n" for n in range(count))


def written(path: Path, text: str, *data: bytes, compression: str = "") -> Path:
    """A bag of one topic, with its index, in one chunk."""
    writer = rosbag1.Writer(path)
    if compression:
        writer.set_compression(rosbag1.Writer.CompressionFormat[compression.upper()])
    with writer:
        connection = writer.add_connection("/imu", IMU, msgdef=text, md5sum="0" * 32)
        for number, each in enumerate(data):
            writer.write(connection, NOW_NS + number, each)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("string[3000000] x\n", "more than 10,000 fields"),
        ("T0[4000000000] x\n===\nMSG: sensor_msgs/T0\nuint8 x\n", "more than 10,000 fields"),
        ("T0[] x\n===\nMSG: sensor_msgs/T0\n", "is an array of nothing"),
        ("T0 x\n" + types(5_000, lambda n: f"T{n + 1} x"), "types nested without end"),
        ("T0 a\nT0 b\n" + types(30, lambda n: f"T{n + 1} a\nT{n + 1} b"), "types nested|lacks|more than"),
        ("uint8 a\nuint16 b\n" * 20_000, "too long"),
        ("uint8 a\nuint16 b\n" * 8_000, "more than 10,000 fields"),
        ("Imu again\n", "types nested without end"),
        ("x/Missing a\n", "its definition lacks x/Missing"),
        ("wstring a\n", "its definition lacks"),
        ("float64 x')\nimport os\n", "line that is not a field"),
        ("float64 __class__\n", "line that is not a field"),
        ("\x1b[31mfloat64 x\n", "line that is not a field"),
        ("string[999999999999] x\n", "array of no size"),
    ],
)
def test_a_definition_that_no_message_has_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Ros1Type("sensor_msgs/Imu", text)


def test_it_costs_its_own_messages_only(tmp_path: Path) -> None:
    with rosbag1.Writer(tmp_path / "a.bag") as writer:
        for topic, kind, text in (
            ("/imu", IMU, "x/Missing a\n"),
            ("/ok", "sensor_msgs/msg/X", "float64 x\n"),
        ):
            writer.write(writer.add_connection(topic, kind, msgdef=text, md5sum="0" * 32), NOW_NS, bytes(8))
    found = {m.topic: m.fault for m in open_recording(tmp_path / "a.bag").messages()}
    assert found["/imu"].startswith("cannot be converted from ROS 1: ")
    assert found["/ok"] == ""


@pytest.mark.parametrize("end", ["", "\n__import__('os')._exit(7)"])
def test_no_text_of_a_bag_is_run(tmp_path: Path, end: str) -> None:
    """Constants and defaults may hold what they like."""
    text = (
        "string X='''\"\"\"); __import__('os')._exit(7)"
        + end
        + "\nint64 Y="
        + "9" * 100_000
        + "\nfloat64 x\n"
    )
    (found,) = open_recording(written(tmp_path / "a.bag", text, bytes(8))).messages()
    assert found.definition == ("" if end else "float64 x\n")
    assert bool(found.fault) == bool(end)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(("compression", "command"), [("bz2", "info"), ("lz4", "convert")])
def test_a_chunk_that_would_unpack_to_much_is_not_read(
    tmp_path: Path, compression: str, command: str
) -> None:
    path = written(tmp_path / "a.bag", "uint8[] x\n", bytes(700 << 20), compression=compression)
    more = ["-o", str(tmp_path / "out")] if command == "convert" else []
    code, mb, shown = peak_mb(command, str(path), *more)
    assert (code in {0, 2}, mb < MOST_MB) == (True, True), shown
    recording = open_recording(path)
    assert list(recording.messages()) == []
    assert "unpacks to more" in recording.faults[0].text


@pytest.mark.parametrize(
    "content",
    [
        bag(chunk(message(0, b""), size=2**32 - 1, compression="lz4")),
        bag(chunk(message(0, b"")), summary=connection(0, "/a", IMU) + chunk_info(FIRST_CHUNK, 2**32 - 1)),
        bag(chunk(message(0, b"")), summary=chunk_info(2**62) + chunk_info(2**64 - 1)),
        bag(chunk(message(0, b"")), summary=chunk_info(FIRST_CHUNK), counts=(2**32 - 1,) * 2),
        bag(record({"op": b"\5", "compression": b"\x1b[31m"}, b"x", size=2**32 - 1)),
        bag()[:13] + struct.pack("<I", 2**32 - 1) + bytes(100),
        bag()[:13],
        bag(record({}, b"")),
    ],
)
def test_numbers_that_lie_are_damage(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.bag").write_bytes(content)
    with pytest.raises(RecordingError, match=r"a\.bag: .*`rosbag reindex` may mend it") as refused:
        open_recording(tmp_path / "a.bag")
    assert str(refused.value).isprintable()


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id, "


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            f"DROP TABLE messages; CREATE VIEW messages AS {ENDLESS} 1 AS topic_id, 1 AS timestamp FROM c",
            "holds the view messages; rosbag2 writes plain tables only",
        ),
        (
            f"DROP TABLE topics; CREATE VIEW topics AS {ENDLESS} 'a' AS name, 'b' AS type FROM c",
            "the view topics",
        ),
        (f"CREATE VIEW other AS {ENDLESS} 1 FROM c", "holds the view other"),
        ("CREATE TRIGGER t AFTER INSERT ON messages BEGIN SELECT 1; END", "holds the trigger t"),
        ("CREATE VIRTUAL TABLE other USING fts5(a)", "holds the table other"),
        (
            "DROP TABLE messages; CREATE TABLE messages(topic_id, timestamp, data AS (zeroblob(1000000000)))",
            "its table messages should have the columns data, timestamp, topic_id",
        ),
        (
            "DROP TABLE messages; CREATE TABLE messages(rowid TEXT, topic_id, timestamp, data)",
            "its table messages should have the columns",
        ),
        (
            "DROP TABLE messages; CREATE TABLE messages(topic_id PRIMARY KEY, timestamp, data) WITHOUT ROWID",
            "no such column: rowid",
        ),
        ("DROP TABLE topics", "its table topics should have the columns id, name, type"),
        (
            f"BEGIN; {';'.join(f'CREATE TABLE t{n}(a)' for n in range(4_000))}; COMMIT",
            "cannot be read: interrupted",
        ),
        (f"CREATE TABLE t({','.join(f'c{n}' for n in range(500))})", "cannot be read: .*too many columns"),
    ],
)
def test_a_database_that_is_a_program_is_refused(tmp_path: Path, sql: str, said: str) -> None:
    path = database(tmp_path / "a.db3", sql, ROWS)
    with pytest.raises(RecordingError, match=f"a.db3: .*{said}"):
        open_recording(path)


def test_rows_of_other_kinds_are_refused_alone(tmp_path: Path) -> None:
    odd = [
        (1, "2026-03-14", b"1"),
        (1, -5, b"1"),
        (1, 2**63 - 1, b"1"),
        (1, 1.5, b"1"),
        (1, NOW_NS, "text"),
        (1, NOW_NS, 7),
    ]
    rows = [*ROWS, *odd, ("x", NOW_NS, b"1"), (9, NOW_NS, b"1")]
    recording = open_recording(database(tmp_path / "a.db3", "", rows))
    found = list(recording.messages())
    assert sum(not each.fault for each in found) == len(ROWS)
    assert sum(each.fault == "its time stamp is not one of the years 1970 to 2116" for each in found) == 4
    assert sum(each.fault == "its data are not bytes" for each in found) == 2
    assert {fault.text for fault in recording.faults} == {"a message of an unknown topic"}


def test_a_tree_of_pages_that_goes_in_circles_ends(tmp_path: Path) -> None:
    """An inner page whose cells all lead to one leaf would yield its rows again and again."""
    path = database(tmp_path / "a.db3", "", [(1, NOW_NS + n, bytes(300)) for n in range(2_000)])
    data = bytearray(path.read_bytes())
    size = struct.unpack_from(">H", data, 16)[0]
    (root,) = [at for at in range(size, len(data), size) if data[at] == 5]
    for cell in range(struct.unpack_from(">H", data, root + 3)[0]):
        place = root + struct.unpack_from(">H", data, root + 12 + 2 * cell)[0]
        first = data[root + struct.unpack_from(">H", data, root + 12)[0] :][:4]
        data[place : place + 4] = first
    path.write_bytes(data)
    with pytest.raises(RecordingError, match="its messages go in circles"):
        open_recording(path)


def test_a_blob_that_is_no_message_costs_no_memory(tmp_path: Path) -> None:
    large = "INSERT INTO messages(topic_id, timestamp, data) VALUES (1, 5, zeroblob(300000000))"
    path = database(tmp_path / "a.db3", large, ROWS)
    code, mb, shown = peak_mb("info", str(path))
    assert (code, mb < MOST_MB) == (0, True), shown
    assert "too big" in next(open_recording(path).messages()).fault


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _denied(path: Path) -> None:
    path.write_bytes(b"x")
    path.chmod(0)


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "fifo": (os.mkfifo, "is a FIFO, not a regular file"),
    "device": (_device, "is a device, not a regular file"),
    "empty": (Path.touch, "empty"),
    "other": (lambda path: path.write_bytes(b"\x1b[31mno recording" * 20), ""),
    "denied": (_denied, "Permission denied"),
    "missing": (lambda _: None, "no such recording"),
    "dangling": (lambda path: path.symlink_to("nowhere"), "no such recording"),
    "folder": (Path.mkdir, "holds n"),
}
COMMANDS = (
    ("info",),
    ("convert", "-o", "OUT"),
    ("convert", "-o", "OUT", "--dry-run"),
    ("report", "-o", "OUT.html"),
    ("play", "--zenoh-listen", "tcp/127.0.0.1:0"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_ordinary_file_is_refused_by_every_command(
    tmp_path: Path, kind: str, command: tuple[str, ...]
) -> None:
    make, said = KINDS[kind]
    if kind == "denied" and os.geteuid() == 0:
        pytest.skip("root may read everything")
    for suffix in SUFFIXES:
        path = tmp_path / f"a{suffix}"
        make(path)
        words = [word.replace("OUT", str(tmp_path / "out")) for word in command]
        done = CliRunner().invoke(app, [words[0], str(path), *words[1:]], catch_exceptions=False)
        assert done.exit_code == 2, done.output
        assert said in done.output.replace("\n", " ")
        assert "\x1b" not in done.output


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Small drives, as a bag and as a database."""
    folder = tmp_path_factory.mktemp("sound")
    small = [each for each in recorded.messages(seconds=1) if len(each.data) < 4_000]
    files = write_bag(folder / "a.bag", small), write_db3(folder / "b", small)
    return {path.suffix: path.read_bytes() for path in files}


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The same bytes with damage, most of it small."""
    changed = bytearray(data)
    # Text, counts and offsets are at the ends of a bag, and at the beginning of a database.
    places = (len(data), 4_000, 40_000)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(min(len(data), rng.choice(places)))
        if rng.random() < 0.4:
            at = len(changed) - 1 - min(at, len(changed) - 1)
        what = rng.randrange(5)
        if what == 0:
            changed[at] = rng.randrange(256)
        elif what == 1:
            changed[at : at + 4] = struct.pack("<I", rng.choice((0, 1, 255, 65_536, 2**31 - 1, 2**32 - 1)))
        elif what == 2:
            changed[at : at + 6] = b"\x1b[31m\x07"
        elif what == 3:
            del changed[at : at + rng.choice((1, 4, 500))]
        else:
            changed[at : at + 40] = rng.randbytes(40)
    return bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.1 else changed)


@pytest.mark.long(cases=6)
@pytest.mark.parametrize("suffix", [".bag", ".db3"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("MUTATIONS", "12"))))
def test_damage_is_never_more_than_words_and_an_exit_code(
    tmp_path: Path, sound: dict[str, bytes], suffix: str, seed: int
) -> None:
    rng = random.Random(f"{suffix} {seed}")
    path = tmp_path / f"a{suffix}"
    path.write_bytes(mutated(rng, sound[suffix]))
    for words in (["info"], ["convert", "-o", str(tmp_path / "out")]):
        done = CliRunner().invoke(app, [*words, str(path)], catch_exceptions=False)
        assert done.exit_code in {0, 1, 2}, done.output
        unprintable = [c for c in done.output if not c.isprintable() and c != "\n"]
        assert not unprintable, done.output
