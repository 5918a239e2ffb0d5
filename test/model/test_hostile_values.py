"""Values that nobody would send on purpose, in every field of every message, cost that message at most."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import Values, mutations
from PIL import Image
from recorded import messages, record
from valid_messages import VALUES
from wire_encoder import encode

from edgefirst_ros.config.model import build_config
from edgefirst_ros.config.topics import EGO_ROLES
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.prepare.sample import prepare_sample
from edgefirst_ros.formats.l5kit.options import L5KitOptions
from edgefirst_ros.formats.l5kit.write.prepare import prepare_frame
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.roles import prepare
from edgefirst_ros.model.camera import CameraInfo
from edgefirst_ros.model.cdr import Stamped
from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.detection import ModelInfo
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.radar import RadarInfo
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import (
    Calibration,
    CameraImage,
    Datum,
    EgoPose,
    GeoPoint,
    Measurement,
    Observation,
    RawMessage,
    Role,
    Sample,
    SequenceInfo,
)
from edgefirst_ros.model.transform import Transforms
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.ledger import COLUMNS

NOW_NS = 1_773_483_630_000_000_000
ROLES: dict[str, tuple[Role, ...]] = {
    "sensor_msgs/PointCloud2": (
        Role.RADAR_TARGETS,
        Role.RADAR_CLUSTERS,
        Role.LIDAR_POINTS,
        Role.LIDAR_CLUSTERS,
        Role.FUSION_RADAR,
        Role.FUSION_LIDAR,
    ),
    "edgefirst_msgs/RadarCube": (Role.RADAR_CUBE,),
    "edgefirst_msgs/Model": (Role.MODEL,),
    "edgefirst_msgs/Detect": (Role.BOXES_3D, Role.MODEL),
    "edgefirst_msgs/Mask": (Role.MASK,),
    "sensor_msgs/Image": (Role.DEPTH, Role.LIDAR_DEPTH, Role.LIDAR_REFLECT),
    "sensor_msgs/CompressedImage": (Role.DEPTH,),
    "sensor_msgs/Imu": (Role.IMU,),
    "sensor_msgs/NavSatFix": (Role.GPS,),
    "nav_msgs/Odometry": (Role.ODOMETRY,),
}
CONTEXT = (
    "sensor_msgs/CameraInfo",
    "edgefirst_msgs/RadarInfo",
    "edgefirst_msgs/ModelInfo",
    "geometry_msgs/TransformStamped",
    "tf2_msgs/TFMessage",
)


def decoded(schema: str, values: Values) -> Stamped[Datum]:
    name = schema.replace("/", "/msg/")
    return decode(RawMessage("/t", name, encode(schema, values), NOW_NS, NOW_NS, 0, definition(schema)))


def measured(found: Stamped[Datum], role: Role, frame_id: str) -> Measurement:
    return Measurement(f"/{role}", NOW_NS, found.stamp_ns, NOW_NS, 0, frame_id, found.datum)


def calibration() -> Calibration:
    tree = {"transforms": [{**VALUES["geometry_msgs/TransformStamped"], "child_frame_id": "camera_optical"}]}
    return learned(
        Calibration(),
        *(decoded(schema, VALUES[schema]) for schema in CONTEXT),
        decoded("tf2_msgs/TFMessage", tree),
    )


def learned(known: Calibration, *found: Stamped[Datum]) -> Calibration:
    for each in found:
        match each.datum:
            case CameraInfo():
                known = replace(known, camera_info=each.datum)
            case RadarInfo():
                known = replace(known, radar_info=each.datum)
            case ModelInfo():
                known = replace(known, model_info=each.datum)
            case Transforms():
                placed = {t.child: t for t in each.datum.transforms}
                first = replace(each.datum.transforms[0], child="camera_optical")
                known = replace(known, transforms={**known.transforms, "camera_optical": first, **placed})
    return known


def jpeg() -> CameraImage:
    with io.BytesIO() as file:
        Image.new("RGB", (64, 48)).save(file, "JPEG")
        return CameraImage("jpeg", file.getvalue(), 64, 48)


PICTURE = jpeg()
KNOWN = calibration()
SEQUENCE = SequenceInfo("host_2026_01_01_00_00_00", "host", NOW_NS)
EGO = EgoPose(
    NOW_NS,
    location=GeoPoint(45.0, -71.0, 10.0),
    fix_time_ns=NOW_NS,
    origin=GeoPoint(45.0, -71.0, 10.0),
    position_m=(0.0, 0.0, 0.0),
    rotation_xyzw=(0.0, 0.0, 0.0, 1.0),
    rpy_deg=(0.0, 0.0, 0.0),
)
PLAIN = {
    role: measured(decoded(schema, VALUES[schema]), role, "camera_optical")
    for schema, roles in ROLES.items()
    for role in roles
}


def everything(schema: str, found: Stamped[Datum], number: int = 0) -> Iterator[Callable[[], object]]:
    """All that a message can be made into, in the three formats; in one of many roles, by its number."""
    known = learned(KNOWN, found)
    edgefirst, ncore, l5kit = (
        EdgeFirstOptions(),
        NCoreOptions(),
        L5KitOptions(),
    )
    companions = {role: PLAIN[role] for role in (Role.MODEL, Role.BOXES_3D)}
    for frame_id in ("camera_optical", "base_link") if schema in ROLES else ("",):
        roles = ROLES.get(schema, tuple(companions))
        role = roles[number % len(roles)]
        measurement = measured(found, role, frame_id) if schema in ROLES else PLAIN[role]
        sample = Sample(SEQUENCE, 0, NOW_NS, {**companions, role: measurement}, {}, EGO, known, PICTURE)
        observation = Observation(role, measurement, known, PICTURE)
        if role not in EGO_ROLES:
            if frame_id != "base_link":
                yield lambda sample=sample: prepare_sample(sample, edgefirst)
            yield lambda sample=sample: prepare_frame(sample, l5kit)
        yield lambda observation=observation: prepare(observation, ncore)


@pytest.mark.long(cases=4)
@pytest.mark.parametrize("schema", [*ROLES, *CONTEXT])
def test_any_one_value_is_refused_when_decoded_or_written(schema: str) -> None:
    """Pytest turns numpy's warnings into errors, so an overflow counts as one."""
    outcomes: Counter[str] = Counter()
    for number, (what, values) in enumerate(mutations(schema)):
        try:
            found = decoded(schema, values)
        except DecodeError:
            outcomes["refused"] += 1
            continue
        outcomes["taken"] += 1
        for make in everything(schema, found, number):
            try:
                make()
            except Exception as error:
                raise AssertionError(f"{schema} with {what}") from error
    assert outcomes["taken"] > 3


