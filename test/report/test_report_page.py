"""The page of a drive with known faults, of every format, of a recording, of old and of hostile reports."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulated
from faulty import FaultyOptions
from PIL import Image
from reports import SECTIONS, START_NS, data_of, lane_of, ns, read, report, section, stream, verdict
from typer.testing import CliRunner, Result

from edgefirst_ros.cli.app import app
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.transform import matrix_of
from edgefirst_ros.report.drawing import Projection, draw_points, from_above, projected
from edgefirst_ros.report.models import parsed, read_report
from edgefirst_ros.report.page import make
from edgefirst_ros.report.page.lanes import TimeAxis
from edgefirst_ros.report.page.make import document
from edgefirst_ros.report.runs import find_run

DRIVE = FaultyOptions(
    seconds=16, fps=5, width=320, height=180, lidar_points=600, cube_hz=0, imu_hz=20,
    silent={"lidar/points": ((6.0, 10.0),)}, clock="realtime",
)  # fmt: skip
KEYS = ("pairing", "timeline", "configuration", "versions")
MOST_BYTES = 5 << 20
OUTSIDE = ("edgefirst/../../secret/x", "/etc/passwd", "..", "ncore/../../secret/x")
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\u202e\x1b[2J"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def drive() -> Path:
    return simulated(DRIVE).mcap


@pytest.fixture(scope="module")
def output(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All formats of the drive."""
    out = tmp_path_factory.mktemp("page") / "out"
    options = ("--format", "edgefirst,ncore,l5kit", "--name", "d")
    done = run("convert", drive, "-o", out, *options)
    assert done.exit_code == 0, done.output
    assert str(out / "edgefirst" / "d" / "capture_report.html") in done.output
    return out


@pytest.fixture(scope="module")
def page(output: Path) -> str:
    return read(output / "edgefirst" / "d" / "capture_report.html")


def pictures(page: str) -> list[Image.Image]:
    found = re.findall(r"data:image/jpeg;base64,([A-Za-z0-9+/=]+)", page)
    return [Image.open(io.BytesIO(base64.b64decode(each))) for each in found]


