"""A drive whose video has no second key frame: recorded from mid-stream, with a loss, and converted."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from edgefirst.schemas import foxglove_msgs
from edgefirst.schemas.builtin_interfaces import Time
from faulty import read_number
from PIL import Image
from refreshed import PERIOD, refreshed_packets
from resized import FRAMES, HOST, SMALL, recorded, spliced
from written import Written

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.registry import decode
from edgefirst_ros.offline.convert import convert

OPTIONAL = {"topics": {n: {"required": "never"} for n in ("radar_targets", "lidar_points", "model")}}


def test_a_stream_without_key_frames_is_taken_up_and_goes_on_after_a_loss(tmp_path: Path) -> None:
    count, start, lost = 3 * FRAMES, 3, 37
    content = spliced(SMALL, SMALL, SMALL)
    camera = [n for n, m in enumerate(content) if m.topic == "/camera/h264"]
    for place, data in zip(camera, refreshed_packets(count), strict=True):
        stamp = Time.from_nanos(decode(content[place]).stamp_ns)
        made = foxglove_msgs.CompressedVideo(stamp, "camera_optical", data, "h264").to_bytes()
        content[place] = content[place]._replace(data=made)
    gone = {camera[number] for number in (*range(start), lost)}
    left = [m for n, m in enumerate(content) if n not in gone]
    path = recorded(tmp_path / f"{HOST}_2026_05_01_09_00_00.mcap", left)
    convert([path], tmp_path / "out", build_config(OPTIONAL), dataset="d")
    written = Written(tmp_path / "out" / "edgefirst" / "d")
    found = [
        read_number(np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))
        for _, data in sorted(written.of_kind("camera.jpeg").items())
    ]
    first, again = found[0], next(number for number in found if number > lost)
    assert PERIOD < first <= 2 * PERIOD
    assert 4 * PERIOD < again <= 5 * PERIOD
    assert found == [*range(first, lost), *range(again, count)]
    reasons = written.report["topics"]["/camera/h264"]["reasons"]["dropped"]
    assert reasons == {Reason.BEFORE_KEY: first - start, Reason.AFTER_LOSS: again - lost - 1}