NUMBERS = st.floats(width=64) | st.integers(-(2**31), 2**31 - 1).map(float)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.lists(NUMBERS, max_size=14),
    st.lists(NUMBERS, min_size=9, max_size=9),
    st.sampled_from(["plumb_bob", "rational_polynomial", "equidistant", "", "x"]),
)
def test_any_calibration(width: int, height: int, d: list[float], k: list[float], model: str) -> None:
    schema = "sensor_msgs/CameraInfo"
    values = {**VALUES[schema], "width": width, "height": height, "d": d, "k": k, "distortion_model": model}
    try:
        found = decoded(schema, values)
    except DecodeError:
        return
    for make in everything(schema, found):
        make()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(*[st.floats(width=32)] * 7), min_size=1, max_size=3),
    st.sampled_from(["Model", "Detect"]),
)
def test_any_boxes(rows: list[tuple[float, ...]], name: str) -> None:
    schema = f"edgefirst_msgs/{name}"
    names = ("center_x", "center_y", "width", "height", "score", "distance", "speed")
    boxes = [{"label": "car", **dict(zip(names, row, strict=True))} for row in rows]
    try:
        found = decoded(schema, {**VALUES[schema], "boxes": boxes})
    except DecodeError:
        return
    for make in everything(schema, found):
        make()


TOPICS = {
    "sensor_msgs/CameraInfo": "/camera/info",
    "sensor_msgs/PointCloud2": "/lidar/points",
    "sensor_msgs/Image": "/camera/depth",
    "edgefirst_msgs/RadarCube": "/radar/cube",
    "edgefirst_msgs/Model": "/model/output",
    "edgefirst_msgs/Mask": "/model/mask",
    "geometry_msgs/TransformStamped": "/tf_static",
    "edgefirst_msgs/ModelInfo": "/model/info",
    "edgefirst_msgs/RadarInfo": "/radar/info",
}
OPTIONAL = ("radar_targets", "lidar_points", "model", "model_mask", "radar_cube", "depth")


@pytest.mark.long
def test_a_recording_full_of_them_is_converted(tmp_path: Path) -> None:
    """All mutations between the sound messages, through all three formats and their own check."""
    content = messages(seconds=3.0)
    start, end = content[0].receive_ns, content[-1].receive_ns
    hostile = {schema: list(mutations(schema)) for schema in TOPICS}
    for schema, place, (_, sent) in ((s, *each) for s in TOPICS for each in enumerate(hostile[s])):
        now_ns = start + (end - start) * (place + 1) // (len(hostile[schema]) + 2)
        seconds, rest = divmod(now_ns - 2_000_000, 10**9)
        values = sent
        if "header" in sent:
            stamp = {"sec": seconds, "nanosec": rest}
            frame_id = "lidar" if "Cloud" in schema else "camera_optical"
            values = {**sent, "header": {"stamp": stamp, "frame_id": frame_id}}
        data = encode(schema, values)
        name = schema.replace("/", "/msg/")
        content.append(RawMessage(TOPICS[schema], name, data, now_ns, now_ns, 0, definition(schema)))
    content.sort(key=lambda message: message.receive_ns)
    topics: dict[str, Any] = {name: {"required": "never", "tolerance_ms": 200.0} for name in OPTIONAL}
    config = build_config({"formats": ["edgefirst", "ncore", "l5kit"], "topics": topics})
    report = convert(
        [record(tmp_path / "h_2026_05_01_09_00_00.mcap", content)], tmp_path / "out", config, dataset="d"
    ).report
    for topic, account in report["topics"].items():
        assert account["received"] == sum(account[column] for column in COLUMNS), topic
    for schema, topic in TOPICS.items():
        assert report["topics"][topic]["received"] >= len(hostile[schema])
    assert report["samples"] == 30
    for found in check(tmp_path / "out"):
        assert found.ok, found.text


def test_names_in_messages_are_plain_and_short() -> None:
    schema = "geometry_msgs/TransformStamped"
    found = decoded(schema, {**VALUES[schema], "child_frame_id": "\x1b[2J" + "a" * 300})
    assert isinstance(found.datum, Transforms)
    child = found.datum.transforms[0].child
    assert child.startswith("\\x1b[2Jaaa")
    assert child.isprintable()
    assert len(child) < 200
