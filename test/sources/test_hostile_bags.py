"""Bags of strangers: nothing of them is run, and what they declare costs no more than what they hold."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import recorded
from bagbytes import FIRST_CHUNK, NOW_NS, bag, chunk, chunk_info, connection, database, message, record
from rosbags_made import write_bag, write_db3
from test_hostile_files import MOST_MB, peak_mb
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.sources import records
from edgefirst_ros.sources import ros1bag as ros1records
from edgefirst_ros.sources.kinds import SUFFIXES, open_recording
from edgefirst_ros.sources.records import IMPLAUSIBLE, TOO_MANY_RECORDS, TOO_MUCH_TEXT

IMU = "sensor_msgs/Imu"
ROWS = [(1, NOW_NS + n, b"\0\1\0\0" + bytes(60)) for n in range(50)]


def saved(path: Path, content: bytes) -> Any:  # noqa: ANN401
    path.write_bytes(content)
    return open_recording(path)


def faults(recording: Any) -> list[str]:  # noqa: ANN401
    """Why messages and parts of a recording are refused."""
    return [message.fault for message in recording.messages()] + [fault.text for fault in recording.faults]


def types(count: int, line: Callable[[int], str]) -> str:
    return "".join(f"===\nMSG: sensor_msgs/T{n}\n{line(n)}\n" for n in range(count))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("string[3000000] x\n", "it ends too soon"),
        ("T0[4000000000] x\n===\nMSG: sensor_msgs/T0\nuint8 x\n", "it ends too soon"),
        ("T0[] x\n===\nMSG: sensor_msgs/T0\n", "is an array of nothing"),
        ("T0 x\n" + types(5_000, lambda n: f"T{n + 1} x"), "types nested without end"),
        (
            "T0 a\nT0 b\n"
            + types(30, lambda n: f"T{n + 1} a\nT{n + 1} b")
            + types(31, lambda _: "uint8[0] x"),
            "",
        ),
        ("uint8 a\nuint16 b\n" * 20_000, "definition is missing, or too long"),
        ("uint8 a\nuint16 b\n" * 8_000, "more than 10,000 fields"),
        ("Imu again\n", "types nested without end"),
        ("x/Missing a\n", "its definition lacks x/Missing"),
        ("", "definition is missing, or too long"),
        ("wstring a\n", "its definition lacks wstring"),
        ("float64 x')\nimport os\n", "line that is not a field"),
        ("float64 __class__\n", "line that is not a field"),
        ("\x1b[31mfloat64 x\n", "line that is not a field"),
        ("string[999999999999] x\n", "array of no size"),
        (b"\xff\xfe\0float64 x\n", "line that is not a field"),
    ],
)
def test_a_definition_that_no_message_has_costs_its_messages(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    content = [connection(0, "/imu", IMU, text), connection(1, "/ok", IMU), message(0, bytes(8))]
    recording = saved(tmp_path / "a.bag", bag(chunk(*content, message(1, bytes(8)))))
    found = list(recording.messages())
    assert [each.topic for each in found] == ["/imu", "/ok"]
    assert said in found[0].fault
    assert found[0].fault
    assert found[0].fault.isprintable()
    assert not found[1].fault


def test_no_text_of_a_bag_is_run_nor_the_library_that_would(tmp_path: Path) -> None:
    """Constants and defaults may hold what they like."""
    text = "string X='''\"\"\"\n__import__('os')._exit(7)\nint64 Y=" + "9" * 100_000 + "\nfloat64 x\n"
    path = tmp_path / "a.bag"
    path.write_bytes(bag(chunk(connection(0, "/imu", IMU, text), message(0, bytes(8)))))
    program = (
        "import sys; from pathlib import Path; from edgefirst_ros.sources.kinds import open_recording\n"
        "found = list(open_recording(Path(sys.argv[1])).messages())\n"
        "print(len(found), 'rosbags' in sys.modules, 'apsw' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False", "False"]


@cache
def bomb(compression: str, mib: int) -> bytes:
    """A chunk with a message of so many MiB of zeros."""
    head = {"op": b"\2", "conn": struct.pack("<I", 0), "time": struct.pack("<II", 1, 0)}
    start = record(head, b"", size=mib << 20)
    return chunk(connection(0, "/imu", IMU, "uint8[] x\n"), start, bytes(mib << 20), compression=compression)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(("compression", "command"), [("bz2", "info"), ("lz4", "convert")])
def test_a_chunk_that_would_unpack_to_much_is_not_read(
    tmp_path: Path, compression: str, command: str
) -> None:
    path, size = tmp_path / "a.bag", 700
    path.write_bytes(
        bag(*[bomb(compression, size)] * 2, chunk(connection(1, "/ok", IMU), message(1, bytes(8))))
    )
    more = ["-o", str(tmp_path / "out")] if command == "convert" else []
    code, mb, shown = peak_mb(command, str(path), *more)
    assert (code in {0, 2}, mb < MOST_MB) == (True, True), shown
    texts = faults(open_recording(path))
    assert [text for text in texts if text][:2] != []
    assert not any(len(each.data) > size for each in open_recording(path).messages())


def test_chunks_that_are_refused_are_not_decompressed_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was decompressed in vain is taken from what a file may hold."""
    plain = 0
    decompress = records._decompress

    def counted(*given: Any) -> bytes | None:  # noqa: ANN401
        nonlocal plain
        found = decompress(*given)
        plain += len(found or b"")
        return found

    monkeypatch.setattr(records, "_decompress", counted)
    content = bag(*[bomb("bz2", 64)] * 40)
    assert set(faults(saved(tmp_path / "a.bag", content))) == {IMPLAUSIBLE}
    assert plain < 3 * (records.FREE_BYTES + records.MAX_RATIO * len(content))


