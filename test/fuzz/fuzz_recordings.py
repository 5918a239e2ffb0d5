"""Whole recordings: sound drives with hostile messages in them, through the pipeline and all formats."""

from __future__ import annotations

import random
import struct
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

from drives import simulated
from faulty import FaultyOptions
from fuzzing import Target, UnexpectedError, mutate_bytes
from hostile_fields import field_change
from mcap.writer import CompressionType, Writer
from PIL import Image
from wire_encoder import encode

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound, RecordingError
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.ledger import COLUMNS, MAX_REASONS
from edgefirst_ros.sources.mcap import McapRecording

SMALL: dict[str, Any] = {
    "seconds": 1.6,
    "fps": 8,
    "width": 160,
    "height": 96,
    "lidar_points": 80,
    "cube_shape": (1, 8, 2, 8),
    "imu_hz": 40.0,
    "model_hz": 8.0,
    "gps_no_fix": 1,
}
DRIVES: tuple[dict[str, Any], ...] = (
    {"boxes3d": True, "masks": True, "mask_size": (16, 9)},
    {"boxes3d": True, "clock": "realtime", "codec": "h265", "lidar_organised": True, "lidar_missing": "zero"},
    {"jpeg": True, "masks": True, "mask_size": (16, 9), "lidar_missing": "nan", "prefix": "maivin-7"},
    {"tiles": True, "width": 288, "height": 96, "traffic": "crossing"},
)
FORMATS = ["edgefirst", "ncore", "l5kit"]
ODOMETRY: dict[str, Any] = {"topics": {"odometry": {"role": "odometry", "topic": "odom"}}}
CONFIGS: tuple[dict[str, Any], ...] = (
    {},
    {"topics": {name: {"required": "never"} for name in ("radar_targets", "lidar_points", "model")}},
    {
        "edgefirst": {"schema_version": "2026.10", "container": "folder"},
        "l5kit": {"rate_hz": 5},
        "topics": {name: {"required": "never"} for name in ("radar_targets", "lidar_points", "model")},
    },
    {"reference": "lidar_points", "ncore": {"unknown_pose": "cut"}},
    {"ego": {"smoothing": "lag"}, "select": {"every": 2}},
    ODOMETRY,
)
LONGEST_TEXT = 800
_MOTION_TOPICS = ("imu", "gps", "odom", "tf_static")


def corpus() -> list[bytes]:
    return [simulated(FaultyOptions(**{**SMALL, **options})).mcap.read_bytes() for options in DRIVES]


def driven() -> list[bytes]:
    """The same drives, and the first with odometry besides."""
    first, *others = corpus()
    content = []
    for each in messages_of(first):
        content.append(each)
        if each.topic.endswith("/imu"):
            content.append(_odometry(each, len(content)))
    return [first, recording_of(content, CONFIGS.index(ODOMETRY)), *others]


def _odometry(imu: RawMessage, number: int) -> RawMessage:
    """Straight ahead, at the time of an IMU message, by the same clock."""
    seconds, rest = struct.unpack_from("<iI", imu.data, 4)
    pose = {"position": {"x": 0.05 * number}, "orientation": {"w": 1}}
    values = {
        "header": {"stamp": {"sec": seconds, "nanosec": rest}, "frame_id": "odom"},
        "child_frame_id": "base_link",
        "pose": {"pose": pose, "covariance": [0.01] * 36},
        "twist": {"twist": {"linear": {"x": 4.0}}},
    }
    schema = "nav_msgs/Odometry"
    return imu._replace(
        topic=imu.topic.removesuffix("/imu") + "/odom",
        schema="nav_msgs/msg/Odometry",
        definition=definition(schema),
        data=encode(schema, values),
    )


