"""How many samples there are: what the report says against what lies in the datasets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest
from test_duplicates import drive
from test_ledger import converted, pictures_in

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.pictures import Picture
from edgefirst_ros.video.stream import VideoStream

BROKEN = "picture damaged in transit"


def breaking(monkeypatch: pytest.MonkeyPatch, share: int) -> None:
    """Decoders from now on give no picture for one in ``share`` packets, though their headers are right."""
    request, number = VideoStream.request, 0

    def refused(self: VideoStream, time_ns: int) -> Future[Picture]:
        nonlocal number
        number += 1
        if number % share:
            return request(self, time_ns)
        failed: Future[Picture] = Future()
        failed.set_exception(DecodeError(BROKEN))
        return failed

    monkeypatch.setattr(VideoStream, "request", refused)


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("formats", [["edgefirst"], ["ncore"], ["l5kit"], ["edgefirst", "ncore", "l5kit"]])
def test_a_sample_whose_picture_cannot_be_decoded_is_none(
    tmp_path: Path, formats: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = drive(tmp_path / "drive")
    breaking(monkeypatch, 5)
    report, files = converted(tmp_path / "c", content, formats)
    (sequence,) = report["sequences"]
    assert (sequence["reference_frames"], sequence["sample"], sequence["unusable"]) == (20, 16, 4)
    assert report["samples"] == 16
    camera = report["topics"]["/camera/h264"]
    assert camera["reasons"]["dropped"] == {BROKEN: 4}
    if "edgefirst" in formats:
        assert report["formats"]["edgefirst"]["samples"] == pictures_in(files) == camera["written"] == 16
        assert report["topics"]["/radar/targets"]["pairing_error_ms"] is not None
    if "ncore" in formats:
        assert camera["written_to"]["ncore"] == 16
    if "l5kit" in formats:
        frames = json.loads(files["l5kit/d.zarr/frames/.zarray"])["shape"][0]
        assert report["formats"]["l5kit"]["frames"] == frames
    assert not any(warning.startswith("maivin-1") for warning in report["warnings"])


def test_what_is_reported_of_damaged_video_passes_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = drive(tmp_path / "drive")
    breaking(monkeypatch, 3)
    report, files = converted(tmp_path / "c", content)
    found = list(check(tmp_path / "c" / "out"))
    assert report["samples"] == pictures_in(files) == 14
    assert not [each for each in found if each.errors], found


def test_each_format_counts_its_own_where_one_has_no_file_for_a_sample(
    tmp_path: Path,
) -> None:
    """Without a camera or a sensor an EdgeFirst dataset has nothing to put a model's boxes beside."""
    content = [m for m in drive(tmp_path / "drive") if m.topic in {"/model/output", "/gps", "/imu"}]
    report, _ = converted(tmp_path / "c", content, ["edgefirst", "l5kit"], reference="model")
    assert report["formats"]["edgefirst"]["samples"] == 0
    assert report["formats"]["edgefirst"]["left_out"] == {"sample without sensor files": 20}
    assert report["formats"]["l5kit"]["frames"] == report["samples"] == 20
    edgefirst = next(c for c in check(tmp_path / "c" / "out") if c.format == "edgefirst")
    assert [f.what for f in edgefirst.findings] == ["holds no samples, as its report says"]
