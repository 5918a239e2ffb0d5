"""The account against the files: what it calls written is found in the output, and nothing else is."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulate
from edgefirst.schemas import edgefirst_msgs, geometry_msgs, nav_msgs, sensor_msgs
from faulty import FaultyOptions
from faulty.video import mask
from places import contents
from recorded import record
from valid_messages import URDF
from wire_encoder import encode

from edgefirst_ros.config.model import build_config
from edgefirst_ros.config.topics import COMPANION_ROLES, TYPES
from edgefirst_ros.formats.ncore.prepare import roles as ncore_prepare
from edgefirst_ros.formats.registry import FORMATS as BUILT_IN
from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import RawMessage, Role
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.ledger import COLUMNS
from edgefirst_ros.simulation import wire
from edgefirst_ros.sources.mcap import McapRecording

FORMATS = tuple(BUILT_IN)
SMALL = {"fps": 5, "width": 160, "height": 96, "lidar_points": 64, "radar_hz": 5.0, "lidar_hz": 5.0}
TINY: dict[str, Any] = {**SMALL, "cube_hz": 0.0, "model_hz": 0.0, "imu_hz": 50.0, "clock": "realtime"}
TOPICS = {"odometry": {"role": "odometry", "topic": "odom"}, "model_mask": {"clock": "receive"}}
"""A mask has no stamp; here it is received when its picture was taken."""


def messages(folder: Path, **options: Any) -> list[RawMessage]:  # noqa: ANN401
    made = simulate(folder, FaultyOptions(**{**TINY, "seconds": 1.0, **options}))
    return list(McapRecording(made.mcap).messages())


def converted(
    folder: Path, content: Iterable[RawMessage], formats: Sequence[str] = FORMATS, **values: object
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The report, and every file of the output by its path."""
    folder.mkdir(parents=True)
    recording = record(folder / "maivin-1_2026_05_01_09_00_00.mcap", content)
    report = convert(
        [recording], folder / "out", build_config({"formats": list(formats), **values}), dataset="d"
    ).report
    for topic, account in report["topics"].items():
        assert account["received"] == sum(account[c] for c in COLUMNS), topic
    return report, contents(folder / "out", "capture_report.json")


def pictures_in(files: Mapping[str, bytes]) -> int:
    """Pictures of cameras in the EdgeFirst dataset."""
    with zipfile.ZipFile(io.BytesIO(files["edgefirst/d/d.zip"])) as opened:
        return sum(name.endswith(".camera.jpeg") for name in opened.namelist())


@pytest.mark.parametrize("without_fix", [(5, 0), (0, 5)])
def test_what_a_receiver_sends_before_its_first_fix_is_skipped_in_every_drive(
    tmp_path: Path, without_fix: tuple[int, int]
) -> None:
    recordings = []
    for number, count in enumerate(without_fix):
        start_ns = FaultyOptions().start_ns + number * 3600 * 10**9
        content = messages(tmp_path / f"{number}", gps_no_fix=count, start_ns=start_ns)
        recordings.append(record(tmp_path / f"m_2026_05_01_{9 + number:02}_00_00.mcap", content))
    report = convert(recordings, tmp_path / "out", build_config({}), dataset="d").report
    gps = report["topics"]["/gps"]
    assert (gps["refused"], gps["reasons"]["skipped"][Reason.ZERO_FIX]) == (0, 10)  # each is sent twice


# ------------------------------------------------------------------ one valid message of every role
def _cloud(frame: str, **columns: tuple[str, Any]) -> Callable[[int], bytes]:
    kinds = [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), *((name, kind) for name, (kind, _) in columns.items())]
    points = np.zeros(3, np.dtype(kinds))
    points["x"], points["y"] = (10.0, 11.0, 12.0), (0.5, -0.5, 0.0)
    for name, (_, value) in columns.items():
        points[name] = value
    return lambda stamp_ns: wire.cloud(stamp_ns, frame, points)


def _image(encoding: str, dtype: str) -> Callable[[int], bytes]:
    pixels = np.full((4, 6), 40, dtype)
    step = pixels.strides[0]
    return lambda stamp_ns: sensor_msgs.Image(
        wire.header(stamp_ns, "camera_optical"), 4, 6, encoding, 0, step, pixels.tobytes()
    ).to_bytes()


def _box(**more: float) -> edgefirst_msgs.DetectBox:
    place = {"center_x": 0.5, "center_y": 0.5, "width": 0.25, "height": 0.25, "distance": 12.0, **more}
    return edgefirst_msgs.DetectBox(**place, label="person", score=0.9, speed=0.0, track_id="7")