def mutate_values(rng: random.Random, data: bytes) -> bytes:
    """Change values and stamps of what says how the rig moves, and nothing else."""
    content = messages_of(data)
    topics = sorted({m.topic for m in content if m.topic.rpartition("/")[2] in _MOTION_TOPICS})
    for _ in range(rng.choice((1, 1, 2, 3))):
        content = _changed(rng, content, rng.choice(topics), values=True)
    has_odometry = any(topic.endswith("odom") for topic in topics)
    return recording_of(content, CONFIGS.index(ODOMETRY) if has_odometry else rng.randrange(len(CONFIGS)))


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Change some messages of a recording, or none of them alone but all of a topic."""
    content = messages_of(data)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        content = _changed(rng, content, rng.choice(sorted({each.topic for each in content})))
        if not content:
            break
    # Which configuration converts it is in the file, so that the file alone says it all.
    return recording_of(content, rng.randrange(len(CONFIGS)))


def run(data: bytes, folder: Path) -> str:
    path = folder / "host_2026_05_01_09_00_00.mcap"
    path.write_bytes(data)
    values = CONFIGS[_config_number(data)]
    received = Counter(message.topic for message in McapRecording(path).messages())
    try:
        report = convert([path], folder / "out", build_config({"formats": FORMATS, **values})).report
    except (ConfigError, RecordingError):
        return "refused"
    _check_accounts(report, received)
    if list(folder.rglob("*.part")):
        raise UnexpectedError(f"unfinished files: {[p.name for p in folder.rglob('*.part')]}")
    try:
        checked = {each.format: each for each in check(folder / "out")}
    except DatasetNotFound:
        checked = {}
    for each in checked.values():
        for found in each.findings:
            if found.level == "error":
                raise UnexpectedError(f"{each.text}\n{report['warnings']}")
    _open_pictures(folder / "out")
    samples = checked["edgefirst"].counts["samples"] if "edgefirst" in checked else 0
    if report["formats"]["edgefirst"]["samples"] != samples:
        said = report["formats"]["edgefirst"]["samples"]
        raise UnexpectedError(f"the report has {said} samples, the dataset {samples}")
    return "converted" if report["samples"] else "empty"


def _open_pictures(out: Path) -> None:
    """Every picture of an EdgeFirst dataset, as anybody would open it."""
    for archive in out.rglob("*.zip"):
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                _open_picture(name, opened.read(name))
    for path in [path for path in out.glob("edgefirst/*/*/**/*") if path.is_file()]:
        _open_picture(path.name, path.read_bytes())


def _open_picture(name: str, data: bytes) -> None:
    if name.endswith((".jpeg", ".png")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of large pictures
            with Image.open(BytesIO(data)) as picture:
                picture.load()


def _check_accounts(report: dict[str, Any], received: Counter[str]) -> None:
    for topic, account in report["topics"].items():
        if account["received"] != sum(account[column] for column in COLUMNS):
            raise UnexpectedError(f"{topic}: accounts do not add up: {account}")
        if account["received"] != received[topic]:
            raise UnexpectedError(f"{topic}: {account['received']} received of {received[topic]}")
        for stage, reasons in account["reasons"].items():
            if sum(reasons.values()) > account[stage] or len(reasons) > MAX_REASONS + 1:
                raise UnexpectedError(f"{topic}: too many reasons: {account}")
            _check_texts(reasons)
        _check_texts(account["refused_parts"])
    if report["totals"]["received"] != received.total():
        raise UnexpectedError(f"{report['totals']} of {received.total()}")
    _check_texts([*report["notes"], *report["warnings"], *report["hints"]])


def _check_texts(texts: Iterable[str]) -> None:
    for text in texts:
        if not text.isprintable() or len(text) > LONGEST_TEXT:
            raise UnexpectedError(f"unprintable or endless: {text[:LONGEST_TEXT]!r}")


def messages_of(data: bytes) -> list[RawMessage]:
    """All messages of such a file."""
    if data not in _read:
        with _Kept(data) as path:
            _read[data] = list(McapRecording(path).messages())
    return list(_read[data])


_read: dict[bytes, list[RawMessage]] = {}


class _Kept:
    """A file with these bytes, for as long as it is needed."""

    def __init__(self, data: bytes) -> None:
        import tempfile  # noqa: PLC0415

        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "a.mcap"
        self._path.write_bytes(data)

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def recording_of(
    content: Sequence[RawMessage],
    config: int = 0,
    metadata: Mapping[str, dict[str, str]] = MappingProxyType({}),
) -> bytes:
    """An MCAP file of these messages; ``config`` is which configuration is to convert it."""
    file = BytesIO()
    writer = Writer(file, compression=CompressionType.NONE)
    writer.start(profile="", library="fuzz")
    writer.add_metadata("config", {"number": str(config)})
    for name, values in metadata.items():
        writer.add_metadata(name, values)
    schemas: dict[str, int] = {}
    channels: dict[tuple[str, str], int] = {}
    for number, each in enumerate(content):
        if each.schema not in schemas:
            schemas[each.schema] = writer.register_schema(each.schema, "ros2msg", each.definition.encode())
        key = each.topic, each.schema
        if key not in channels:
            channels[key] = writer.register_channel(each.topic, "cdr", schemas[each.schema])
        times = max(0, each.receive_ns), max(0, each.publish_ns)
        writer.add_message(channels[key], times[0], each.data, times[1], number)
    writer.finish()
    return file.getvalue()


def _config_number(data: bytes) -> int:
    place = data.find(b"number\x01\0\0\0")
    digit = data[place + 10 : place + 11] if place >= 0 else b""
    return int(digit) % len(CONFIGS) if digit.isdigit() else 0


def _changed(
    rng: random.Random, content: list[RawMessage], topic: str, *, values: bool = False
) -> list[RawMessage]:
    """Change messages of a topic, or only the values in them."""
    of_it = [n for n, each in enumerate(content) if each.topic == topic]
    # Early messages decide on clocks, sizes and the reference.
    if rng.random() < 0.25:
        chosen = of_it
    elif rng.random() < 0.4:
        chosen = of_it[: rng.choice((1, 2, 5))]
    else:
        chosen = rng.sample(of_it, min(len(of_it), rng.choice((1, 1, 2, 5, 20))))
    kind = rng.random()
    if kind < 0.6 or (values and kind < 0.8):
        change = field_change(rng, content[of_it[0]], "covariance" if values else "\0")
        for n in chosen:
            content[n] = change(content[n])
    elif values:
        _retimed(rng, content, chosen)
    elif kind < 0.7:
        for n in chosen:
            content[n] = content[n]._replace(data=mutate_bytes(rng, content[n].data))
    elif kind < 0.85:
        return _rearranged(rng, content, chosen)
    else:
        _retimed(rng, content, chosen)
    return content


def _rearranged(rng: random.Random, content: list[RawMessage], chosen: Sequence[int]) -> list[RawMessage]:
    """Drop, repeat, rename or shuffle messages."""
    what = rng.randrange(5)
    if what == 0:
        gone = set(chosen)
        return [each for n, each in enumerate(content) if n not in gone]
    if what == 1:
        times = rng.choice((1, 3, 40))
        again = set(chosen)
        return [each for n, each in enumerate(content) for _ in range(1 + times * (n in again))]
    other = rng.choice(content)
    for n in chosen:
        if what == 2:
            content[n] = content[n]._replace(topic=other.topic)
        elif what == 3:
            content[n] = content[n]._replace(schema=other.schema, definition=other.definition)
        else:
            m = rng.randrange(len(content))
            content[n], content[m] = content[m], content[n]
    return content


def _retimed(rng: random.Random, content: list[RawMessage], chosen: Sequence[int]) -> None:
    """Change times of receipt, or the stamps in the messages."""
    by_ns = rng.choice((1, -1)) * rng.choice((10**6, 10**8, 10**9, 10**10, 3_600 * 10**9, 10**18, 1 << 62))
    what = rng.randrange(4)
    for n in chosen:
        each = content[n]
        if what == 0:
            content[n] = each._replace(receive_ns=min(max(0, each.receive_ns + by_ns), (1 << 64) - 1))
        elif what == 1:
            content[n] = each._replace(publish_ns=min(max(0, each.publish_ns + by_ns), (1 << 64) - 1))
        elif len(each.data) >= 12:
            seconds, rest = struct.unpack_from("<iI", each.data, 4)
            if what == 2:
                seconds = max(-(1 << 31), min((1 << 31) - 1, seconds + by_ns // 10**9))
            else:
                seconds, rest = rng.choice(((0, 0), (-(1 << 31), 0), ((1 << 31) - 1, (1 << 32) - 1)))
            content[n] = each._replace(
                data=each.data[:4] + struct.pack("<iI", seconds, rest) + each.data[12:]
            )


RECORDINGS = Target("recordings", corpus, run, mutate, limit_s=60.0, share=6.0)
VALUES = Target("values", driven, run, mutate_values, limit_s=60.0, share=3.0)
