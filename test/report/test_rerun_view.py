"""What is drawn for Rerun, read back with Rerun, against the truth of simulated drives."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pytest
from drives import simulated
from edgefirst.schemas import edgefirst_msgs
from PIL import Image
from recorded import record
from scipy.spatial.transform import Rotation
from typer.testing import CliRunner
from written import Written

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import ConfigError, OutputExists
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.simulation.rig import MoreSensor
from edgefirst_ros.simulation.truth import Truth
from edgefirst_ros.simulation.wire import header
from edgefirst_ros.sources.mcap import McapRecording

rerun_chunk = pytest.importorskip("rerun.chunk", reason="needs Rerun, of 520 MB: make test-view")

from edgefirst_ros.formats.scene import Box3d, Detail, Instant, Moment, Scene, Scenes  # noqa: E402
from edgefirst_ros.report.rerun import marks, output  # noqa: E402
from edgefirst_ros.report.rerun.canvas import Canvas  # noqa: E402
from edgefirst_ros.report.rerun.instants import SceneDrawing, Wanted, draw_all  # noqa: E402

DRIVE = DriveOptions(
    seconds=4, fps=10, width=320, height=180, lidar_points=600, cube_hz=2, imu_hz=50, clock="realtime",
    boxes3d=True, masks=True,
)  # fmt: skip
DATASETS = ("edgefirst", "ncore", "l5kit")
Rows = list[tuple[int | None, Any]]


class Drawn:
    """The rows of a file, by entity and component."""

    def __init__(self, path: Path) -> None:
        self.rows: dict[tuple[str, str], Rows] = {}
        for chunk in rerun_chunk.RrdReader(path).stream().to_chunks():
            batch = chunk.to_record_batch()
            times = batch.column("time").cast("int64").to_pylist() if "time" in batch.schema.names else None
            for name in batch.schema.names:
                if ":" in name:
                    for number, value in enumerate(batch.column(name)):
                        time_ns = None if times is None else times[number]
                        rows = self.rows.setdefault((str(chunk.entity_path).strip("/"), name), [])
                        rows.append((time_ns, value))

    def timed(self, path: str, component: str) -> dict[int, Any]:
        """Arrow values by time."""
        return {time_ns: value for time_ns, value in self.rows[path, component] if time_ns is not None}

    def arrays(self, path: str, component: str) -> dict[int, npt.NDArray[np.float64]]:
        return {t: np.array(value.as_py(), float) for t, value in self.timed(path, component).items()}

    def texts(self, path: str, component: str) -> list[Any]:
        return [value.as_py() for _, value in self.rows[path, component]]

    def pictures(self) -> dict[int, bytes]:
        return {t: bytes(v.as_py()[0]) for t, v in self.timed("camera/picture", "EncodedImage:blob").items()}


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["view", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def drawing(place: Path, output: Path, *arguments: str) -> Drawn:
    code, text = run(place, "-o", output, *arguments)
    assert code == 0, text
    assert text == f"{output}\n"
    return Drawn(output)


@pytest.fixture(scope="module")
def truth() -> Truth:
    return Truth.read(simulated(DRIVE).mcap)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    return drawing(simulated(DRIVE).mcap, tmp_path_factory.mktemp("recording") / "x.rrd", "-q")


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("datasets")
    topics = {"radar_cube": {"required": "never"}}
    convert([simulated(DRIVE).mcap], out, build_config({"formats": DATASETS, "topics": topics}), dataset="d")
    return out


@pytest.fixture(scope="module", params=DATASETS)
def dataset(request: pytest.FixtureRequest, datasets: Path) -> Drawn:
    (folder,) = (path for path in (datasets / request.param).iterdir() if path.is_dir())
    return drawing(folder, datasets / f"{request.param}.rrd", "-q")


def check_lidar(drawn: Drawn, truth: Truth, least: int) -> None:
    """Every point lies on what there was at its time, as seen from where the lidar was."""
    sweeps = drawn.arrays("lidar", "Points3D:positions")
    assert len(sweeps) >= least
    for time_ns, points in sweeps.items():
        assert len(points) > 100
        pose = truth.sensor("lidar", time_ns)
        off_m, _ = truth.surface_distance(points @ pose[:3, :3].T + pose[:3, 3], time_ns)
        assert np.percentile(off_m, 90) < 0.1


def check_boxes(drawn: Drawn, truth: Truth, period_ns: int = 2_000_000) -> None:
    """Every box frames something of the world at its time."""
    centres = drawn.arrays("camera/boxes2d", "Boxes2D:centers")
    halves = drawn.arrays("camera/boxes2d", "Boxes2D:half_sizes")
    assert sum(map(len, centres.values())) > 20
    for time_ns, found in centres.items():
        near = [truth.box_in_image(index, time_ns) for index in range(len(truth.world.boxes))]
        true = np.array([box for box in near if box is not None]).reshape(-1, 4)
        for centre, half in zip(found.reshape(-1, 2), halves[time_ns].reshape(-1, 2), strict=True):
            edges = np.array([*(centre - half), *(centre + half)])
            assert np.abs(true - edges).max(axis=1).min() < 3.0


def check_way(drawn: Drawn, truth: Truth, off_m: float) -> None:
    """The rig moves as it did."""
    way = sorted(drawn.arrays("rig", "Transform3D:translation").items())
    first_ns, first = way[0]
    start = truth.rig(first_ns)[:3, 3]
    for time_ns, position in way:
        gone = float(np.linalg.norm(position - first))
        assert abs(gone - np.linalg.norm(truth.rig(time_ns)[:3, 3] - start)) < off_m


class TestRecording:
    def test_every_measurement_is_drawn_at_its_time(self, recording: Drawn, truth: Truth) -> None:
        counts = truth.data["counts"]
        for path, component, topic in (
            ("lidar", "Points3D:positions", "/lidar/points"),
            ("radar", "Points3D:positions", "/radar/targets"),
            ("radar_cube", "Tensor:data", "/radar/cube"),
            ("boxes3d", "Boxes3D:centers", "/fusion/boxes3d"),
            ("imu/rotation", "Scalars:scalars", "/imu"),
            ("imu/acceleration", "Scalars:scalars", "/imu"),
            ("camera/picture", "EncodedImage:blob", "/camera/h264"),
        ):
            times = np.array(sorted(recording.timed(path, component)))
            assert len(times) == counts[topic], path
            assert np.abs(times - np.sort(truth.true_ns(topic))).max() < 5_000_000, path

    def test_points_and_boxes_are_where_things_were(self, recording: Drawn, truth: Truth) -> None:
        check_lidar(recording, truth, truth.data["counts"]["/lidar/points"])
        check_boxes(recording, truth)
        check_way(recording, truth, 0.5)

    def test_pictures_are_of_their_time(self, recording: Drawn) -> None:
        pictures = [Image.open(io.BytesIO(data)) for data in recording.pictures().values()]
        assert {picture.size for picture in pictures} == {(320, 180)}

    def test_masks_cover_what_the_model_saw(self, recording: Drawn, truth: Truth) -> None:
        masks = recording.timed("camera/masks", "EncodedImage:blob")
        assert len(masks) == truth.data["counts"]["/model/mask"]
        shares = []
        for time_ns, blob in masks.items():
            drawn = np.asarray(Image.open(io.BytesIO(bytes(blob.as_py()[0])))) > 0
            true = truth.mask(time_ns, (320, 180)) > 0
            shares.append((drawn & true).sum() / max(1, (drawn | true).sum()))
        assert np.median(shares) > 0.7

    def test_sensors_are_mounted_in_named_frames(self, recording: Drawn) -> None:
        path = "mounts/lidar"
        assert recording.texts(path, "Transform3D:parent_frame")[-1] == ["base_link"]
        np.testing.assert_allclose(recording.texts(path, "Transform3D:translation")[-1], [[1.0, 0.1, 1.8]])
        assert recording.texts("lidar", "CoordinateFrame:frame") == [["lidar"]]
        assert recording.texts("camera", "Pinhole:parent_frame") == [["camera_optical"]]
        (matrix,) = recording.texts("camera", "Pinhole:image_from_camera")
        assert matrix[0][0] == pytest.approx(320 * 0.66, rel=0.01)
        assert recording.texts("camera/picture", "CoordinateFrame:frame") == [["camera picture"]]

    def test_the_way_is_on_the_map(self, recording: Drawn, truth: Truth) -> None:
        here = recording.arrays("place/now", "GeoPoints:positions")
        for time_ns, found in here.items():
            east_north = truth.enu(*found[0], truth.world.altitude_m)[:2]
            assert np.linalg.norm(east_north - truth.rig(time_ns)[:2, 3]) < 1.0
        assert ("place/way", "GeoLineStrings:line_strings") in recording.rows
        assert ("track", "LineStrips3D:strips") in recording.rows

    def test_a_part_and_fewer_pictures(self, tmp_path: Path, recording: Drawn) -> None:
        part = drawing(
            simulated(DRIVE).mcap, tmp_path / "x.rrd", "--start", "1", "--end", "3", "--rate", "2", "-q"
        )
        assert 3 <= len(part.pictures()) <= 5
        times = part.timed("imu/rotation", "Scalars:scalars")
        whole = sorted(recording.timed("imu/rotation", "Scalars:scalars"))
        assert abs(min(times) - whole[0] - 1e9) < 1e8
        assert max(times) - min(times) < 2.1e9


class TestDatasets:
    def test_the_rig_goes_its_way(self, dataset: Drawn, truth: Truth) -> None:
        check_way(dataset, truth, 0.7)
        assert dataset.timed("speed", "Scalars:scalars")

    def test_boxes_are_drawn_in_space(self, dataset: Drawn) -> None:
        boxes = dataset.arrays("boxes3d", "Boxes3D:centers")
        assert sum(map(len, boxes.values())) > 20

    def test_edgefirst_has_files_and_rows_of_every_sample(self, datasets: Path, truth: Truth) -> None:
        drawn = drawing(datasets / "edgefirst" / "d", datasets / "e.rrd", "-q")
        written = Written(datasets / "edgefirst" / "d")
        files = written.of_kind("camera.jpeg")
        assert sorted(drawn.pictures().values()) == sorted(files.values())
        assert len(drawn.timed("radar_cube", "Tensor:data")) == len(written.of_kind("radar.png"))
        assert len(drawn.timed("radar", "Points3D:positions")) == len(written.of_kind("radar.pcd"))
        assert ("camera/masks", "EncodedImage:blob") in drawn.rows
        check_boxes(drawn, truth)
        np.testing.assert_allclose(
            drawn.texts("mounts/lidar", "Transform3D:translation")[-1], [[1.0, 0.1, 1.8]]
        )
        here = drawn.arrays("place/now", "GeoPoints:positions")
        assert all(abs(found[0][0] - truth.world.latitude_deg) < 0.01 for found in here.values())

    def test_what_a_sample_lacks_is_not_shown_with_it(self, datasets: Path, tmp_path: Path) -> None:
        folder = Path(shutil.copytree(datasets / "edgefirst" / "d", tmp_path / "d"))
        with zipfile.ZipFile(folder / "d.zip") as whole:
            entries = {entry.filename: whole.read(entry) for entry in whole.infolist()}
        last = max(name for name in entries if name.endswith(".camera.jpeg")).removesuffix("camera.jpeg")
        assert entries.pop(f"{last}lidar.pcd", None), "the last sample has a cloud"
        with zipfile.ZipFile(folder / "d.zip", "w") as fewer:
            for name, data in entries.items():
                fewer.writestr(name, data)
        clouds = drawing(folder, tmp_path / "x.rrd", "-q").arrays("lidar", "Points3D:positions")
        *before, at_last = (len(cloud) for _, cloud in sorted(clouds.items()))
        assert at_last == 0
        assert min(before) > 0

    def test_ncore_has_every_frame_and_series(self, datasets: Path, truth: Truth) -> None:
        drawn = drawing(datasets / "ncore", datasets / "n.rrd", "-q")
        check_lidar(drawn, truth, 30)
        check_boxes(drawn, truth)
        assert len(drawn.timed("imu/rotation", "Scalars:scalars")) > 150

    def test_the_current_schema_has_the_latitude_first(self, tmp_path: Path, truth: Truth) -> None:
        config = build_config(
            {"rate_hz": 1, "edgefirst": {"schema_version": "2026.10", "container": "folder"}}
        )
        convert([simulated(DRIVE).mcap], tmp_path, config, dataset="d")
        table = tmp_path / "edgefirst" / "d" / "d.arrow"
        rows, stated = pl.read_ipc(io.BytesIO(table.read_bytes())), {"schema_version": "2026.10"}
        wider = rows.with_columns(pl.col("location").cast(pl.Array(pl.Float64, 2)))
        for each, metadata in ((rows, stated), (wider, stated), (rows, None)):
            stored = each.to_arrow(compat_level=pl.CompatLevel.oldest()).replace_schema_metadata(metadata)
            with pa.ipc.new_file(table, stored.schema) as out:
                out.write_table(stored)
            drawn = drawing(tmp_path, tmp_path / "x.rrd", "-q")
            here = drawn.arrays("place/now", "GeoPoints:positions")
            assert here
            assert all(abs(found[0][0] - truth.world.latitude_deg) < 0.01 for found in here.values())

    def test_a_folder_above_is_enough(self, datasets: Path, tmp_path: Path) -> None:
        drawn = drawing(datasets, tmp_path / "x.rrd", "-q", "--every-n", "10")
        assert len(drawn.pictures()) == 4


def optical(data: bytes) -> bytes:
    """A Detect in base_link as one in camera_optical, which is 1.2 m ahead of it and 1.5 m above."""
    detect = edgefirst_msgs.Detect.from_cdr(data)
    boxes = [
        edgefirst_msgs.DetectBox(
            box.center_x, box.center_y + 1.5, box.width, box.height, box.label, box.score,
            box.distance - 1.2, box.speed, box.track_id, box.track_lifetime, box.track_created,
        )
        for box in detect.boxes
    ]  # fmt: skip
    stamp = detect.stamp
    stamp_ns = stamp.sec * 10**9 + stamp.nanosec
    return edgefirst_msgs.Detect(header(stamp_ns, "camera_optical"), stamp, stamp, stamp, boxes).to_bytes()


@pytest.fixture(scope="module")
def optical_places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The drive with boxes in an optical frame, and datasets of it."""
    folder = tmp_path_factory.mktemp("optical")
    messages = list(McapRecording(simulated(DRIVE).mcap).messages())
    turned = [
        message._replace(data=optical(message.data)) if message.topic == "/fusion/boxes3d" else message
        for message in messages
    ]
    mcap = record(folder / "optical.mcap", turned)
    convert([mcap], folder, build_config({"formats": ("edgefirst", "ncore")}), dataset="d")
    return {"recording": mcap, "edgefirst": folder / "edgefirst", "ncore": folder / "ncore"}


