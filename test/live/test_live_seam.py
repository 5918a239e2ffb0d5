"""Sessions that are split hold together what one session would: nothing is lost or worse at a seam."""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from drives import simulated
from edgefirst.schemas import foxglove_msgs
from edgefirst.schemas.builtin_interfaces import Time
from formats.ncore.ncoreread import Sequence as Stored
from livedrive import FORMATS, HOST, check_sums
from PIL import Image
from refreshed import refreshed_packets
from written import Written, exif_time_ns

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import check as check_ncore
from edgefirst_ros.formats.l5kit.check import check as check_l5kit
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.live.session import Finished
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.mcap import McapRecording

VIDEO = "/camera/h264"
SHORT = {"lookahead_s": 0.5, "ego": {"wait_s": 1.0}, "overload": {"latency_s": 0}}
"""So that a seam is over within a few seconds."""
COLUMNS = ("received", "refused", "skipped", "dropped")


@cache
def drive() -> tuple[RawMessage, ...]:
    """8 s, a key frame a second; radar and lidar stamp another clock, messages come late and uneven."""
    options = DriveOptions(
        seconds=8.0, fps=10, width=160, height=96, lidar_points=160, cube_shape=(1, 50, 2, 16), cube_hz=18.0,
        model_hz=10.0, imu_hz=50.0, gps_hz=5.0, clock="realtime", host=HOST,
    )  # fmt: skip
    return tuple(McapRecording(simulated(options).mcap).messages())


@cache
def refreshed() -> tuple[RawMessage, ...]:
    """The same without key frames but the first, with a recovery point every ten frames."""
    content = list(drive())
    places = [n for n, m in enumerate(content) if m.topic == VIDEO]
    for place, data in zip(places, refreshed_packets(len(places)), strict=True):
        stamp = Time.from_nanos(decode(content[place]).stamp_ns)
        made = foxglove_msgs.CompressedVideo(stamp, "camera_optical", data, "h264").to_bytes()
        content[place] = content[place]._replace(data=made)
    return tuple(content)


def captured(
    output: Path,
    what: Sequence[RawMessage],
    asked: Sequence[float] = (),
    **config: Any,  # noqa: ANN401
) -> list[Finished]:
    """All messages, with splits asked for after these shares of them."""
    one = LiveCapture(build_config({"min_free_mb": 0, "formats": FORMATS, **SHORT, **config}), output, HOST)
    one.start("drive", sequence="drive_sequence")
    places = {round(share * len(what)) for share in asked}
    for number, message in enumerate(what):
        if number in places:
            one.split()
        one.put(message)
    if len(what) in places:
        one.split()
    return one.stop(120)


def samples(output: Path, sessions: Sequence[Finished]) -> dict[int, dict[str, Any]]:
    """By time of the picture: the sample's files, and where it says that it was taken."""
    found: dict[int, dict[str, Any]] = {}
    for session in sessions:
        frames: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, data in Written(output / "edgefirst" / session.name).files().items():
            frame, _, kind = name.rpartition("/")[2].partition(".")
            frames[frame][kind] = data
        for files in frames.values():
            picture = files.pop("camera.jpeg")
            # Its Exif block, the first one, also has the names of sequence and frame.
            files["picture"] = picture[4 + int.from_bytes(picture[4:6], "big") :]
            place = Image.open(io.BytesIO(picture)).getexif().get_ifd(0x8825)
            files["place"] = {key: str(place[key]) for key in sorted(place)}
            time_ns = exif_time_ns(picture)
            assert time_ns not in found, "in two sessions"
            found[time_ns] = files
    return found


def measured(sessions: Sequence[Finished]) -> Iterator[tuple[str, int]]:
    """Component and time of every measurement in NCore."""
    for session in sessions:
        for meta in (p for p in session.paths if p.suffix == ".json" and p.parent.parent.name == "ncore"):
            stored = Stored(meta.parent)
            for key in stored.records:
                if (
                    found := re.fullmatch(r"((?:cameras|lidars|radars)/[^/]+)/frames/\.zattrs", key)
                ) is not None:
                    yield from ((found[1], stop) for _, stop in stored.frames(found[1]))


def scene_times(sessions: Sequence[Finished]) -> list[int]:
    return [
        int(time_ns)
        for session in sessions
        for path in session.paths
        if path.suffix == ".zarr"
        for time_ns in ChunkedDataset(path).open().frames[:]["timestamp"]
    ]


def check_datasets(sessions: Sequence[Finished]) -> None:
    checked = []
    for session in sessions:
        for path in session.paths:
            if path.suffix == ".zarr":
                checked.append(check_l5kit(path))
            elif path.suffix == ".json" and path.parent.parent.name == "ncore":
                checked += check_ncore(path)
    assert checked
    assert not [each for each in checked if each.errors or each.warnings]


Wholes = dict[str, tuple[Path, list[Finished]]]


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> Wholes:
    """Each drive in one session."""
    found: Wholes = {}
    for what in (drive, refreshed):
        output = tmp_path_factory.mktemp(what.__name__)
        found[what.__name__] = output, captured(output, what())
    return found


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    ("what", "asked"), [(drive, [0.45, 0.7]), (refreshed, [0.6])], ids=["two seams", "intra refresh"]
)
def test_what_is_split_is_what_is_not(
    tmp_path: Path,
    wholes: Wholes,
    what: Any,  # noqa: ANN401
    asked: list[float],
) -> None:
    """Byte for byte but for names: one sequence goes on, and what leaves it goes to another session."""
    output, whole = wholes[what.__name__]
    parts = captured(tmp_path / "parts", what(), asked)
    assert len(parts) == len(asked) + 1
    one, many = samples(output, whole), samples(tmp_path / "parts", parts)
    assert len(one) > 45
    assert many.keys() == one.keys()
    for time_ns, sample in one.items():
        assert many[time_ns] == sample, time_ns
    assert Counter(measured(parts)) == Counter(measured(whole))
    assert all(count == 1 for count in Counter(measured(parts)).values())
    assert sorted(scene_times(parts)) == scene_times(whole)
    check_datasets(parts)
    for part in parts:
        check_sums(part.report)
        assert part.report["samples"] > 10
    for topic, account in whole[0].report["topics"].items():
        for column in COLUMNS:
            sums = [part.report["topics"].get(topic, {}).get(column, 0) for part in parts]
            assert sum(sums) == account[column], (topic, column, sums)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("selection", [{"rate_hz": 3.0}, {"select": {"every": 4}}], ids=str)
def test_a_seam_changes_nothing_of_which_frames_are_selected(
    tmp_path: Path, selection: dict[str, float]
) -> None:
    config = {"formats": ("edgefirst",), **selection}
    whole = captured(tmp_path / "whole", drive(), **config)
    parts = captured(tmp_path / "parts", drive(), [0.6], **config)
    one, many = samples(tmp_path / "whole", whole), samples(tmp_path / "parts", parts)
    assert len(one) > 10
    assert many == one
    assert all(part.report["samples"] > 4 for part in parts)
