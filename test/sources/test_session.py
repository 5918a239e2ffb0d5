"""The calibration in a session's recording is held to what messages are held to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from valid_messages import VALUES
from wire_encoder import encode

from edgefirst_ros.model.registry import decoder
from edgefirst_ros.model.sample import Calibration
from edgefirst_ros.model.transform import Transform
from edgefirst_ros.sources.session import RecordedSession, from_metadata, resumed_message, resumed_of


def known() -> Calibration:
    info, radar, model = (
        decoder(schema)(encode(schema, VALUES[schema]), "").datum
        for schema in ("sensor_msgs/CameraInfo", "edgefirst_msgs/RadarInfo", "edgefirst_msgs/ModelInfo")
    )
    turn = (0.1, 0.2, 0.3, (1 - 0.14) ** 0.5)
    mounts = {"camera": Transform("base_link", "camera", (1.5, 0.0, -0.1), turn)}
    return Calibration(info, radar, model, mounts, radars={"rear": radar})


def recorded(calibration: Calibration) -> dict[str, str]:
    return RecordedSession("ds", "host_2026", "host", {"rate_hz": 5}, calibration).to_metadata()


def plain(calibration: Calibration) -> dict[str, Any]:
    values = asdict(calibration)
    return {**values, "camera_info": {k: np.array(v).tolist() for k, v in values["camera_info"].items()}}


def test_a_calibration_comes_back_with_every_bit() -> None:
    session = from_metadata(recorded(known()))
    assert session is not None
    assert session.known is not None
    assert plain(session.known) == plain(known())
    marked = resumed_of(resumed_message("next", known()))
    assert marked is not None
    assert (marked[0], plain(marked[1])) == ("next", plain(known()))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["transforms"]["camera"].update(parent=7),
        lambda c: c["transforms"]["camera"].update(child="\ud800"),
        lambda c: c["transforms"]["camera"].update(translation_m=[0, 0, float("inf")]),
        lambda c: c["transforms"]["camera"].update(rotation_xyzw=[0, 0, 0, 0]),
        lambda c: c["transforms"].update(other=[]),
        lambda c: c["camera_info"].update(width="x" * 9),
        lambda c: c["camera_info"].update(binning=[-1, 1]),
        lambda c: c["camera_info"].update(roi=[0, 0, 1 << 70, 1]),
        lambda c: c["camera_info"].update(k=[float("nan")] * 9),
        lambda c: c["camera_info"].update(d=[1e300]),
        lambda c: c["model_info"].update(labels=[{}]),
        lambda c: c["radar_info"].update(range_toggle=None),
        lambda c: c.update(transforms=[1]),
    ],
)
def test_a_calibration_of_no_sensor_makes_it_a_recording_like_any_other(
    change: Callable[[dict[str, Any]], None],
) -> None:
    metadata = recorded(known())
    values = json.loads(metadata["calibration"])
    change(values)
    assert from_metadata({**metadata, "calibration": json.dumps(values)}) is None
