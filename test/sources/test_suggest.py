"""A configuration from what is there: for robots of others, by the names, types and frames that they use."""

from __future__ import annotations

import json
import math
import re
import signal
import struct
import sys
import threading
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from livedrive import messages
from places import contents
from recorded import record
from robots import ROBOTS, Robot, drone, instead_of, seconds
from wire_encoder import encode
from zenoh_loopback import PATIENT, await_condition, free_endpoint, started

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "formats" / "ncore"))
from ncoreread import Sequence

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.files import load_values
from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.config.topics import full_type
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.navigation import Odometry
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage, Role
from edgefirst_ros.offline.inputs import suggestion_of
from edgefirst_ros.sources.suggest import Look, Suggestion
from edgefirst_ros.sources.zenoh import overhear
from edgefirst_ros.sources.zenohlink import Outlet, open_session
from edgefirst_ros.timing.finding import Arrivals, estimate


@cache
def made(name: str) -> Robot:
    return ROBOTS[name]()


def looked(content: list[RawMessage]) -> Look:
    look = Look((message.topic, message.schema) for message in content)
    for message in content:
        look.feed(message)
    return look


@cache
def suggestion(name: str) -> Suggestion:
    return looked(made(name).content).suggestion(name)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("robots")
    return {name: record(folder / f"{name}.mcap", made(name).content) for name in ROBOTS}


