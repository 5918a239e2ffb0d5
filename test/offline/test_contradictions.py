"""A drive whose frames and calibrations are wrong as drivers get them wrong: live as converted."""

from __future__ import annotations

from pathlib import Path

import pytest
from edgefirst.schemas import geometry_msgs, sensor_msgs
from edgefirst.schemas.std_msgs import Header
from livedrive import HOST, live_and_converted
from livedrive import messages as driven
from ncoreread import Sequence

from edgefirst_ros.model.reasons import Code
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.report.judge import judge
from edgefirst_ros.report.models import parsed

P = [200.0, 0.0, 150.0, 0.0, 0.0, 201.0, 95.0, 0.0, 0.0, 0.0, 1.0, 0.0]


def wrong(message: RawMessage) -> RawMessage:
    """With the camera's frame along the vehicle's axes, and rectified pictures."""
    if message.topic == "/camera/h264":
        return message._replace(topic="/camera/image_rect")
    if message.topic == "/camera/info":
        info = sensor_msgs.CameraInfo.from_cdr(message.data)
        sent = sensor_msgs.CameraInfo(
            Header(info.stamp, info.frame_id), info.height, info.width, info.distortion_model,
            d=[-0.3, 0.1, 0.0, 0.0, 0.0], k=info.k, r=info.r, p=P, binning_x=1, binning_y=1, roi=info.roi,
        )  # fmt: skip
        return message._replace(data=sent.to_bytes())
    if message.topic == "/tf_static":
        mount = geometry_msgs.TransformStamped.from_cdr(message.data)
        if mount.child_frame_id == "camera_optical":
            pose = geometry_msgs.Transform(
                mount.transform.translation, geometry_msgs.Quaternion(0.0, 0.0, 0.0, 1.0)
            )
            sent = geometry_msgs.TransformStamped(
                Header(mount.stamp, mount.frame_id), mount.child_frame_id, pose
            )
            return message._replace(data=sent.to_bytes())
    return message


@pytest.mark.long
def test_what_cannot_be_is_found_live_as_in_its_recording(tmp_path: Path) -> None:
    values = {"formats": ["edgefirst", "ncore"], "topics": {"camera": {"topic": "camera/image_rect"}}}
    live, again, report = live_and_converted(tmp_path, map(wrong, driven()), values, HOST)
    assert live == again
    found = judge(parsed(report))
    assert (found.grade, Code.MISPLACED in {each.code for each in found.findings}) == ("fair", True)
    assert any("looks up" in text for text in report["warnings"])
    assert any("P of its CameraInfo counts" in text for text in report["notes"])
    (sequence,) = (tmp_path / "again" / "ncore").iterdir()
    camera = Sequence(sequence).attributes("intrinsics/default/cameras/camera_optical")
    assert camera["camera_model_parameters"]["focal_length"] == pytest.approx([200.0, 201.0])