def _odometry(stamp_ns: int) -> bytes:
    at = geometry_msgs.Pose(geometry_msgs.Point(1.0, 2.0, 0.0), geometry_msgs.Quaternion(0.0, 0.0, 0.0, 1.0))
    still = geometry_msgs.Twist(geometry_msgs.Vector3(0.0, 0.0, 0.0), geometry_msgs.Vector3(0.0, 0.0, 0.0))
    return nav_msgs.Odometry(
        wire.header(stamp_ns, "odom"),
        "base_link",
        geometry_msgs.PoseWithCovariance(at, [0.0] * 36),
        geometry_msgs.TwistWithCovariance(still, [0.0] * 36),
    ).to_bytes()


_FUSED = {"vision_class": ("<u2", 1), "instance_id": ("<u2", 1), "track_id": ("<u4", 7)}
VALID: dict[Role, tuple[str, Callable[[int], bytes]]] = {
    Role.RADAR_TARGETS: ("radar/targets", _cloud("radar", speed=("<f4", 1), power=("<f4", 2))),
    Role.RADAR_CLUSTERS: ("radar/clusters", _cloud("radar", cluster_id=("<f4", 3))),
    Role.RADAR_CUBE: ("radar/cube", lambda ns: wire.cube(ns, np.ones((1, 4, 2, 8), np.int16))),
    Role.RADAR_INFO: ("radar/info", wire.radar_info),
    Role.LIDAR_POINTS: ("lidar/points", _cloud("lidar", reflect=("|u1", 9))),
    Role.LIDAR_CLUSTERS: ("lidar/clusters", _cloud("lidar", cluster_id=("<u4", 3))),
    Role.LIDAR_DEPTH: ("lidar/depth", _image("mono16", "<u2")),
    Role.LIDAR_REFLECT: ("lidar/reflect", _image("mono8", "u1")),
    Role.DEPTH: ("camera/depth", _image("16UC1", "<u2")),
    Role.ODOMETRY: ("odom", _odometry),
    Role.MODEL: ("model/output", lambda ns: wire.model(ns, [_box()])),
    Role.MODEL_INFO: ("model/info", lambda ns: edgefirst_msgs.ModelInfo(
        wire.header(ns, ""), [1, 640, 640, 3], 2, [1, 8400], 1, ["person"]).to_bytes()),
    Role.MASK: ("model/mask", lambda _: mask(np.eye(12, 20, dtype=np.uint8))),
    Role.BOXES_3D: ("fusion/boxes3d", lambda ns: wire.boxes_3d(ns, [_box(center_x=0.5, width=1.8)])),
    Role.FUSION_RADAR: ("fusion/radar", _cloud("radar", **_FUSED)),
    Role.FUSION_LIDAR: ("fusion/lidar", _cloud("lidar", **_FUSED)),
    Role.ROBOT_DESCRIPTION: ("robot_description", lambda _: encode("std_msgs/String", {"data": URDF})),
}  # fmt: skip
IN_DRIVE = {
    Role.CAMERA: "/camera/h264",
    Role.CAMERA_INFO: "/camera/info",
    Role.IMU: "/imu",
    Role.GPS: "/gps",
    Role.TF: "/tf_static",
}


CLUSTERS = {Role.RADAR_CLUSTERS, Role.LIDAR_CLUSTERS}
NOT_WRITTEN = {
    "edgefirst": CLUSTERS | {Role.FUSION_RADAR, Role.FUSION_LIDAR},
    "ncore": {Role.RADAR_CUBE, Role.LIDAR_DEPTH, Role.LIDAR_REFLECT},
    "l5kit": {Role.CAMERA, Role.RADAR_CUBE, Role.LIDAR_CLUSTERS, Role.LIDAR_DEPTH, Role.LIDAR_REFLECT}
    | {Role.DEPTH, Role.MASK, Role.LIDAR_POINTS, Role.RADAR_TARGETS, Role.RADAR_CLUSTERS}
    | {Role.FUSION_LIDAR, Role.FUSION_RADAR},
}
"""Companions that a format has no place for, or not by default; whatever else it forgets is a failure."""


@cache
def base(folder: Path) -> tuple[RawMessage, ...]:
    return tuple(m for m in messages(folder / "base") if m.topic in IN_DRIVE.values())


def with_role(plain: Sequence[RawMessage], role: Role) -> list[RawMessage]:
    """The drive, and a valid message of the role with every picture."""
    if role in IN_DRIVE:
        return list(plain)
    topic, encoded = VALID[role]
    schema = TYPES[role][0]
    pictures = [m for m in plain if m.topic == IN_DRIVE[Role.CAMERA]]
    own = {"topic": f"/{topic}", "schema": schema, "definition": definition(schema)}
    more = [p._replace(**own, data=encoded(stamp_ns(p)), receive_ns=stamp_ns(p)) for p in pictures]
    return sorted([*plain, *more], key=lambda m: m.receive_ns)


