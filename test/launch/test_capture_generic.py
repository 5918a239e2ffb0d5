"""A robot that is no Maivin, captured with the shipped generic.yaml."""

from __future__ import annotations

import io
import re
import struct
import sys
from pathlib import Path

import pytest
from livedrive import check_sums
from PIL import Image
from places import REPOSITORY
from rosgraph import Graph, needs_ros
from written import Written, burnt_in_number

from edgefirst_ros.formats.datasets import check

pytestmark = needs_ros

PICTURES = 40


def last_point(pcd: bytes) -> tuple[float, ...]:
    """x, y, z of a binary PCD's last point, by the format's own description."""
    header, _, body = pcd.partition(b"DATA binary\n")
    assert b"FIELDS x y z" in header
    assert b"SIZE 4 4 4" in header
    count = re.search(rb"^POINTS (\d+)$", header, re.MULTILINE)
    assert count is not None
    return struct.unpack_from("<3f", body, len(body) // int(count[1]) * (int(count[1]) - 1))


@pytest.mark.parametrize("raw", [False, True], ids=["compressed", "raw"])
def test_plain_ros_messages_become_datasets(graph: Graph, tmp_path: Path, raw: bool) -> None:
    given = ["--params-file", str(REPOSITORY / "config" / "generic.yaml")]
    if raw:
        given += ["-p", "topics.camera.topic:=/camera/image_raw"]
    given += ["-p", f"output:={tmp_path / 'out'}", "-p", "min_free_mb:=1.0", "-p", "name:=tour"]
    given += ["-p", "formats:=[edgefirst,ncore]", "-p", "pictures:=jpeg95"]
    given += ["-p", "overload.latency_s:=0.0"]  # a busy machine may not leave samples out
    node = graph.start(sys.executable, "-m", "edgefirst_ros.nodes.capture", "--ros-args", *given)
    graph.activate()
    status = graph.status()
    robot = graph.start(
        sys.executable,
        str(Path(__file__).with_name("robot.py")),
        *("--pictures", str(PICTURES)),
        *(["--raw"] if raw else []),
    )
    assert robot.join(60.0) == 0, robot.text
    camera = "/camera/image_raw" if raw else "/camera/image_raw/compressed"
    graph.wait("samples", lambda: int(status()["received"]) >= PICTURES * 5, alive=[node])
    assert graph.change("deactivate")

    written = Written(tmp_path / "out" / "edgefirst" / "tour")
    report = written.report
    check_sums(report)
    assert report["totals"]["dropped"] == 0, report["topics"]
    assert report["topics"][camera]["written"] == report["topics"]["/points"]["written"] == PICTURES
    assert report["topics"]["/tf_static"]["received"] == 1
    assert report["topics"]["/camera/camera_info"]["received"] == 1
    pictures, clouds = written.of_kind("camera.jpeg"), written.of_kind("lidar.pcd")
    assert len(pictures) == PICTURES
    for frame, picture in pictures.items():
        number = burnt_in_number(picture)
        assert Image.open(io.BytesIO(picture)).size == (400, 48)
        assert last_point(clouds[frame]) == (1.0, 2.0, number), "the cloud taken with this picture"
    assert sorted(map(burnt_in_number, pictures.values())) == list(range(PICTURES))
    (sequence,) = (tmp_path / "out" / "ncore").iterdir()
    (checked,) = check(sequence)
    assert (checked.errors, checked.warnings) == (0, 0), checked.text
    assert checked.counts["cameras/camera"] == checked.counts["lidars/lidar"] == PICTURES
