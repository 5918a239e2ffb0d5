"""Sessions that are split hold together what one session would: nothing is lost or worse at a seam."""

from __future__ import annotations

import io
import re
import time
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
from zenoh_loopback import await_condition

from edgefirst_ros.config.model import TopicRule, build_config
from edgefirst_ros.formats.datasets import check as check_ncore
from edgefirst_ros.formats.l5kit.check import check as check_l5kit
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.live import split as livesplit
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.live.queue import starts_gop
from edgefirst_ros.live.session import Finished
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.pipeline import intake
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.timing.clock import ClockFinder

VIDEO = "/camera/h264"
SHORT = {"lookahead_s": 0.5, "ego": {"wait_s": 1.0}, "overload": {"latency_s": 0}}
"""So that a seam is over within a few seconds."""
COLUMNS = ("received", "refused", "skipped", "dropped")


@cache
def drive() -> tuple[RawMessage, ...]:
    """6 s, a key frame a second; radar and lidar stamp another clock, messages come late and uneven."""
    options = DriveOptions(
        seconds=6.0, fps=10, width=320, height=180, lidar_points=320, cube_shape=(1, 50, 2, 16), cube_hz=18.0,
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
    ("what", "asked"), [(drive, [0.25, 0.6]), (refreshed, [0.45])], ids=["two seams", "intra refresh"]
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


@pytest.mark.long
def test_over_a_seam_motion_chooses_the_same_frames(tmp_path: Path) -> None:
    whole = captured(tmp_path / "whole", drive(), formats=("edgefirst",), every_m=3.0)
    parts = captured(tmp_path / "parts", drive(), [0.25, 0.6], formats=("edgefirst",), every_m=3.0)
    found = samples(tmp_path / "whole", whole)
    assert samples(tmp_path / "parts", parts) == found
    assert len(found) > 10
    for part in parts:
        check_sums(part.report)


@pytest.mark.long
def test_without_video_every_cloud_is_in_one_session(tmp_path: Path) -> None:
    """Whether split halfway and shortly before the end, or at the end."""
    what = [m for m in drive() if not m.topic.startswith(("/camera", "/model"))]
    config = {"reference": "lidar_points", "formats": ("edgefirst", "ncore")}
    whole = captured(tmp_path / "whole", what, **config)
    for asked in ([0.5, 0.97], [1.0]):
        parts = captured(tmp_path / f"parts{asked[-1]}", what, asked, **config)
        assert len(parts) == len(asked) + 1
        assert sum(part.report["samples"] for part in parts) == whole[0].report["samples"] > 45
        assert Counter(measured(parts)) == Counter(measured(whole))
        assert sum(part.report["totals"]["received"] for part in parts) == len(what)
        check_datasets(parts)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("what", [drive, refreshed], ids=["key frames", "intra refresh"])
def test_a_seam_between_key_frames_loses_nothing_either(
    tmp_path: Path,
    wholes: Wholes,
    monkeypatch: pytest.MonkeyPatch,
    what: Any,  # noqa: ANN401
) -> None:
    """As where a camera sends none for so long that none is waited for."""
    monkeypatch.setattr(livesplit, "WAIT_S", 0.0)
    parts = captured(tmp_path / "parts", what(), [0.444], formats=("edgefirst",))
    found, expected = samples(tmp_path / "parts", parts), samples(*wholes[what.__name__])
    assert found.keys() == expected.keys()
    assert [t for t in expected if found[t] != expected[t]] == []
    first_ns = min(samples(tmp_path / "parts", parts[1:]))
    keys_ns = [decode(m).stamp_ns for m in what() if m.topic == VIDEO and starts_gop(m)]
    assert first_ns not in keys_ns


def test_near_a_seam_each_message_is_decoded_and_dated_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded, dated = Counter[int](), Counter[int]()
    decoding, dating = intake.decoded_for, ClockFinder.feed

    def decode_it(rule: TopicRule, raw: RawMessage, *more: Any) -> Any:  # noqa: ANN401
        decoded[raw.arrival] += 1
        return decoding(rule, raw, *more)

    def date_it(self: ClockFinder[Any], message: Any) -> Any:  # noqa: ANN401
        dated[message.arrival] += 1
        return dating(self, message)

    monkeypatch.setattr(intake, "decoded_for", decode_it)
    monkeypatch.setattr(ClockFinder, "feed", date_it)
    what = [m for m in drive() if m.topic != VIDEO]
    parts = captured(tmp_path, what, [0.5], reference="lidar_points", formats=("edgefirst",))
    assert all(part.report["samples"] > 10 for part in parts)
    assert len(decoded) > 500
    assert set(decoded.values()) == set(dated.values()) == {1}


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("selection", [{"rate_hz": 3.0}, {"every_n": 4}], ids=str)
def test_a_seam_changes_nothing_of_which_frames_are_selected(
    tmp_path: Path, selection: dict[str, float]
) -> None:
    config = {"formats": ("edgefirst",), **selection}
    whole = captured(tmp_path / "whole", drive(), **config)
    parts = captured(tmp_path / "parts", drive(), [0.45], **config)
    one, many = samples(tmp_path / "whole", whole), samples(tmp_path / "parts", parts)
    assert len(one) > 10
    assert many == one
    assert all(part.report["samples"] > 4 for part in parts)


def test_before_clocks_are_known_a_seam_is_where_it_was_asked_for(tmp_path: Path) -> None:
    what = [m for m in drive() if m.topic != VIDEO]
    parts = captured(tmp_path, what, [0.02], reference="lidar_points", formats=("edgefirst",))
    assert parts[0].report["totals"]["received"] == round(0.02 * len(what))
    assert sum(part.report["totals"]["received"] for part in parts) == len(what)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("silent_s", [0.0, 2.0])
def test_a_split_while_the_device_is_silent_ends_with_an_empty_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent_s: float
) -> None:
    """Whether it is stopped while the session before still waits for late messages, or after that."""
    monkeypatch.setattr(livesplit, "WAIT_S", 0.1)
    what = drive()[: len(drive()) // 2]
    one = LiveCapture(build_config({"min_free_mb": 0, "formats": FORMATS, **SHORT}), tmp_path, HOST)
    one.start("drive", sequence="drive_sequence")
    for message in what:
        one.put(message)
    await_condition("the messages", lambda: one.status().received == len(what))
    one.split()
    await_condition("the next session", lambda: one.status().session == "drive_2")
    time.sleep(silent_s)
    first, second = one.stop(60)
    assert first.report["samples"] > 20
    assert (second.report["samples"], second.report["sequences"]) == (0, [])
    for session in (first, second):
        check_sums(session.report)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("after_s", [0.3, 1.0])
def test_a_clock_that_steps_near_a_seam_costs_no_account(tmp_path: Path, after_s: float) -> None:
    what = list(drive())
    place = round(0.4 * len(what))
    key = next(m for m in what[place:] if m.topic == VIDEO and starts_gop(m))
    from_ns = key.receive_ns + round(after_s * 1e9)
    stepped = [
        m._replace(receive_ns=m.receive_ns + 5_000_000_000, publish_ns=m.publish_ns + 5_000_000_000)
        if m.receive_ns >= from_ns
        else m
        for m in what
    ]
    parts = captured(tmp_path, stepped, [0.4])
    assert sum(part.report["totals"]["received"] for part in parts) == len(what)
    for part in parts:
        check_sums(part.report)
    found = samples(tmp_path, parts)
    assert len(found) > 45
    assert any("new sequence" in note for part in parts for note in part.report["notes"])
    check_datasets(parts)
