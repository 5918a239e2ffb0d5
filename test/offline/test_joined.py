"""Recordings that two devices of one vehicle made apart, by the same names, each on its own clock."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pymap3d
import pytest
import yaml
from apartdrive import APART, REAR_AT, options, recorded_apart, recorded_together
from drives import simulated
from livedrive import check_sums, dataset_files, live_and_converted
from ncoreread import Sequence
from oracle import NCORE_PYTHON, run_ncore
from recorded import record

import edgefirst_ros
from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import ConfigError, RecordingError
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.offline.rig import Rig, open_rig
from edgefirst_ros.simulation import Truth
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.recording import excerpt_of
from edgefirst_ros.sources.suggest import Look, look_at

ONE_CLOCK = dict.fromkeys(APART, (0.0, 0.0))
AHEAD_S = APART["rear"][0] - APART["left"][0]


def opened(files: dict[str, Path], *offsets: str) -> Rig:
    return open_rig([f"{name}={path}" for name, path in files.items()], offsets)


def settings(suggested: Any, *formats: str) -> dict[str, Any]:  # noqa: ANN401
    """A suggestion's, with the place of the rear device."""
    at_m, yaw_deg = REAR_AT
    topics = dict(suggested["topics"])
    topics["rear_tf"] = topics["rear_tf"] | {"xyz_m": at_m, "rpy_deg": (0.0, 0.0, yaw_deg)}
    return {**suggested, "topics": topics, "formats": list(formats)}