class TestOfADrive:
    def test_the_verdict_names_the_fault_at_its_time(self, page: str) -> None:
        assert re.match(r"fair: 80 samples; lidar/points lost 4(\.\d)? s at 00:06$", verdict(page))

    def test_the_lane_has_the_rate_of_the_time_when_it_sent(self, page: str) -> None:
        assert re.search(r"lidar/points</b>.*?10\.0 Hz", section(page, "drive"))

    def test_the_samples_say_what_they_lack(self, page: str) -> None:
        """The model sees all frames, and the lidar lacks a quarter."""
        samples = section(page, "samples")
        assert "60 of 80 samples have a message of every sensor that was sending" in samples
        assert "60 (75.0 %)" in samples

    def test_the_lane_has_the_gap_where_it_was(self, page: str) -> None:
        lane = lane_of(page, "/lidar/points")
        ((begin, end),) = lane["gaps"]
        assert (begin, end) == pytest.approx((6.0, 10.0), abs=0.2)
        inside = [
            sum(each[n] for each in lane["counts"].values())
            for n, place in enumerate(lane["x"])
            if begin + 0.2 < place and place + lane["bin"] < end
        ]
        assert inside
        assert not any(inside)
        assert not lane_of(page, "/camera/h264")["gaps"]

    def test_the_lanes_hold_every_message(self, page: str, output: Path) -> None:
        topics = json.loads((output / "edgefirst" / "d" / "capture_report.json").read_text())["topics"]
        for topic, account in topics.items():
            counts = lane_of(page, topic)["counts"]
            assert sum(map(sum, counts.values())) == account["received"], topic

    def test_every_section_has_its_content(self, page: str) -> None:
        for name in SECTIONS:
            assert "Not shown" not in section(page, name), name
        assert len(pictures(page)) >= 5
        assert "80 camera frames" in section(page, "samples")
        assert page.index('id="verdict"') < page.index('id="pictures"') < page.index('id="attention"')
        assert re.search(r'lidar/points</b></td><td class="n">[1-9]\d+<', section(page, "times"))
        assert "<polyline" in section(page, "track")
        assert "lookahead_s" in section(page, "configuration")
        assert "edgefirst_ros 0" in section(page, "configuration")

    def test_the_worst_pair_is_shown(self, page: str) -> None:
        assert "worst pairing: lidar/points" in section(page, "pictures")

    def test_it_is_the_same_each_time_and_small(self, page: str, output: Path, tmp_path: Path) -> None:
        again = make.make_page(output / "edgefirst" / "d", tmp_path / "again.html")
        assert read(again) == page
        assert len(page) < MOST_BYTES

    def test_it_needs_no_network(self, page: str) -> None:
        linked = re.findall(r"""(?:src|href|action|data)\s*=\s*["'](?!data:|#)([^"']+)""", page)
        assert not [link for link in linked if not link.startswith("2")]
        assert "default-src 'none'" in page

    def test_no_report_leaves_it_out(self, drive: Path, tmp_path: Path) -> None:
        done = run("convert", drive, "-o", tmp_path, "--no-report", "--rate", "1")
        assert done.exit_code == 0
        assert not list(tmp_path.rglob("*.html"))

    def test_a_page_that_cannot_be_made_is_a_warning(
        self, drive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("no [bold]ink[/]")

        monkeypatch.setattr(make, "make_page", broken)
        done = run("convert", drive, "-o", tmp_path, "--rate", "1")
        assert done.exit_code == 0
        assert "warning: the report page could not be made: no [bold]ink[/]" in done.output

    def test_an_earlier_page_does_not_outlive_its_dataset(self, drive: Path, tmp_path: Path) -> None:
        arguments = ("convert", drive, "-o", tmp_path, "--rate", "1", "--name", "d")
        assert run(*arguments).exit_code == 0
        assert run(*arguments, "--overwrite", "--no-report").exit_code == 0
        assert not list(tmp_path.rglob("*.html"))


class TestOfEachFormat:
    def test_ncore_alone(self, output: Path, tmp_path: Path) -> None:
        alone = tmp_path / "out" / "ncore"
        shutil.copytree(output / "ncore", alone)
        (folder,) = alone.iterdir()
        shutil.copy(output / "edgefirst" / "d" / "capture_report.json", alone / "d.capture_report.json")
        path = make.make_page(folder)
        assert path == alone / "d.capture_report.html"
        found = pictures(read(path))
        assert len(found) >= 5
        assert found[0].size == (320, 180)

    def test_l5kit_alone_is_seen_from_above(self, output: Path, tmp_path: Path) -> None:
        done = run("report", output / "l5kit" / "d.zarr", "-o", tmp_path / "x.html")
        assert done.exit_code == 0, done.output
        found = pictures(read(tmp_path / "x.html"))
        assert len(found) >= 5
        assert all(np.ptp(np.asarray(each)) > 100 for each in found)

    def test_a_dataset_without_a_report_says_so(self, output: Path, tmp_path: Path) -> None:
        shutil.copytree(output / "ncore", tmp_path / "n")
        (folder,) = (tmp_path / "n").iterdir()
        page = read(make.make_page(folder, tmp_path / "x.html"))
        assert "there is no capture_report.json beside the dataset" in section(page, "drive")
        assert verdict(page) == "unknown: 80 samples; there is no capture_report.json beside the dataset"
        assert 'class="verdict unknown"' in page
        assert "no loss" not in section(page, "attention")
        assert " at 00:00" not in section(page, "pictures")
        assert len(pictures(page)) >= 5

    def test_the_report_finds_the_datasets(self, output: Path, tmp_path: Path) -> None:
        path = output / "edgefirst" / "d" / "capture_report.json"
        assert len(pictures(read(make.make_page(path, tmp_path / "x.html")))) >= 5

    def test_boxes_and_lidar_are_drawn(self, output: Path, tmp_path: Path) -> None:
        """The same pictures without calibration have no dots, and without the table no boxes."""
        folder = tmp_path / "edgefirst" / "d"
        shutil.copytree(output / "edgefirst" / "d", folder)
        whole = pictures(read(folder / "capture_report.html"))[0]
        (folder / "d.arrow").unlink()
        unboxed = pictures(read(make.make_page(folder, tmp_path / "b.html")))[0]
        values = json.loads((folder / "capture_report.json").read_text())
        values["sequences"][0]["calibration"] = None
        (folder / "capture_report.json").write_text(json.dumps(values))
        plain = pictures(read(make.make_page(folder, tmp_path / "p.html")))[0]
        assert np.abs(np.asarray(whole, int) - np.asarray(unboxed, int)).max() > 100
        assert np.abs(np.asarray(plain, int) - np.asarray(unboxed, int)).max() > 100


class TestOfARecording:
    def test_it_is_surveyed_without_a_dataset(self, drive: Path, tmp_path: Path) -> None:
        done = run("report", drive, "-o", tmp_path / "r.html", "-q")
        assert done.exit_code == 0, done.output
        page = read(tmp_path / "r.html")
        assert "lidar/points lost 4" in verdict(page)
        assert "at 00:06" in verdict(page)
        assert len(pictures(page)) >= 6
        assert lane_of(page, "/imu")["counts"].keys() == {"used"}
        for name in ("drive", "times", "track", "accounting"):
            assert "Not shown" not in section(page, name), name
        assert [path.name for path in tmp_path.iterdir()] == ["r.html"]

    def test_its_page_is_beside_it_by_default(self, drive: Path, tmp_path: Path) -> None:
        shutil.copy(drive, tmp_path / "a.mcap")
        assert run("report", tmp_path / "a.mcap").exit_code == 0
        assert "lidar/points lost" in verdict(read(tmp_path / "a.html"))


class TestOfOldReports:
    def test_sections_say_what_is_missing(self, output: Path, tmp_path: Path) -> None:
        folder = tmp_path / "edgefirst" / "d"
        shutil.copytree(output / "edgefirst" / "d", folder)
        values = json.loads((folder / "capture_report.json").read_text())
        for key in KEYS:
            del values[key]
        for sequence in values["sequences"]:
            for key in ("streams", "track", "calibration", "driven_m"):
                del sequence[key]
        (folder / "capture_report.json").write_text(json.dumps(values))
        page = read(make.make_page(folder))
        assert verdict(page) == "fair: 80 samples; 40 of 160 messages of lidar/points never arrived"
        for name in ("drive", "track", "configuration"):
            assert "Not shown: this report was made by an earlier version" in section(page, name), name
        assert "p50" in section(page, "times")
        assert len(pictures(page)) >= 4
        assert "/lidar/points" in section(page, "accounting")


def hostile() -> dict[str, Any]:
    streams = {HOSTILE: stream("lidar_points", 0, 60, 10, ((20, 24),)) | {"frame_id": HOSTILE}}
    values = report({"/camera": stream("camera", 0, 60, 30), **streams})
    values["dataset"] = HOSTILE
    values["topics"][HOSTILE] |= {"type": HOSTILE, "refused": 600, "reasons": {"refused": {HOSTILE: 600}}}
    values["topics"][HOSTILE]["refused_parts"] = {HOSTILE: 3}
    values["formats"] = {HOSTILE: {HOSTILE: 3}}
    worst = {"error_ms": 1.5, "sequence": HOSTILE, "frame": 1, "time_ns": START_NS}
    values["pairing"] = {HOSTILE: {"worst": worst}}
    values["companions"] = {HOSTILE: 540}
    values["topics"][HOSTILE]["pairing_error_ms"] = {HOSTILE: 1.0}
    values["timeline"] = {
        "start_ns": START_NS,
        "bin_ns": 10**9,
        "bins": [0, 1],
        "topics": {HOSTILE: {"written": [3, 4]}},
        "reference_frames": {"sample": [1, 1], HOSTILE: [1, 1]},
    }
    sequence = values["sequences"][0]
    sequence |= {"name": HOSTILE, "ended": HOSTILE}
    sequence["clocks"] = {HOSTILE: {"source": HOSTILE, "finding": HOSTILE}}
    sequence["track"] = {
        "origins": [{"latitude": 1.0, "longitude": 2.0}],
        "bases": [HOSTILE],
        "points": [[ns(n), n, 0, 0, 0, 0] for n in range(10)],
    }
    sequence["poses_s"] = {"position": {HOSTILE: 3.0}}
    for key in ("notes", "hints", "warnings", "files"):
        values[key] = [HOSTILE]
    values["recordings"] = [{"file": HOSTILE, "bytes": 3, "faults": []}]
    values["configuration"], values["versions"] = {HOSTILE: HOSTILE}, {HOSTILE: HOSTILE}
    return values


class TestOfHostileReports:
    def test_no_text_becomes_markup(self) -> None:
        page = document(parsed(hostile()), HOSTILE, [], HOSTILE)
        assert page.count("&lt;img src=x") > 20
        assert "<img src=x" not in page
        assert "\u202e" not in page
        assert "\x1b" not in page
        assert page.count("</script>") == 3
        assert HOSTILE in json.dumps(data_of(page)) or data_of(page)["lanes"]

    @pytest.mark.long(cases=1)
    @pytest.mark.parametrize("size", [10, 400, 5_000])
    def test_absurd_counts_give_a_page_of_bounded_size(self, size: int) -> None:
        names = [f"/{HOSTILE}/{number}" for number in range(size)]
        values = report({name: stream("lidar_points", 0, 60, 10, ((20, 24),)) for name in names[:1000]})
        values["topics"] = {
            name: {"received": 2**53, "reasons": {"refused": {f"{n}{'x' * 3000}": 1 for n in range(40)}}}
            for name in names[:500]
        }
        values["timeline"]["bins"] = list(range(2000))
        values["timeline"]["topics"] = {name: {"written": [2**53] * 2000} for name in names[:120]}
        values["warnings"] = ["y" * 4000] * size
        values["sequences"] *= 20
        start_s = time.monotonic()
        page = document(parsed(values), "t", [])
        assert len(page) < MOST_BYTES
        assert time.monotonic() - start_s < 60

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("samples", -1),
            ("samples", "many"),
            ("topics", []),
            ("topics", {"a": {"received": 1e300}}),
            ("sequences", [{"name": "s", "start_ns": "then"}]),
            ("sequences", [{"name": "s", "start_ns": 10**30}]),
            ("timeline", {"start_ns": 0, "bin_ns": 0, "bins": [0], "topics": {}}),
            (
                "timeline",
                {"start_ns": 2**63, "bin_ns": 2**62, "bins": [0, 2**53], "topics": {"a": {"b": [1]}}},
            ),
            (
                "pairing",
                {"a": {"worst": {"error_ms": float("nan"), "sequence": "s", "frame": 1, "time_ns": 1}}},
            ),
            ("notes", [["nested"]]),
            ("configuration", [1]),
            ("versions", {"a": 1}),
            ("recordings", [{"bytes": "x", "faults": 3}]),
            ("companions", {"a": "all"}),
        ],
    )
    def test_a_damaged_part_costs_that_part(self, key: str, value: Any) -> None:  # noqa: ANN401
        page = document(parsed(hostile() | {key: value}), "t", [])
        for name in SECTIONS:
            section(page, name)

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"topics": {}}', "[" * 100_000, "1" * 5_000, "\udcff"])
    def test_what_is_no_report_is_an_error(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "capture_report.json"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(DatasetError, match=r"cannot be read as a capture report|not a capture report"):
            read_report(path)
        done = run("report", path)
        assert done.exit_code == 2
        assert "Traceback" not in done.output

    def test_a_report_of_absurd_size_is_not_read(self, tmp_path: Path) -> None:
        path = tmp_path / "capture_report.json"
        with path.open("wb") as file:
            file.truncate(10 << 30)
        with pytest.raises(DatasetError, match="more than"):
            read_report(path)

    def test_files_of_a_report_cannot_lead_out_of_the_output_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "out" / "edgefirst" / "d"
        folder.mkdir(parents=True)
        (tmp_path / "secret").mkdir()
        values = report({}) | {
            "files": ["edgefirst/../../secret/x", "/etc/passwd", "..", "ncore/../../secret/x"]
        }
        (folder / "capture_report.json").write_text(json.dumps(values))
        assert find_run(folder / "capture_report.json").datasets == []


class TestOutputs:
    def test_only_an_html_file_is_written(self, output: Path, tmp_path: Path) -> None:
        precious = tmp_path / "drive.mcap"
        precious.write_bytes(b"precious")
        for path in (precious, tmp_path / "x"):
            done = run("report", output / "edgefirst" / "d", "-o", path)
            assert done.exit_code == 2
            assert "ends in .html" in done.output
        assert precious.read_bytes() == b"precious"

    def test_nothing_there_is_an_error(self, tmp_path: Path) -> None:
        for path in (tmp_path, tmp_path / "missing", tmp_path / "missing.mcap"):
            done = run("report", path)
            assert done.exit_code == 2
            assert "Traceback" not in done.output

    def test_several_runs_below_a_folder_are_not_mixed(self, output: Path, tmp_path: Path) -> None:
        for name in ("a", "b"):
            shutil.copytree(output / "edgefirst", tmp_path / name / "edgefirst")
        done = run("report", tmp_path)
        assert done.exit_code == 2
        assert "name one of them" in done.output


class TestDrawing:
    def test_points_are_projected_where_they_are(self) -> None:
        """The camera looks along x of the lidar: what is ahead is in the middle, what is left is left."""
        into = matrix_of((-0.5, 0.5, -0.5, 0.5)).T
        projection = Projection(into, into @ np.array([0.0, 0.0, 1.0]), (1.0, 2.0), (0.5, 0.5))
        points = np.array([[10.0, 0.0, -1.0], [10.0, 2.0, -1.0], [-10.0, 0.0, 0.0], [np.nan, 0.0, 0.0]])
        pixels, distance_m = projected(points, (640, 320), projection)
        assert pixels == pytest.approx(np.array([[320.0, 160.0], [192.0, 160.0]]))
        assert distance_m == pytest.approx([10.0, np.hypot(10, 2)])

    def test_what_is_nearer_is_drawn_above(self) -> None:
        picture = Image.new("RGB", (9, 9))
        projection = Projection(np.eye(3), np.zeros(3), (1.0, 1.0), (0.5, 0.5))
        assert draw_points(picture, np.array([[0.0, 0.0, 3.0], [0.0, 0.0, 60.0]]), projection) == 2
        assert picture.getpixel((4, 4)) == (255, 70, 50)

    def test_what_is_ahead_is_up_from_above(self) -> None:
        points = np.array([[20.0, 0.0, 0.0], [0.0, 30.0, 0.0], [np.nan, 1.0, 0.0]])
        seen = np.asarray(from_above(points, (100, 100)), int)
        found = np.argwhere(np.ptp(seen, axis=2) > 100)
        ahead, left = found[found[:, 0].argmin()], found[found[:, 1].argmin()]
        assert (ahead[1], left[0]) == (50, 66)
        assert ahead[0] < 40
        assert left[1] < 10

    def test_long_pauses_between_drives_are_cut_out(self) -> None:
        hour = 3_600.0
        axis = TimeAxis(START_NS, [(ns(0), ns(100)), (ns(hour), ns(hour + 100))])
        assert axis.place_s(ns(50)) == 50
        assert 100 < axis.place_s(ns(hour)) < 110
        assert axis.place_s(ns(hour + 50)) == axis.place_s(ns(hour)) + 50
        assert axis.place_s(ns(1_000)) == 100
        assert axis.end_s == pytest.approx(200 + 0.02 * 200)

    def test_a_track_across_the_antimeridian_does_not_jump(self) -> None:
        values = report({"/camera": stream("camera", 0, 60, 30)})
        origins = [{"latitude": 0.0, "longitude": each} for each in (179.9999, -179.9999)]
        values["sequences"][0]["track"] = {
            "origins": origins,
            "bases": ["measured"],
            "points": [[ns(n), 0, 0, 0, n, 0] for n in range(2)],
        }
        drawn = section(document(parsed(values), "t", []), "track")
        west, east = (float(x) for x in re.findall(r'points="([\d.]+),', drawn))
        assert east - west == pytest.approx(22.2 * 28, abs=2)
        assert ">5 m<" in drawn

    def test_what_sensors_lost_together_is_drawn_of_each_by_itself(self) -> None:
        topics = {f"/{n}": stream("radar_cube", 0, 40 + n / 2, 2) for n in range(2)}
        values = report({"/camera": stream("camera", 0, 60, 30), **topics})
        values["timeline"] |= {"bins": [0, 59], "topics": {topic: {"written": [1, 0]} for topic in topics}}
        page = document(parsed(values), "t", [])
        assert "0 and 1 stopped" in verdict(page)
        assert [lane_of(page, topic)["gaps"] for topic in topics] == [[[40, 60]], [[40.5, 60]]]

    def test_a_leap_of_the_clock_is_no_other_drive(self) -> None:
        values = report({"/camera": stream("camera", 0, 60, 30)})
        after = {
            "name": "t",
            "start_ns": ns(1e6),
            "streams": {"/camera": stream("camera", 1e6, 1e6 + 60, 30)},
        }
        late = stream("gps", 0, 1e6 + 60, 10, ((0, 1e6 + 0.2),))  # stamped before the leap, received after it
        after["streams"]["/gps"] = late
        values["timeline"] |= {"bins": [0], "topics": {"/gps": {"written": [1]}}}
        stepped = values["sequences"][0] | {"ended": "the wall clock was stepped by +999940 s"}
        values["sequences"] = [stepped, stepped | after]
        page = document(parsed(values), "t", [])
        assert "in 2 drives" not in page
        assert max(end - begin for begin, end in lane_of(page, "/gps")["gaps"]) <= 60
        assert "<dd>02:00</dd>" in page
        assert [begin for _, begin, _ in data_of(page)["stretches"]] == [0.0, 60.0]
