"""Which box of the picture a box of the fusion is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.l5kit.write.boxes import Boxes, Setting, picture_boxes, solid_middles
from edgefirst_ros.messages.detection import Box


def identified(solid: Boxes, flat: Boxes, setting: Setting) -> Boxes:
    """Boxes of fusion/boxes3d with the track, label and score of the model's box that they lie behind.

    The device's fusion numbers its boxes anew in every message (a plain number, lifetime 0), so that is no
    track, and its class is a number. A box whose middle is seen within a box of the picture becomes that
    one; they are matched one to one, nearest pairs first. Tracked boxes stay as they are. Without match or
    camera calibration the number is dropped.

    Raises:
        DecodeError: the frame of the solid boxes is not connected to the rig.
    """
    result = [box if _tracked(box) else replace(box, track_id="") for box in solid.boxes]
    loose = [index for index, box in enumerate(result) if not box.track_id]
    try:
        middles, half = picture_boxes(flat, setting)
        T_base_camera = setting.camera_pose(flat.frame_id)
    except DecodeError:
        return Boxes(tuple(result), solid.frame_id)
    place = solid_middles(Boxes(tuple(result[i] for i in loose), solid.frame_id), setting)
    optical = (place - T_base_camera[:3, 3]) @ T_base_camera[:3, :3]
    ahead = optical[:, 2:] > 0
    seen = np.divide(optical[:, :2], optical[:, 2:], out=np.full((len(loose), 2), np.inf), where=ahead)
    off = np.abs(seen[:, None] - middles[None])
    within = (off <= half[None]).all(axis=2)
    pairs = np.argwhere(within)
    order = np.argsort(np.hypot(*off[within].T), kind="stable")
    taken: set[int] = set()
    matched: set[int] = set()
    for row, column in pairs[order].tolist():
        twin, own = flat.boxes[column], result[loose[row]]
        if column not in taken and loose[row] not in matched:
            taken.add(column)
            matched.add(loose[row])
            result[loose[row]] = replace(own, track_id=twin.track_id, label=twin.label, score=twin.score)
    return Boxes(tuple(result), solid.frame_id)


def _tracked(box: Box) -> bool:
    return bool(box.track_id) and not (box.track_id.isdecimal() and box.track_lifetime == 0)