class TestBoxesInAnOpticalFrame:
    @pytest.mark.parametrize("name", ["recording", "edgefirst", "ncore"])
    def test_they_are_where_things_were(
        self, optical_places: dict[str, Path], tmp_path: Path, truth: Truth, name: str
    ) -> None:
        drawn = drawing(optical_places[name], tmp_path / "x.rrd", "-q")
        assert drawn.texts("boxes3d", "CoordinateFrame:frame") == [["camera_optical"]]
        (moved,) = drawn.texts("mounts/camera_optical", "Transform3D:translation")[-1]
        (xyzw,) = drawn.texts("mounts/camera_optical", "Transform3D:quaternion")[-1]
        turned = Rotation.from_quat(xyzw).as_matrix()
        sizes = drawn.arrays("boxes3d", "Boxes3D:half_sizes")
        headings = drawn.arrays("boxes3d", "Boxes3D:quaternions")
        count = 0
        for time_ns, centres in drawn.arrays("boxes3d", "Boxes3D:centers").items():
            pose = truth.rig(time_ns)
            corners = [truth.box_corners(index, time_ns) for index in range(len(truth.world.boxes))]
            true = np.array([each.mean(axis=0) for each in corners])
            heights = np.array([np.ptp(each[:, 2]) for each in corners])
            for centre, half, xyzw in zip(centres, sizes[time_ns], headings[time_ns], strict=True):
                place = turned @ centre + moved
                away = np.linalg.norm(true - (pose[:3, :3] @ place + pose[:3, 3]), axis=1)
                assert away.min() < 0.5
                upright = np.abs(turned @ Rotation.from_quat(xyzw).as_matrix())[2] @ (2 * half)
                assert upright == pytest.approx(heights[away.argmin()], abs=0.3)
                count += 1
        assert count > 20