def stamp_ns(message: RawMessage) -> int:
    seconds, rest = np.frombuffer(message.data, "<i4", 1, 4)[0], np.frombuffer(message.data, "<u4", 1, 8)[0]
    return int(seconds) * 10**9 + int(rest)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[RawMessage, ...]:
    return base(tmp_path_factory.mktemp("ledger"))


OPTIONS = {"topics": TOPICS, "edgefirst": {"schema_version": "2025.01"}}


@pytest.fixture(scope="module")
def without_more(
    plain: tuple[RawMessage, ...], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, bytes]]:
    """What each format makes of the drive alone."""
    return cache(lambda name: converted(tmp_path_factory.mktemp("alone") / name, plain, [name], **OPTIONS)[1])


@pytest.mark.long(cases=4)
@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("name", FORMATS)
def test_written_messages_are_in_the_files_and_others_say_why_not(
    tmp_path: Path,
    plain: tuple[RawMessage, ...],
    without_more: Callable[[str], dict[str, bytes]],
    role: Role,
    name: str,
) -> None:
    """A role that a format has forgotten fails here: with and without its messages the files must differ."""
    topic = IN_DRIVE.get(role) or f"/{VALID[role][0]}"
    content = with_role(plain, role)
    report, files = converted(tmp_path / "with", content, [name], **OPTIONS)
    account = report["topics"][topic]
    assert account["received"] >= 3, "the test sends none"
    if role is Role.CAMERA:
        assert account["written"] == (0 if name == "l5kit" else 5)
        assert name != "edgefirst" or pictures_in(files) == 5
        return
    if role in IN_DRIVE:
        _, without = converted(
            tmp_path / "without", [m for m in content if m.topic != topic], [name], **OPTIONS
        )
    else:
        without = without_more(name)
    assert account["written_to"] == ({name: account["written"]} if account["written"] else {})
    if account["written"]:
        assert files != without, f"{name} holds nothing of {role}"
        # A column without nulls is smaller, so that quality.parquet may be.
        size, before = (
            sum(len(d) for n, d in each.items() if "quality" not in n) for each in (files, without)
        )
        assert size > before
    if role in COMPANION_ROLES:
        assert bool(account["written"]) == (role not in NOT_WRITTEN[name])
        assert Reason.FORGOTTEN not in account["reasons"].get("decoded", {})
    if not account["written"] and role in COMPANION_ROLES:
        assert files == without, f"{name} holds {role} and does not say so"
        assert account["decoded"] + account["refused"] == account["received"]
        assert sum(n for by in account["reasons"].values() for n in by.values()) == account["received"]


@pytest.mark.parametrize("role", [Role.RADAR_TARGETS, Role.LIDAR_POINTS, Role.IMU])
def test_what_no_maker_makes_is_not_written(
    tmp_path: Path, plain: tuple[RawMessage, ...], role: Role, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = IN_DRIVE.get(role) or f"/{VALID[role][0]}"
    content = with_role(plain, role)
    report, _ = converted(tmp_path / "whole", content, ["ncore"])
    assert report["topics"][topic]["written"] == report["topics"][topic]["received"]
    monkeypatch.delitem(ncore_prepare._MAKERS, role)
    report, _ = converted(tmp_path / "forgotten", content, ["ncore"])
    assert (report["topics"][topic]["written"], report["topics"][topic]["written_to"]) == (0, {})


def test_all_four_tiles_of_a_picture_are_written(tmp_path: Path) -> None:
    content = messages(tmp_path / "drive", tiles=True, width=320, height=192, gps_no_fix=0)
    report, _ = converted(tmp_path / "c", content, ["edgefirst", "ncore"])
    tiles = {t: a for t, a in report["topics"].items() if t.startswith("/camera/h264/")}
    assert len(tiles) == 4
    for account in tiles.values():
        assert account["written_to"] == {"edgefirst": account["written"], "ncore": account["written"]}
        assert account["written"] == account["received"] == 5
        assert account["reasons"] == {}


def test_each_format_says_how_much_it_holds(tmp_path: Path) -> None:
    content = messages(tmp_path / "drive", seconds=3.0, model_hz=5.0, gps_no_fix=0)
    report, files = converted(tmp_path / "c", content, l5kit={"rate_hz": 2.0})
    formats = report["formats"]
    pictures = pictures_in(files)
    frames = json.loads(files["l5kit/d.zarr/frames/.zarray"])["shape"][0]
    assert formats["edgefirst"]["samples"] == report["samples"] == pictures
    # Besides the samples that frames are nearest to, those are in it whose boxes are interpolated.
    assert formats["l5kit"]["frames"] == frames == 6
    assert frames <= report["samples"] - sum(formats["l5kit"]["left_out"].values()) < pictures
    topics = report["topics"].values()
    assert formats["ncore"]["measurements"] == sum(a["written_to"].get("ncore", 0) for a in topics)
    assert formats["ncore"]["measurements"] == formats["ncore"]["messages"] > pictures