def test_messages_that_compress_to_nothing_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "FREE_RECORDS", 1_000)
    small = [message(0, bytes(8), NOW_NS + n) for n in range(900)]
    content = [chunk(connection(0, "/imu", IMU), *small, compression="bz2")]
    content += [chunk(*small[:1] * 50_000, compression="bz2")]
    assert set(faults(saved(tmp_path / "a.bag", bag(*content)))) == {"", TOO_MANY_RECORDS}


@pytest.mark.parametrize(
    "content",
    [
        bag(chunk(message(0, b""), size=2**32 - 1, compression="lz4")),
        bag(chunk(message(0, b"")), summary=connection(0, "/a", IMU) + chunk_info(FIRST_CHUNK, 2**32 - 1)),
        bag(
            chunk(message(0, b"")), summary=b"".join(chunk_info(at) for at in (0, 5, 2**62, 2**63, 2**64 - 1))
        ),
        bag(
            chunk(message(0, b"")), summary=chunk_info(FIRST_CHUNK, 1, b"\xff" * 80), counts=(2**32 - 1,) * 2
        ),
        bag(record({"op": b"\5", "compression": b"\x1b[31m"}, b"x", size=2**32 - 1)),
        bag(record({"op": b"\4"}, b"", size=2**32 - 1)),
        bag()[:13] + struct.pack("<I", 2**32 - 1) + bytes(100),
        bag()[:13],
        bag(record({}, b"")),
        bag(record({"op": b"\2\2\2"}, b"")),
        bag(chunk(record({"op": b"\7", "conn": b"1", "topic": b"\xff"}, b"\0"), record({"op": b"\7"}))),
    ],
)
def test_numbers_that_lie_are_damage(tmp_path: Path, content: bytes) -> None:
    recording = saved(tmp_path / "a.bag", content)
    assert not recording.topics() or recording.spans
    assert all(text.isprintable() for text in faults(recording))


def test_many_connections_and_long_texts_are_bounded_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ros1records, "MAX_CHANNELS", 50)
    monkeypatch.setattr(records, "MAX_DEFINITION_BYTES", 2_000)
    content = [connection(n, f"/t/{n}", f"x/T{n}", "uint8 a\n" * (1 + n % 10)) for n in range(200)]
    recording = saved(tmp_path / "a.bag", bag(chunk(*content, *(message(n, b"1") for n in range(200)))))
    found = list(recording.messages())
    assert len(found) == len(recording.topics()) == 50
    texts = {fault.text for fault in recording.faults}
    assert TOO_MUCH_TEXT in texts
    assert any(text.startswith("there are more than") for text in texts)


@pytest.mark.parametrize("numbers", [lambda n: n, lambda _: 0], ids=["of many", "of one"])
@pytest.mark.parametrize("at_end", [False, True])
def test_connections_without_end_are_no_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbers: Callable[[int], int], at_end: bool
) -> None:
    monkeypatch.setattr(records, "MAX_DECLARED", 50)
    many = [connection(numbers(n), f"/t/{n}", IMU) for n in range(200)]
    few = chunk(connection(0, "/imu", IMU), message(0, bytes(8)))
    content = bag(few, summary=b"".join(many)) if at_end else bag(few, chunk(*many))
    with pytest.raises(RecordingError, match=r"a\.bag: .*declared anew more than"):
        list(saved(tmp_path / "a.bag", content).messages())


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