def command(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        app([str(each) for each in arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return recorded_apart(tmp_path_factory.mktemp("apart"))


@pytest.fixture(scope="module")
def joined(
    files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Sequence, dict[str, Any], Rig]:
    output, rig = tmp_path_factory.mktemp("joined"), opened(files)
    values = settings(rig.look.suggestion(rig.source).values, "edgefirst", "ncore")
    done = convert(rig.drive, output, build_config(values), dataset="d")
    check_sums(done.report)
    (sequence,) = done.report["sequences"]
    return Sequence(output / "ncore" / sequence["name"]), done.report, rig


@pytest.fixture(scope="module")
def truth() -> Truth:
    return Truth.read(simulated(options()).truth)


def left_us(true_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """True times as the left device's clock, which is the rig's, shows them."""
    off_s, ppm = APART["left"]
    shown_ns = true_ns + round(off_s * 1e9) + ((true_ns - options().start_ns) * ppm * 1e-6).astype(np.int64)
    return shown_ns // 1000


def test_the_offset_is_found_and_said(joined: tuple[Sequence, dict[str, Any], Rig]) -> None:
    _, report, _ = joined
    left, rear = (each["device"] for each in report["recordings"])
    assert left == {"name": "left"}
    assert abs(rear["ahead_s"] - AHEAD_S) < min(0.002, rear["uncertainty_s"])
    assert rear["uncertainty_s"] < 0.003
    assert rear["by"] == "motion"
    (sequence,) = report["sequences"]
    known_ns = {topic: clock["uncertainty_ns"] for topic, clock in sequence["clocks"].items()}
    assert known_ns["/left/camera/jpeg"] == 0
    assert known_ns["/rear/camera/jpeg"] == pytest.approx(rear["uncertainty_s"] * 1e9, abs=1000)
    assert "rear: rear.mcap; its clock is 956.36" in " ".join(report["notes"])


@pytest.mark.parametrize("device", APART)
def test_everything_of_both_is_at_its_true_time(
    joined: tuple[Sequence, dict[str, Any], Rig], truth: Truth, device: str
) -> None:
    found, report, _ = joined
    assert len(report["sequences"]) == 1
    for group, topic in (("cameras", f"/{device}/camera/jpeg"), ("lidars", f"/{device}/lidar/points")):
        name = named(np.array(found.instances(group)), device)
        times_us = np.array(sorted(begin for begin, _ in found.frames(f"{group}/{name}")))
        true_us = left_us(truth.true_ns(topic))[-len(times_us) :]
        assert len(times_us) > 17
        assert np.abs(times_us - true_us).max() < 2_000


def test_each_camera_has_an_edgefirst_sequence_with_its_own_lidar(
    joined: tuple[Sequence, dict[str, Any], Rig],
) -> None:
    (sequence,) = joined[1]["sequences"]
    assert {*sequence["companions"]} == {"/left/lidar/points"}
    assert {*sequence["cameras"]["rear"]["companions"]} == {"/rear/lidar/points"}
    assert sequence["cameras"]["rear"]["sample"] > 17


@pytest.mark.skipif(not NCORE_PYTHON.is_file(), reason="needs nvidia-ncore in .venv-ncore (make oracles)")
def test_points_of_one_device_lie_where_the_camera_of_the_other_sees_them(
    joined: tuple[Sequence, dict[str, Any], Rig], truth: Truth, tmp_path: Path
) -> None:
    """Through NVIDIA's reader, against the truth: by both clocks, and by where the devices are."""
    out = tmp_path / "rig.npz"
    script = Path(__file__).resolve().parents[1] / "oracles" / "ncore_rig.py"
    folder = joined[0].folder
    done = run_ncore(script, folder / f"{folder.name}.json", out)
    assert done.returncode == 0, done.stderr
    with np.load(out) as archive:
        found = dict(archive)
    origin = (truth.world.latitude_deg, truth.world.longitude_deg, truth.world.altitude_m)
    T_world_global = found["T_world_global"]

    def enu(points_m: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        ecef = points_m @ T_world_global[:3, :3].T + T_world_global[:3, 3]
        return np.stack(pymap3d.ecef2enu(*ecef.T, *origin), axis=1)

    for camera, lidar in (("rear", "left"), ("left", "rear"), ("rear", "rear")):
        cam, lid = named(found["cameras"], camera), named(found["lidars"], lidar)
        times_us, T_world = found[f"{cam}/times_us"], found[f"{cam}/T_world"]
        true_ns = truth.true_ns(f"/{camera}/camera/jpeg")
        off = []
        for number in range(5, len(found[f"{lid}/times_us"]) - 5, 2):
            points = found[f"{lid}/{number}"]
            at = int(np.abs(times_us - found[f"{lid}/times_us"][number]).argmin())
            T = np.linalg.inv(T_world[at])
            optical = points @ T[:3, :3].T + T[:3, 3]
            pixels = found[f"{cam}/focal_length"] * optical[:, :2] / optical[:, 2:]
            pixels += found[f"{cam}/principal_point"] - 0.5
            (shown_ns,) = true_ns[np.abs(left_us(true_ns) - int(times_us[at])) < 5_000]
            true, depth = truth.project(enu(points), int(shown_ns), f"{camera}_optical")
            seen = (depth > 2) & (true >= 0).all(axis=1) & (true < [160, 90]).all(axis=1)
            off.append(pixels[seen] - true[seen])
        error_px = np.concatenate(off)
        assert len(error_px) > 100
        assert np.sqrt((error_px**2).sum(axis=1).mean()) < 1.0, (camera, lidar)


def named(sensors: npt.NDArray[Any], device: str) -> str:
    (name,) = [str(each) for each in sensors if str(each).startswith(device)]
    return name


def test_by_one_clock_files_joined_give_the_bytes_of_one_recording_of_both(tmp_path: Path) -> None:
    """Whose frames are called alike as well: the suggestion tells them apart by their device."""
    rig = opened(recorded_apart(tmp_path, ONE_CLOCK))
    together = recorded_together(tmp_path / "both.mcap")
    values = rig.look.suggestion("").values
    assert look_at([McapRecording(together)]).suggestion("").values == values
    config = build_config(settings(values, "edgefirst", "ncore", "l5kit") | {"host": "rig"})
    assert [each.joined.get("ahead_s", 0.0) for each in (rig.drive and rig.parts)] == [0.0, 0.0]
    convert(rig.drive, tmp_path / "a", config, dataset="d")
    convert([together], tmp_path / "b", config, dataset="d")
    found = dataset_files(tmp_path / "a")
    assert len(found) > 3
    assert found == dataset_files(tmp_path / "b")


def test_transforms_of_every_device_are_taken_and_frames_of_other_names_stay(tmp_path: Path) -> None:
    look = Look()
    for message in McapRecording(recorded_together(tmp_path / "both.mcap")).messages():
        is_rear = message.topic.startswith("/rear/")
        look.feed(message._replace(data=message.data.replace(b"main_", b"rear_")) if is_rear else message)
    topics = look.suggestion("").values["topics"]
    assert topics["tf"] == {"role": "tf", "topic": "/left/tf_static"}
    assert topics["rear_tf"] == {"role": "tf", "topic": "/rear/tf_static"}
    assert not any("frame_prefix" in rule for rule in topics.values())


def test_live_equals_convert_where_frames_are_called_alike(tmp_path: Path) -> None:
    together = recorded_together(tmp_path / "both.mcap")
    values = settings(look_at([McapRecording(together)]).suggestion("").values, "edgefirst", "ncore")
    live, again, report = live_and_converted(
        tmp_path, McapRecording(together).messages(), {**values, "host": "rig"}, "rig"
    )
    assert report["samples"] > 17
    assert again == live


def test_it_converts_without_a_configuration_and_says_what_it_found(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Named by their files here; where the other device is is said to be missing."""
    code, _, said = command(capsys, "convert", "--rig", *files.values(), "-o", tmp_path / "out")
    assert code == 0, said
    assert "its clock is 956.36" in said
    made = (tmp_path / "out" / "left-dataset.yaml").read_text()
    assert made.count("set xyz_m and rpy_deg of rear_tf") == 2
    assert "rear_lidar (frame rear/main_lidar): at the rig's origin" in made
    code, text, _ = command(capsys, "suggest", "--rig", *files.values())
    assert code == 0
    assert yaml.safe_load(text) == yaml.safe_load(made)


def test_the_function_joins_what_the_command_does(files: dict[str, Path], tmp_path: Path) -> None:
    done = edgefirst_ros.convert(files, tmp_path / "function", name="d", page=False)
    with pytest.raises(SystemExit):
        app(
            ["convert", "--rig", *(f"{name}={path}" for name, path in files.items()),
             "-o", str(tmp_path / "command"), "--name", "d", "--quiet"]
        )  # fmt: skip
    assert done.report["samples"] > 0
    (tmp_path / "command" / "d.yaml").unlink()  # the configuration that was found
    assert dataset_files(tmp_path / "function") == dataset_files(tmp_path / "command")


def test_a_part_of_it_is_on_the_rigs_clock(files: dict[str, Path], tmp_path: Path) -> None:
    rig = opened(files)
    config = build_config(settings(rig.look.suggestion("").values, "ncore"))
    done = convert(rig.drive, tmp_path, config, excerpt=excerpt_of("2", "4"), dataset="d")
    (sequence,) = done.report["sequences"]
    counted = [sequence["streams"][f"/{name}/camera/jpeg"]["messages"] for name in APART]
    assert counted == [10, 10]
    check_sums(done.report)


class TestWithoutCommonMotion:
    """What is said of clocks that the IMUs do not compare."""

    def test_gps_time_says_it(self, tmp_path: Path) -> None:
        """To what a receiver's latency is known to."""
        rig = opened(recorded_apart(tmp_path, imus=False, gps_time=True))
        assert rig.drive.devices
        rear = rig.parts[1].joined
        assert rear["by"] == "gps"
        assert abs(rear["ahead_s"] - AHEAD_S) < rear["uncertainty_s"] < 0.2
        assert "by GPS time" in rig.drive.notes[1]
        assert [each.partition(":")[0] for each in rig.drive.doubts] == ["rear"]
        report = convert(rig.drive, tmp_path, build_config(rig.look.suggestion("").values)).report
        assert rig.drive.doubts[0] in report["warnings"]

    def test_what_is_given_counts(self, tmp_path: Path) -> None:
        rig = opened(recorded_apart(tmp_path, imus=False), f"rear={AHEAD_S}")
        assert rig.drive.devices
        assert rig.parts[1].joined == {
            "name": "rear", "ahead_s": AHEAD_S, "drift_ppm": 0.0, "uncertainty_s": None, "by": "given",
        }  # fmt: skip

    @pytest.mark.parametrize("how", [{"imus": False}, {"still_s": 9.0}], ids=["no IMU", "at rest"])
    def test_else_it_is_refused_with_what_is_needed(
        self, tmp_path: Path, how: dict[str, Any], capsys: pytest.CaptureFixture[str]
    ) -> None:
        made = recorded_apart(tmp_path, **how)
        code, _, said = command(capsys, "convert", "--rig", *made.values(), "-o", tmp_path / "out")
        assert code == 2
        assert "--rig-offset rear=SECONDS" in " ".join(said.split())
        assert not (tmp_path / "out").exists()


def test_what_is_given_is_made_better_by_the_motion(files: dict[str, Path]) -> None:
    rig = opened(files, "rear=956.1")
    assert rig.drive.devices
    assert abs(rig.parts[1].joined["ahead_s"] - AHEAD_S) < 0.002


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["left={left}"], "at least two"),
        (["{left}", "{folder}/none.mcap"], "no such recording"),
        (["{left}", "{folder}/empty.mcap"], "empty.mcap: is empty"),
        (["{left}", "{folder}/nothing.mcap"], "nothing.mcap: holds no topic"),
        (["{left}", "none={folder}/none.mcap"], "no such recording"),
        (["left={left}", "rear={left}"], "is given as left and as rear"),
        (["left={left}", "rear={copy}"], "are one device's"),
        (["same={left}", "same={rear}"], "two devices are called same"),
        (
            ["left={left}", "rear={rear}", "--rig-offset", "rear=-300"],
            "is 956.36 s ahead; --rig-offset says -300 s",
        ),
        (
            ["{folder}/begin.mcap", "{folder}/end.mcap"],
            "nothing says how far apart their clocks are, if they recorded at one",
        ),
        (["left={left}", "rear={rear}", "--rig-offset", "raer=1"], "expected rear=SECONDS"),
        (["left={left}", "rear={rear}", "--rig-offset", "rear=soon"], "expected rear=SECONDS"),
        (["left={left}", "rear={rear}", "--jobs", "2"], "--rig makes one dataset"),
        (["left={left}", "rear={folder}/two"], "holds 2 drives; name one recording"),
    ],
)
def test_what_cannot_be_joined_is_said_and_nothing_is_written(
    files: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    given: list[str],
    said: str,
) -> None:
    (tmp_path / "empty.mcap").touch()
    record(tmp_path / "nothing.mcap", [])
    copy = shutil.copy(files["left"], tmp_path / "copy.mcap")
    (tmp_path / "two").mkdir()
    for name, path in files.items():
        shutil.copy(path, tmp_path / "two" / f"{name}.mcap")
    early, late = (list(McapRecording(path).messages()) for path in files.values())
    record(tmp_path / "begin.mcap", [m for m in early if m.receive_ns < early[0].receive_ns + 2.2e9])
    record(tmp_path / "end.mcap", [m for m in late if m.receive_ns > late[-1].receive_ns - 2.2e9])
    places = {**files, "folder": tmp_path, "copy": copy}
    words = [each.format(**places) for each in given]
    code, _, error = command(capsys, "convert", "--rig", *words, "-o", tmp_path / "out")
    assert code == 2
    assert said in " ".join(error.split())
    assert not (tmp_path / "out").exists()


def test_what_was_not_recorded_at_one_time_is_not_joined(tmp_path: Path) -> None:
    rig = opened(recorded_apart(tmp_path, imus=False), "rear=956.36")
    assert rig.drive.devices
    rig = opened(recorded_apart(tmp_path, imus=False), "rear=950")
    with pytest.raises(RecordingError, match=r"not recorded at one time, but 1\.\d s apart"):
        assert rig.drive.devices


def test_a_device_is_called_as_its_host_or_else_its_folder(files: dict[str, Path], tmp_path: Path) -> None:
    for name, path in files.items():
        (tmp_path / name).mkdir()
        shutil.copy(path, tmp_path / name / f"rig-{name}_2026_05_01_09_00_00.mcap")
        shutil.copy(path, tmp_path / name / "drive.mcap")
    hosts = [str(tmp_path / name / f"rig-{name}_2026_05_01_09_00_00.mcap") for name in files]
    assert [*open_rig(hosts).devices] == ["rig_left", "rig_rear"]
    alike = [str(tmp_path / name / "drive.mcap") for name in files]
    assert [*open_rig(alike).devices] == ["left", "rear"]
    assert [*open_rig([f"a={alike[0]}", alike[1]]).devices] == ["a", "drive"]


def test_topics_of_one_device_that_would_have_one_name_are_refused(
    files: dict[str, Path], tmp_path: Path
) -> None:
    both = [
        message._replace(topic=topic)
        for message in McapRecording(files["left"]).messages()
        for topic in (f"/rt{message.topic}", message.topic)
    ]
    path = record(tmp_path / "both.mcap", both)
    with pytest.raises(ConfigError, match="/camera/info and /rt/camera/info would both be /left/camera/info"):
        opened({"left": path, "rear": files["rear"]})


def test_an_imu_may_have_a_clock_of_its_own(tmp_path: Path) -> None:
    """As the devices have: how far that is from the host's is known to some milliseconds, which is said."""
    rig = opened(recorded_apart(tmp_path, up_s=4321.0))
    assert rig.drive.devices
    rear = rig.parts[1].joined
    assert abs(rear["ahead_s"] - AHEAD_S) < 0.002 < rear["uncertainty_s"] < 0.01


def test_one_stamp_that_is_damaged_changes_nothing(files: dict[str, Path], tmp_path: Path) -> None:
    content = list(McapRecording(files["rear"]).messages())
    at = next(n for n, m in enumerate(content) if n > 400 and m.topic == "/imu")
    content[at] = content[at]._replace(data=content[at].data[:4] + b"\xff\xff\xff\x7f" + content[at].data[8:])
    rig = opened({"left": files["left"], "rear": record(tmp_path / "r.mcap", content)})
    assert rig.drive.devices
    assert abs(rig.parts[1].joined["ahead_s"] - AHEAD_S) < 0.002


def test_a_clock_that_was_stepped_is_said(files: dict[str, Path], tmp_path: Path) -> None:
    content = [*McapRecording(files["rear"]).messages()]
    by_ns = 40 * 10**12
    later = [
        m._replace(receive_ns=m.receive_ns + by_ns, publish_ns=m.publish_ns + by_ns) for m in content[500:]
    ]
    rig = opened({"left": files["left"], "rear": record(tmp_path / "r.mcap", [*content[:500], *later])})
    with pytest.raises(RecordingError, match="rear: its clock was stepped while it recorded"):
        assert rig.drive.devices


def test_an_offset_without_a_rig_is_refused(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, said = command(
        capsys, "convert", files["left"], "--rig-offset", "rear=1", "-o", tmp_path / "out"
    )
    assert (code, "--rig-offset is for" in said) == (2, True)


def test_a_tf_places_a_device_only_by_a_prefix() -> None:
    with pytest.raises(ConfigError, match="frame_prefix"):
        build_config({"topics": {"tf": {"xyz_m": [1.0, 0.0, 0.0]}}})