EARLIER_S = 7200


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three drives of 3 s: two at the same time, and one two hours before them whose name comes last."""
    out = tmp_path_factory.mktemp("several")
    now = DriveOptions(
        seconds=3, fps=5, width=160, height=90, lidar_points=200, cube_hz=1, imu_hz=25, clock="realtime",
    )  # fmt: skip
    earlier_ns = now.start_ns - EARLIER_S * 10**9
    drives = [
        replace(now, host="a"),
        replace(now, host="b", seed=2),
        replace(now, host="c", seed=3, start_ns=earlier_ns),
    ]
    config = build_config({"formats": DATASETS, "topics": {"radar_cube": {"required": "never"}}})
    convert([simulated(drive).mcap for drive in drives], out, config, dataset="d")
    return out


class TestSeveralSequences:
    """Each has its own beginning, whichever came first, and its own local frame."""

    @pytest.mark.parametrize(
        ("options", "frames", "scenes"),
        [
            ((), 15, 29),
            (("--rate", "1"), 3, 3),
            (("--rate", "0.5"), 2, 2),
            (("--end", "1"), 5, 10),
            (("--start", "2"), 5, 9),
            (("--every-n", "5"), 3, 6),
        ],
    )
    def test_the_same_is_drawn_of_each(
        self, several: Path, tmp_path: Path, options: tuple[str, ...], frames: int, scenes: int
    ) -> None:
        for name, path, component, count in (
            ("edgefirst", "camera/picture", "EncodedImage:blob", frames),
            ("l5kit", "boxes3d", "Boxes3D:centers", scenes),
        ):
            drawn = drawing(several / name, tmp_path / "x.rrd", "-q", *options)
            times = np.array([time_ns for time_ns, _ in drawn.rows[path, component]])
            early = int((times < times.max() - EARLIER_S * 5 * 10**8).sum())
            assert (early, len(times) - early) == (count, 2 * count), name

    @pytest.mark.parametrize("name", DATASETS)
    def test_each_has_a_way_of_its_own(self, several: Path, tmp_path: Path, name: str) -> None:
        drawn = drawing(several / name, tmp_path / "x.rrd", "-q")
        ways = drawn.texts("track", "LineStrips3D:strips")
        assert len(ways) == 3
        for (corners,) in ways:
            assert np.linalg.norm(np.diff(np.array(corners), axis=0), axis=1).max() < 10
        assert len(drawn.rows["speed", "Scalars:scalars"]) >= 3 * 5


def test_the_way_of_rows_is_on_the_ellipsoid(tmp_path: Path) -> None:
    """At the equator a minute of latitude is 1842.9 m, one of longitude 1855.3 m, across 180 degrees, too."""

    class Places(Scenes):
        def moments(self) -> list[Moment]:
            return [Moment("s", number, number * 10**9) for number in range(2)]

        def scene(self, moment: Moment, _: Detail = Detail.PICTURE) -> Scene:
            place = [(0.0, 180 - 1 / 120), (1 / 60, -180 + 1 / 120)][moment.frame or 0]
            return Scene(moment, place=place, attitude_deg=(0.0, 0.0, 0.0))

    places = Places()
    with output.to_file(tmp_path / "x.rrd", "x") as canvas:
        for number, instant in enumerate(SceneDrawing(places, places.moments(), None).instants()):
            instant.draw(canvas, number)
    way = Drawn(tmp_path / "x.rrd").arrays("rig", "Transform3D:translation")
    np.testing.assert_allclose(way[0][0], [0.0, 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(way[10**9][0], [1855.3, 1842.9, 0.0], atol=0.3)


class TestOutput:
    def test_what_is_no_drawing_is_not_overwritten(self, tmp_path: Path) -> None:
        recording = tmp_path / "x.rrd"
        recording.write_bytes(b"\x89MCAP0\r\n")
        code, text = run(simulated(DRIVE).mcap, "-o", recording)
        assert (code, recording.read_bytes()) == (2, b"\x89MCAP0\r\n")
        assert "is no file of Rerun" in text
        code, text = run(simulated(DRIVE).mcap, "-o", tmp_path / "x.mcap")
        assert (code, list(tmp_path.iterdir())) == (2, [recording])
        assert "end in .rrd" in text

    def test_a_drawing_is_replaced(self, tmp_path: Path) -> None:
        path = tmp_path / "x.rrd"
        for name in ("one", "two"):
            with output.to_file(path, name) as canvas:
                canvas.draw("a", canvas_box())
            assert path.read_bytes().startswith(output.MAGIC)
        assert list(tmp_path.iterdir()) == [path]

    def test_an_error_leaves_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(OutputExists), output.to_file(tmp_path / "x.rrd", "x"):
            raise OutputExists("for a test")
        assert list(tmp_path.iterdir()) == []

    def test_without_a_display_it_says_what_to_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("DISPLAY", "WAYLAND_DISPLAY"):
            monkeypatch.delenv(name, raising=False)
        code, text = run(simulated(DRIVE).mcap)
        assert code == 2
        assert "-o x.rrd" in text
        assert "--web" in text

    def test_a_browser_of_this_machine_alone_reaches_it_as_long_as_it_lasts(self) -> None:
        told: list[str] = []
        with output.to_web("x", told.append) as canvas:
            canvas.draw("a", canvas_box())
            page, data = (int(port) for port in re.findall(r"127\.0\.0\.1(?::|%3A)([0-9]+)", told[0]))
            with urllib.request.urlopen(f"http://127.0.0.1:{page}/", timeout=30) as answer:
                assert b"rerun" in answer.read().lower()
            # On Linux all of 127.0.0.0/8 is this machine: what listens everywhere listens there, too.
            for port in (page, data):
                with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port)):
                    pass
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", page)):
            pass

    def test_ctrl_c_ends_it_once_everything_is_drawn(self, datasets: Path) -> None:
        command = [sys.executable, "-m", "edgefirst_ros", "view", str(datasets / "l5kit"), "--web"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            address = process.stdout.readline()
            lines = iter(process.stderr.readline, "")
            assert next(line for line in lines if "is drawn" in line) == "everything is drawn; Ctrl-C ends\n"
            page = int(address.split(":")[2].partition("/")[0])
            socket.create_connection(("127.0.0.1", page)).close()
            process.send_signal(signal.SIGINT)
            assert (process.wait(60), process.stdout.read(), process.stderr.read()) == (0, "", "")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", page))

    def test_nothing_to_draw_is_not_waited_for(self, datasets: Path, tmp_path: Path) -> None:
        for where in (("--web",), ("-o", str(tmp_path / "x.rrd"))):
            code, text = run(datasets / "l5kit", *where, "--start", "1000", "-q")
            assert code == 1
            assert "there was nothing to draw\n" in text
            assert "everything is drawn" not in text

    def test_ctrl_c_amid_the_drawing_ends_the_page(
        self, datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        draw = Canvas.pose

        def interrupted(*arguments: Any) -> None:  # noqa: ANN401
            monkeypatch.setattr(Canvas, "pose", draw)
            draw(*arguments)
            signal.raise_signal(signal.SIGINT)

        for where, end in (
            (("--web",), "ending; press Ctrl-C again to stop at once\ninterrupted\n"),
            (("-o", str(tmp_path / "x.rrd")), "interrupted: what had been read is drawn\n"),
        ):
            monkeypatch.setattr(Canvas, "pose", interrupted)
            code, text = run(datasets / "l5kit", *where, "-q")
            assert code == 130
            assert end in text
        assert len(Drawn(tmp_path / "x.rrd").rows["boxes3d", "Boxes3D:centers"]) == 1

    def test_nothing_there(self, tmp_path: Path) -> None:
        assert run(tmp_path / "none", "-o", tmp_path / "x.rrd")[0] == 2
        assert list(tmp_path.iterdir()) == []


def canvas_box() -> Any:  # noqa: ANN401 - Rerun's
    return marks.boxes_3d([Box3d((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))])


class Counted:
    """Ten instants a second."""

    def __init__(self, count: int, time_of: Callable[[int], int | None] = lambda n: n * 10**8) -> None:
        self.drawn: list[int] = []
        self._count, self._time_of = count, time_of

    def __len__(self) -> int:
        return self._count

    def begin(self, canvas: Canvas) -> None:
        pass

    def instants(self) -> Iterator[Instant]:
        for number in range(self._count):
            yield Instant(self._time_of(number), lambda _, __, number=number: self.drawn.append(number))


class TestSelection:
    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            (Wanted(), list(range(10))),
            (Wanted(every_n=4), [0, 4, 8]),
            (Wanted(rate_hz=5), [0, 2, 4, 6, 8]),
            (Wanted(window=lambda first_ns: (first_ns + 2 * 10**8, first_ns + 5 * 10**8)), [2, 3, 4]),
        ],
    )
    def test_those_that_are_wanted(self, tmp_path: Path, wanted: Wanted, expected: list[int]) -> None:
        counted = Counted(10)
        with output.to_file(tmp_path / "x.rrd", "x") as canvas:
            assert draw_all([counted], canvas, wanted, threading.Event(), lambda _: None) == len(expected)
        assert counted.drawn == expected

    def test_the_rate_holds_from_the_first_instant_on(self, tmp_path: Path) -> None:
        counted = Counted(30, lambda number: 1_777_626_000_000_000_000 + number * 10**8)
        with output.to_file(tmp_path / "x.rrd", "x") as canvas:
            draw_all([counted], canvas, Wanted(rate_hz=1), threading.Event(), lambda _: None)
        assert counted.drawn == [0, 10, 20]

    def test_it_stops_when_asked(self, tmp_path: Path) -> None:
        counted, stop = Counted(10), threading.Event()
        with output.to_file(tmp_path / "x.rrd", "x") as canvas:
            draw_all([counted], canvas, Wanted(), stop, lambda seen: stop.set() if seen == 3 else None)
        assert counted.drawn == [0, 1, 2]

    def test_without_times_a_part_by_time_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="no times"), output.to_file(tmp_path / "x.rrd", "x") as canvas:
            draw_all(
                [Counted(2, lambda _: None)], canvas, Wanted(rate_hz=1), threading.Event(), lambda _: None
            )


def test_the_report_says_how_many_samples_there_are(datasets: Path) -> None:
    """The drawing and the dataset are of the same frames."""
    report = json.loads((datasets / "edgefirst" / "d" / "capture_report.json").read_text())
    assert report["samples"] == len(Written(datasets / "edgefirst" / "d").of_kind("camera.jpeg"))


def test_each_camera_and_each_lidar_of_a_rig_has_its_own_place(tmp_path: Path) -> None:
    """The first of a kind is called like it, others like their frames; their pictures do not alternate."""
    more = (
        MoreSensor("camera", "left/image", "left_optical", (1.0, 0.5, 1.6), (0, 0, 60), info="left/info"),
        MoreSensor("lidar", "rear/points", "rear_lidar", (-1.0, 0.0, 1.8), first_ms=55.0, points=640),
    )
    made = simulated(replace(DRIVE, more=more, seconds=2, boxes3d=False, masks=False))
    (tmp_path / "rig.yaml").write_text(
        "topics:\n  left: {role: camera, topic: left/image}\n"
        "  left_info: {role: camera_info, topic: left/info}\n"
        "  rear: {role: lidar_points, topic: rear/points}\n"
    )
    found = drawing(made.mcap, tmp_path / "rig.rrd", "-q", "--config", str(tmp_path / "rig.yaml"))
    own, left = (
        found.timed(f"{path}/picture", "EncodedImage:blob") for path in ("camera", "camera_left_optical")
    )
    assert (len(own), len(left)) == (20, 20)
    assert not own.keys() & left.keys()
    resolution = [row.as_py()[0] for _, row in found.rows["camera_left_optical", "Pinhole:resolution"]]
    assert resolution == [[320.0, 180.0]]
    clouds = [found.arrays(path, "Points3D:positions") for path in ("lidar", "lidar_rear_lidar")]
    assert all(len(each) > 15 for each in clouds)