def command(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        app([str(each) for each in arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.mark.parametrize("name", ROBOTS)
def test_every_usable_topic_is_used_and_none_is_mistaken(name: str) -> None:
    robot, found = made(name), suggestion(name)
    assert {topic: found.used.get(topic) for topic in robot.roles} == robot.roles
    assert found.used.keys() <= robot.roles.keys()
    there = {message.topic for message in robot.content}
    assert found.used.keys() | found.left_out.keys() == there
    assert all(found.left_out.values())
    config = build_config(found.values)
    (reference,) = (rule for entry, rule in config.topics.items() if entry == config.reference)
    assert reference.topic == robot.reference
    assert config.ego.non_holonomic is not robot.moves_sideways


def test_a_plain_file_and_one_of_ros_say_the_same(
    recordings: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = []
    for number, form in enumerate([(), ("--ros",)]):
        path = tmp_path / f"{number}.yaml"
        path.write_text(command(capsys, "suggest", *form, recordings["turtlebot"])[1])
        assert ("ros__parameters:" in path.read_text()) == bool(form)
        values.append(load_values(path))
    assert values[0] == {"prefix": "", **values[1]}  # which has no empty value in ROS


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("name", ROBOTS)
def test_it_converts_without_an_edit_and_without_being_asked_for(
    name: str, recordings: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every camera and lidar is in NCore, each under the frame that it has; both ways give the same bytes."""
    code, text, _ = command(capsys, "suggest", recordings[name])
    assert code == 0
    (tmp_path / "robot.yaml").write_text(text)
    formats = ("--format", "edgefirst,ncore")
    given = command(
        capsys,
        "convert",
        recordings[name],
        "-o",
        tmp_path / "given",
        *formats,
        "--config",
        tmp_path / "robot.yaml",
    )
    alone = command(capsys, "convert", recordings[name], "-o", tmp_path / "alone", *formats)
    assert (given[0], alone[0]) == (0, 0)
    without = ("capture_report.json", "capture_report.html", ".yaml")
    assert contents(tmp_path / "alone", *without) == contents(tmp_path / "given", *without)
    kept = (tmp_path / "alone" / f"{name}.yaml").read_text()
    assert yaml.safe_load(kept) == yaml.safe_load(text)
    assert f"{name}.yaml" in alone[1]
    assert made(name).reference in kept
    (folder,) = (tmp_path / "alone" / "ncore").iterdir()
    stored = Sequence(folder)
    instances = {*stored.instances("cameras"), *stored.instances("lidars")}
    assert {frame.replace("/", "_") for frame in made(name).sensors.values()} <= instances
    for camera in stored.instances("cameras"):
        assert stored.attributes(f"intrinsics/default/cameras/{camera}")["camera_model_parameters"]


def test_of_a_device_alone_nothing_is_configured_and_with_others_everything() -> None:
    device = [m for m in made("devices").content if m.topic.startswith("/front/")]
    found = looked(device).suggestion("one")
    assert found.used["/front/camera/h264"] is Role.CAMERA
    assert found.values == {}
    usb = [m._replace(topic=f"/usb{m.topic}") for m in made("turtlebot").content if "camera/" in m.topic]
    mixed = looked(sorted([*device, *usb], key=lambda message: message.receive_ns)).suggestion("mixed")
    cameras = {topic for topic, role in mixed.used.items() if role is Role.CAMERA}
    assert cameras == {"/front/camera/h264", "/usb/camera/image_raw"}
    assert found.used.keys() <= mixed.used.keys()
    build_config(mixed.values)


def test_nothing_that_samples_could_begin_with_is_an_error_that_says_what_is_there() -> None:
    motion = [m for m in made("turtlebot").content if m.topic in {"/imu", "/odom"}]
    with pytest.raises(ConfigError, match=r"no camera and no lidar.*/imu \(sensor_msgs/msg/Imu\)"):
        looked(motion).suggestion("motion")


def seen(*topics: tuple[str, str], like: str = "turtlebot") -> Look:
    """Topics of these names, each with the messages of another one of a robot."""
    sources = {source for _, source in topics}
    content = [m for m in made(like).content if m.topic in sources]
    return looked([m._replace(topic=name) for m in content for name, source in topics if source == m.topic])


def test_a_camera_is_taken_once_whatever_its_encodings() -> None:
    picture, info = "/camera/image_raw", "/camera/camera_info"
    jpeg = "/CAM_FRONT/image_rect_compressed"
    content = [
        *(m for m in made("turtlebot").content if m.topic in {picture, info}),
        *(
            m._replace(topic="/camera/image_raw/compressed")
            for m in made("turtlebot").content
            if m.topic == picture
        ),
    ]
    found = looked(content).suggestion("one")
    assert [t for t, role in found.used.items() if role is Role.CAMERA] == [picture]
    assert (
        found.left_out["/camera/image_raw/compressed"] == f"the same camera as {picture}, in another encoding"
    )
    two = seen(("/a/image/compressed", jpeg), ("/b/image/compressed", jpeg), like="nuscenes").suggestion(
        "two"
    )
    assert sum(role is Role.CAMERA for role in two.used.values()) == 2


def test_a_damaged_first_picture_is_one_damaged_picture() -> None:
    """As USB cameras send it when they start."""
    topic, content = "/CAM_FRONT/image_rect_compressed", [*made("nuscenes").content]
    first = next(place for place, message in enumerate(content) if message.topic == topic)
    values = {"format": "jpeg", "data": b"\xff\xd8\xff\xc0" + bytes(64)}
    content[first] = instead_of(content[first], topic, "sensor_msgs/CompressedImage", values)
    found = looked(content).suggestion("nuscenes")
    assert found.used == suggestion("nuscenes").used
    assert "JPEG 160x90, frame CAM_FRONT\n" in found.text


def test_each_camera_has_the_calibration_of_its_own_namespace_and_takes_no_others() -> None:
    """Two of three cameras of one frame have one; a single camera takes the only one there is."""
    picture, info = "/camera/image_raw", "/camera/camera_info"
    names = ("/zed/rgb", "/zed/left", "/zed/right")
    look = seen(
        *((f"{name}/image_rect_color", picture) for name in names),
        *((f"{name}/camera_info", info) for name in names[1:]),
    )
    found = look.suggestion("stereo").values["topics"]
    assert {entry: rule["topic"] for entry, rule in found.items()} == {
        "zed": "/zed/rgb/image_rect_color",
        **{f"zed_{side}": f"/zed/{side}/image_rect_color" for side in ("left", "right")},
        **{f"zed_{side}_info": f"/zed/{side}/camera_info" for side in ("left", "right")},
    }
    assert {rule["sensor"] for rule in found.values() if "sensor" in rule} == {"zed_left", "zed_right"}
    single = seen(("/image", picture), ("/calibration/of_it", info)).suggestion("single")
    assert single.values["topics"]["camera_info"]["topic"] == "/calibration/of_it"


@pytest.mark.parametrize(
    ("status", "kind", "odometry"),
    [(-1, 0, Role.ODOMETRY), (0, 0, None), (-2, 0, Role.ODOMETRY), (-2, 2, None)],
)
def test_a_receiver_that_never_had_a_fix_leaves_odometry_its_place(
    status: int, kind: int, odometry: Role | None
) -> None:
    """As indoors, or in the garage where a robot is started; -2 is what drivers send that set no status."""
    diagonal = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    values = {
        "status": {"status": status}, "latitude": 48.1, "longitude": 11.5, "altitude": 500.0,
        "position_covariance": diagonal, "position_covariance_type": kind,
    }  # fmt: skip
    robot = made("turtlebot").content
    fixes = [instead_of(m, "/fix", "sensor_msgs/NavSatFix", values) for m in robot if m.topic == "/imu"]
    assert looked([*robot, *fixes]).suggestion("indoors").used.get("/odom") is odometry


def test_points_of_a_depth_camera_are_no_lidar_beside_its_image() -> None:
    clouds = [m for m in made("autoware").content if m.schema.endswith("PointCloud2")]
    clouds = [m._replace(topic="/points") for m in clouds if m.topic == clouds[0].topic]
    values = {
        "header": {"frame_id": decode(clouds[0]).frame_id}, "height": 4, "width": 4, "encoding": "16UC1",
        "step": 8, "data": bytes(32),
    }  # fmt: skip
    depths = [instead_of(m, "/depth/image", "sensor_msgs/Image", values) for m in clouds]
    content = [*made("turtlebot").content, *clouds]
    assert looked(content).suggestion("lidar").used.get("/points") is Role.LIDAR_POINTS
    assert looked([*content, *depths]).suggestion("depth").left_out["/points"] == "points of a depth camera"


def test_a_sweep_stamped_since_boot_by_its_first_column_is_dated_within_what_is_said() -> None:
    """As Ouster does by default; what is stamped comes a turn and its way later."""
    clouds = [m for m in made("autoware").content if m.schema.endswith("PointCloud2")]
    clouds = [m for m in clouds if m.topic == clouds[0].topic]
    turn_ns = (clouds[-1].receive_ns - clouds[0].receive_ns) // (len(clouds) - 1)
    booted_ns = 1_700_000_000 * 10**9
    late_ns = np.full(len(clouds), booted_ns + turn_ns + 10_000_000)
    for number, message in enumerate(clouds):
        second, rest = divmod(message.receive_ns - int(late_ns[0]), 10**9)
        stamp = second.to_bytes(4, "little") + rest.to_bytes(4, "little")
        clouds[number] = message._replace(data=message.data[:4] + stamp + message.data[12:])
    topics = looked(clouds).suggestion("lidar").values["topics"]
    (latency_ms,) = (each["latency_ms"] for each in topics.values() if "latency_ms" in each)
    clock = estimate([Arrivals(late_ns, latency_ms * 1_000_000)])
    assert abs(clock.offset_ns - booted_ns) <= (clock.uncertainty_ns or 0)
    for last_ns in (turn_ns, 0):  # where points say when they were measured, it is known when a sweep ends
        data = struct.pack("<3fi3fi", 1.0, 1.0, 1.0, 0, 2.0, 2.0, 2.0, last_ns)
        fields = [{"name": c, "offset": 4 * n, "datatype": 7, "count": 1} for n, c in enumerate("xyz")]
        fields.append({"name": "t", "offset": 12, "datatype": 5, "count": 1})
        values = {"height": 1, "width": 2, "point_step": 16, "row_step": 32, "data": data, "fields": fields}
        timed = []
        for each in clouds:
            header = {"stamp": seconds(decode(each).stamp_ns), "frame_id": "lidar"}
            timed.append(instead_of(each, each.topic, "sensor_msgs/PointCloud2", values | {"header": header}))
        (entry,) = looked(timed).suggestion("lidar").values["topics"].values()
        assert entry["latency_ms"] == pytest.approx(last_ns / 1e6 + 10, abs=1)


def test_two_robots_are_not_made_one_rig() -> None:
    """As two of a fleet are, whose names and frames are alike; each has a suggestion of its own."""
    content = []
    for message in made("devices").content:
        if message.topic == "/rear/gps" and (fix := decode(message).datum).is_fix:
            here, there = (struct.pack("<d", fix.latitude_deg + away) for away in (0.0, 0.001))
            content.append(message._replace(data=message.data.replace(here, there)))
        else:
            content.append(message)
    look = looked(content)
    with pytest.raises(ConfigError, match=r"two robots, 111 m apart.*--prefix front, then --prefix rear"):
        look.suggestion("robots")
    used = look.suggestion("rear", "rear").used
    assert {topic.split("/")[1] for topic in used} == {"rear", "tf_static"}
    with pytest.raises(ConfigError, match="robots: no topic begins with side/; leave --prefix out"):
        look.suggestion("robots", "side")


def test_live_a_configuration_is_made_where_one_is_made_of_a_recording() -> None:
    """Whatever else is called as a device's topics are."""
    content = made("turtlebot").content
    named = [m._replace(topic="/lidar/points") if m.topic == "/scan" else m for m in content]
    found = suggestion_of(looked(named), Config())
    assert found is not None
    assert found.used["/camera/image_raw"] is Role.CAMERA
    assert suggestion_of(looked([*messages()]), Config()) is None


def test_a_report_of_a_robot_is_of_what_converting_it_would_make(
    recordings: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, said = command(capsys, "report", recordings["turtlebot"], "-o", tmp_path / "page.html")
    assert code == 0, said
    assert "topics are not named as a Maivin's" in said
    assert (tmp_path / "page.html").stat().st_size > 10_000


@pytest.mark.parametrize("name", ROBOTS)
def test_info_says_what_a_conversion_would_use_each_topic_as(
    recordings: dict[str, Path], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = command(capsys, "info", recordings[name], "--json")
    assert code == 0
    found = {topic: each["use"] for topic, each in json.loads(said)["topics"].items() if each["use"]}
    assert found == {topic: role for topic, role in made(name).roles.items() if role}


def test_a_robot_is_overheard_on_zenoh() -> None:
    endpoint, content = free_endpoint(), made("turtlebot").content
    ended = threading.Event()

    def publish() -> None:
        with open_session([endpoint], []) as session:
            outlets = {topic: Outlet(session, topic.strip("/")) for topic in {m.topic for m in content}}
            while not ended.is_set():
                for message in content[:400]:
                    outlets[message.topic].put(full_type(message.schema), message.data)
                ended.wait(0.05)

    sender = threading.Thread(target=publish)
    with open_session([], [endpoint]) as session:
        sender.start()
        try:
            look = overhear(session, 2.0)
        finally:
            ended.set()
            sender.join()
    found = look.suggestion("zenoh").used
    assert {topic: found.get(topic) for topic in made("turtlebot").roles} == made("turtlebot").roles


@pytest.mark.long
def test_a_capture_without_a_configuration_takes_what_comes(tmp_path: Path) -> None:
    """Of no device: the first seconds are listened to, and then a session takes what was heard.

    That something else has a device's name does not matter.
    """
    endpoint, content = free_endpoint(), drone(45.0).content
    words = ("capture", "--zenoh-listen", endpoint, "-o", tmp_path / "out", "--format", "edgefirst,ncore")
    with (
        # Two samples a second, since a busy machine sheds what it has no time for.
        started(tmp_path / "run", *words, "--rate", "2", command=PATIENT) as run,
        open_session([endpoint], []) as session,
    ):
        outlets = {topic: Outlet(session, topic.strip("/")) for topic in {m.topic for m in content}}
        other = Outlet(session, "lidar/points")
        await_condition("a capture that listens", lambda: any(each.wanted for each in outlets.values()))
        begun_s = time.monotonic()
        for message in content:
            due_s = begun_s + (message.receive_ns - content[0].receive_ns) / 1e9
            time.sleep(max(0.0, due_s - time.monotonic()))
            outlets[message.topic].put(full_type(message.schema), message.data)
            other.put("std_msgs/msg/Empty", bytes(5))
            if re.search(r"(?<!\d)([5-9]|[1-9]\d+) samples;", run.err):
                break
        run.send(signal.SIGINT)
        assert run.wait() == 130, run.err
    assert "topics are not named as a Maivin's" in run.err
    (report,) = (tmp_path / "out").rglob("capture_report.json")
    found = json.loads(report.read_text())
    assert found["samples"] >= 5
    assert found["topics"]["/mavros/imu/data"]["written"] > 50
    (kept,) = (tmp_path / "out").glob("*.yaml")
    assert kept.stem == found["dataset"]
    assert len([*(tmp_path / "out" / "ncore").iterdir()]) == 1


def test_names_that_lie_neither_end_a_comment_nor_reach_the_terminal() -> None:
    evil = "/camera\n    prefix: x #\x1b[2J\u202e/image_raw"
    raw = [m for m in made("turtlebot").content if m.topic == "/camera/image_raw"]
    content = [*made("turtlebot").content, *(m._replace(topic=evil) for m in raw)]
    content.append(RawMessage("/left\nout: 1", "some_msgs/msg/Thing", b"", 1, 1, 0))
    found = looked(content).suggestion("evil\nhost: x")
    assert yaml.safe_load(found.text) == dict(found.values)
    assert yaml.safe_load(found.parameters) == {"/**": {"ros__parameters": dict(found.values)}}
    assert found.left_out[evil] == "no name that ROS allows"
    assert not {"\x1b", "\u202e"} & {*found.text}


def text_message(like: RawMessage, topic: str, text: str) -> RawMessage:
    data = encode("std_msgs/String", {"data": text})
    return like._replace(topic=topic, schema="std_msgs/msg/String", data=data, definition="string data")


URDF = """<robot name="r">
<joint name="a" type="fixed"><parent link="base_footprint"/><child link="base_link"/></joint>
<joint name="b" type="fixed"><parent link="base_footprint"/><child link="base_scan"/></joint>
<joint name="c" type="revolute"><parent link="base_link"/><child link="camera_rgb_optical_frame"/></joint>
</robot>"""


def test_a_description_of_the_robot_is_used_and_what_it_does_not_place_is_listed() -> None:
    """Other texts are not even looked at, so that they are not waited for."""
    content = [each for each in made("turtlebot").content if each.topic != "/tf_static"]
    content[:0] = [
        text_message(content[0], "/robot_description", URDF),
        text_message(content[0], "/rosout_text", "hello"),
    ]
    look = looked(content)
    assert look.is_complete
    found = look.suggestion("robot")
    assert found.used["/robot_description"] is Role.ROBOT_DESCRIPTION
    assert found.left_out["/rosout_text"] == "std_msgs/msg/String is not used"
    (listed,) = (line for line in found.text.splitlines() if "at the rig's origin" in line)
    assert listed == "# camera (frame camera_rgb_optical_frame): at the rig's origin, looking ahead"
    assert "frame base_scan" in found.text


def test_a_mount_that_moves_is_named_and_followed() -> None:
    """Odometry's own transform is none."""
    content: list[RawMessage] = []
    for number, message in enumerate(made("turtlebot").content):
        content.append(message)
        if message.topic == "/scan":
            pan = {
                "header": {"stamp": {"sec": 1 + number}, "frame_id": "base_link"},
                "child_frame_id": "base_scan",
                "transform": {"rotation": {"z": math.sin(number / 99), "w": math.cos(number / 99)}},
            }
            content.append(instead_of(message, "/tf", "tf2_msgs/TFMessage", {"transforms": [pan]}))
    found = looked(content).suggestion("robot")
    assert "on a mount that moves (base_scan in base_link, /tf)" in found.text
    assert "odom" not in found.text.partition("mount that moves")[2].partition("\n")[0]
    assert found.values["topics"]["tf_of_mounts"] == {"role": "tf", "topic": "/tf"}
    assert "/tf" not in found.left_out
    assert "rig_frame" not in found.values
    assert "tf_of_mounts" not in suggestion("turtlebot").values["topics"]


def test_transforms_on_tf_that_keep_their_values_are_mountings_and_odometry_is_where_there_is_no_other() -> (
    None
):
    """As ROS 1 and simulators send them: no tf_static, and everything on /tf."""
    content: list[RawMessage] = []
    for message in made("turtlebot").content:
        if message.topic == "/odom":
            continue
        content.append(message._replace(topic="/tf") if message.topic == "/tf_static" else message)
    found = looked(content).suggestion("robot")
    odometry = {"parent_frame": "odom", "child_frame": "base_link", "role": "odometry", "topic": "/tf"}
    assert {**found.values["topics"]["tf_odometry"]} == odometry
    assert "# camera (frame" not in found.text
    fixes = looked([*content, *(m for m in made("autoware").content if m.schema.endswith("NavSatFix"))])
    tf = fixes.suggestion("robot").values["topics"]["tf"]
    assert tf == {"role": "tf", "topic": "/tf"}


def test_poses_are_motion_where_they_are_the_robots() -> None:
    content: list[RawMessage] = []
    for number, message in enumerate(made("turtlebot").content):
        if message.topic == "/odom":
            odometry = decode(message).datum
            assert isinstance(odometry, Odometry)
            header = {"stamp": {"sec": 1, "nanosec": number}, "frame_id": "map"}
            pose = {"position": dict(zip("xyz", odometry.position_m, strict=True)), "orientation": {"w": 1.0}}
            for topic in ("/pose", "/goal_pose"):
                values = {"header": header, "pose": pose}
                content.append(instead_of(message, topic, "geometry_msgs/PoseStamped", values))
        elif message.topic != "/tf":
            content.append(message)
    found = looked(content).suggestion("robot")
    assert found.used["/pose"] is Role.ODOMETRY
    assert found.left_out["/goal_pose"].startswith("no pose of the robot")


def test_a_topic_without_stamps_gets_no_latency_of_another_robot() -> None:
    robot, topic = made("turtlebot"), "/scan"
    content = [
        each._replace(data=each.data[:4] + bytes(8) + each.data[12:]) if each.topic == topic else each
        for each in robot.content
    ]
    values = looked(content).suggestion("robot").values["topics"]
    assert [rule.get("latency_ms") for rule in values.values() if rule["topic"] == topic] == [0]
