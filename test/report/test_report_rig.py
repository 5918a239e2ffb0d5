"""The page of a rig of three cameras and two lidars: pictures of every camera at the same moments."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulated
from faulty import Truth, read_number
from PIL import Image
from reports import ns, read, report, section, stream
from test_report_page import HOSTILE
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.scene import Moment
from edgefirst_ros.model.transform import matrix_of
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.report.models import parsed, read_report
from edgefirst_ros.report.page import thumbnails
from edgefirst_ros.report.page.make import document, make_page
from edgefirst_ros.report.page.thumbnails import Rig, projection_of
from edgefirst_ros.simulation import DriveOptions, MoreSensor

SIZE: Any = {"width": 320, "height": 180}
PLACES: dict[str, tuple[float, tuple[float, float, float], float]] = {
    "left": (60.0, (1.0, 0.5, 1.6), 10.0),
    "rear": (180.0, (-1.0, 0.0, 1.6), 5.0),
}
CAMERAS = (
    MoreSensor("camera", f"{n}/image", f"{n}_optical", at, (0, 0, yaw), hz, 11.0, info=f"{n}/info", **SIZE)
    for n, (yaw, at, hz) in PLACES.items()
)
LIDAR = MoreSensor(
    "lidar", "rear/points", "rear_lidar", (-1.0, 0.0, 1.8), (0, 0, 180), 10.0, 55.0, points=640
)
RATES: Any = {"fps": 10, "lidar_points": 640, "cube_hz": 0, "radar_hz": 0, "imu_hz": 20, "gps_no_fix": 0}
DRIVE = DriveOptions(seconds=3.0, more=(*CAMERAS, LIDAR), host="rig", clock="realtime", **RATES, **SIZE)
TOPICS = {
    "left": {"role": "camera", "topic": "left/image"},
    "rear": {"role": "camera", "topic": "rear/image"},
    "left_info": {"role": "camera_info", "topic": "left/info"},
    "rear_info": {"role": "camera_info", "topic": "rear/info"},
    "rear_lidar": {"role": "lidar_points", "topic": "rear/points"},
}
HZ = {"camera": 10, "left": 10, "rear": 5}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("rig")
    convert([simulated(DRIVE).mcap], out, build_config({"topics": TOPICS}), dataset="d")
    return out / "edgefirst" / "d"


@pytest.fixture(scope="module")
def page(dataset: Path) -> str:
    return read(make_page(dataset))


def moments(page: str) -> list[dict[str, Image.Image]]:
    """Pictures by sensor, of each moment."""
    found = []
    for row in section(page, "pictures").split("<h3>")[1:]:
        figures = re.findall(r"base64,([A-Za-z0-9+/=]+)\".*?<figcaption><b>(.*?)</b>", row)
        found.append({name: Image.open(io.BytesIO(base64.b64decode(each))) for each, name in figures})
    return found


def test_every_camera_is_seen_at_the_same_moments(page: str) -> None:
    found = moments(page)
    assert len(found) >= 4
    for row in found:
        assert list(row) == ["camera", "left", "rear"]
        times_s = [read_number(np.asarray(picture)) / HZ[name] for name, picture in row.items()]
        assert max(times_s) - min(times_s) <= 0.2
    captions = html.unescape(section(page, "pictures"))
    assert captions.count("rig-rear_2026_05_01_09_00_00, frame") == len(found)


def test_so_it_is_on_the_page_of_a_recording(tmp_path: Path) -> None:
    (tmp_path / "rig.yaml").write_text(json.dumps({"topics": TOPICS}))
    place, recording = tmp_path / "r.html", simulated(DRIVE).mcap
    command = ["report", recording, "-o", place, "--config", tmp_path / "rig.yaml", "-q"]
    done = CliRunner().invoke(app, [*map(str, command)])
    assert done.exit_code == 0, done.output
    found = moments(read(place))
    assert len(found) >= 6
    for row in found:
        assert list(row) == ["camera", "left", "rear"]
        times_s = [read_number(np.asarray(picture)) / HZ[name] for name, picture in row.items()]
        assert max(times_s) - min(times_s) <= 0.2
    told = re.findall(r"<h3>(.*?)</h3>", section(read(place), "pictures"))
    assert "start" in told[0]
    assert "near the end" in told[-1]
    assert all("on the way" in each for each in told[1:-1])


def test_numbers_on_the_map_are_those_of_moments(page: str) -> None:
    pins = re.findall(r'class="pin-text"[^>]*>(\d+)<', section(page, "track"))
    assert pins == [str(number + 1) for number in range(len(moments(page)))]


@pytest.mark.parametrize(
    ("sequence", "camera", "lidar"),
    [
        ("rig_2026_05_01_09_00_00", "camera_optical", "lidar"),
        ("rig-left_2026_05_01_09_00_00", "left_optical", "lidar"),
        ("rig-rear_2026_05_01_09_00_00", "rear_optical", "rear_lidar"),
    ],
)
def test_each_cameras_samples_have_their_lidar_where_the_world_has_it(
    dataset: Path, sequence: str, camera: str, lidar: str
) -> None:
    found = projection_of(read_report(dataset / "capture_report.json"), sequence)
    assert found is not None
    at = {each.child: each for each in Truth.read(simulated(DRIVE).truth).world.mounts}
    T_camera, T_lidar = at[camera], at[lidar]
    into = matrix_of(T_camera.rotation_xyzw).T
    assert found.rotation == pytest.approx(into @ matrix_of(T_lidar.rotation_xyzw), abs=1e-6)
    moved_m = np.array(T_lidar.translation_m) - T_camera.translation_m
    assert found.translation_m == pytest.approx(into @ moved_m, abs=1e-6)
    assert found.focal[0] == pytest.approx(0.66)


def test_a_camera_without_intrinsics_gets_no_points(dataset: Path, page: str, tmp_path: Path) -> None:
    shutil.copytree(dataset, tmp_path / "edgefirst" / "d")
    path = tmp_path / "edgefirst" / "d" / "capture_report.json"
    values = json.loads(path.read_text())
    del values["sequences"][0]["calibration"]["cameras"]["rear"]
    path.write_text(json.dumps(values))
    before, after = moments(page)[0], moments(read(make_page(path, tmp_path / "x.html")))[0]
    change = {n: np.abs(np.asarray(after[n], int) - np.asarray(before[n], int)).max() for n in before}
    assert change["camera"] == change["left"] == 0
    assert change["rear"] > 100


def test_a_moment_has_all_its_cameras_or_none(
    dataset: Path, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sum(map(len, re.findall(r"base64,([A-Za-z0-9+/=]+)", page)))
    monkeypatch.setattr(thumbnails, "MOST_BASE64", whole // 2)
    found = moments(read(make_page(dataset, tmp_path / "x.html")))
    assert 1 <= len(found) < len(moments(page))
    assert {len(row) for row in found} == {3}


def test_a_camera_that_was_silent_then_is_left_out() -> None:
    values = report({"/c": stream("camera", 0, 9, 10) | {"sensor": "c"}})
    values["sequences"][0]["cameras"] = {"l": {"name": "s-l", "start_ns": ns(0)}}
    moments = [Moment("s", number, ns(number)) for number in range(9)]
    left = [Moment("s-l", number, ns(number + 4.3)) for number in range(3)]
    rig = Rig([*moments, *left], lambda moment: moment, parsed(values))
    assert rig.at(moments[2]) == [("c", moments[2])]
    assert rig.at(moments[4]) == [("c", moments[4]), ("l", left[0])]
    assert rig.at(moments[5]) == [("c", moments[5]), ("l", left[1])]
    assert rig.at(moments[8]) == [("c", moments[8])]


def lanes_of(devices: dict[str, tuple[str, str]]) -> list[str]:
    """Headings and topics of the lanes in order; of topics their sensor and device, and one unused topic."""
    topics = {
        topic: stream("lidar_points", 0, 9, 10) | {"sensor": sensor, "device": device}
        for topic, (sensor, device) in devices.items()
    }
    values = report(topics)
    counts = {topic: {"written": [1]} for topic in [*topics, "/a/unused"]}
    values["timeline"] |= {"bins": [0], "topics": counts}
    drive = section(document(parsed(values), "t", []), "drive")
    found = re.findall(r'<h3>(.*?)</h3>|<div class="lane-name"><b>(.*?)</b><small>(.*?) <', drive)
    return [heading or topic for heading, topic, _ in found]


def test_lanes_are_by_device_and_sensor_where_there_are_several() -> None:
    topics = {
        "/x/points": ("rear_lidar", "rear"),
        "/y/points": ("lidar", "<front>"),
        "/b/clusters": ("camera", "<front>"),
        "/tf": ("tf", ""),
    }
    assert lanes_of(topics) == [
        *("&lt;front&gt;", "/b/clusters", "/y/points"),
        *("rear", "/x/points"),
        *("the whole rig", "/tf"),
        *("not used", "/a/unused"),
    ]
    assert lanes_of({topic: (sensor, "") for topic, (sensor, _) in topics.items()}) == [
        *("/b/clusters", "/tf", "/x/points", "/y/points", "/a/unused")
    ]


def test_the_rig_says_where_sensors_are_and_look(page: str) -> None:
    rows = dict(re.findall(r"<tr><td><b>(.*?)</b>(.*?)</tr>", section(page, "rig")))
    at = {name: re.findall(r'<td class="n">(.*?)</td>', row) for name, row in rows.items()}
    assert at["left"] == ["1.00", "0.50", "1.60", "60", "0"]
    assert at["rear_lidar"] == ["-1.00", "0.00", "1.80", "180", "0"]
    assert at.keys() >= {"camera", "rear", "lidar_points"}


def test_a_sensor_without_a_place_is_named() -> None:
    values = report({"/a": stream("lidar_points", 0, 9, 10) | {"frame_id": "a", "sensor": "a"}})
    assert 'id="rig"' not in document(parsed(values), "t", [])
    values["sequences"][0]["streams"]["/b"] = stream("gps", 0, 9, 1) | {"frame_id": "b", "sensor": HOSTILE}
    turned = {"translation_m": (1, 0, 0), "rotation_xyzw": (0, 0, 0, 1)}
    values["sequences"][0]["calibration"] = {"transforms": [{"parent": "base_link", "child": "a", **turned}]}
    drawn = section(document(parsed(values), "t", []), "rig")
    assert "No transform leads from base_link to: &lt;/script&gt;" in drawn
    assert "<img" not in drawn
