"""What a live recording holds besides messages, so that converting it gives the session's own bytes."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np

from edgefirst_ros.config.topics import TEXT, TYPES, full_type
from edgefirst_ros.model.camera import CameraInfo, plausible_camera_info
from edgefirst_ros.model.detection import ModelInfo
from edgefirst_ros.model.radar import RadarInfo
from edgefirst_ros.model.sample import Calibration, RawMessage
from edgefirst_ros.model.transform import Transform, plausible_transform
from edgefirst_ros.model.untrusted import displayed

SESSION = "edgefirst_ros"
"""Name of the metadata record at the beginning of a recording."""
END = "edgefirst_ros.end"
"""Name of the metadata record at its end, missing after a kill."""
RESUMED = "/edgefirst_ros/resumed"
"""Topic of the markers at which a session was resumed after a pause; the pause itself is not recorded."""
_CDR = b"\0\1\0\0"
LAYOUT = "1"
_DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
REPEATED = 0
"""Sequence number of messages from before the session, which are repeated at the beginning of its file; the
session's own messages count on from there in order of receipt."""
RAW = "sensor_msgs/msg/Image"
"""Raw pictures, at hundreds of megabytes per second, are not recorded."""
_USABLE = frozenset(kind for kinds in TYPES.values() for kind in kinds) - {RAW, TEXT}
_RADAR = ("center_frequency", "frequency_sweep", "range_toggle", "detection_sensitivity")
_ROUNDING = 1e-9
_SHAPES: Mapping[str, tuple[int, ...]] = {"k": (3, 3), "r": (3, 3), "p": (3, 4)}


@dataclass(frozen=True, slots=True)
class Seam:
    """The boundary between two sessions without a gap.

    Attributes:
        time_ns: messages acquired from then on belong to the session that follows.
        until_ns: the session before needs no message received from then on.
    """

    time_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """The description of a live session in its recording.

    Attributes:
        dataset: name of the dataset.
        sequence: name of its first sequence.
        host: host name of the device.
        settings: the configuration as plain values.
        known: the calibration of the session before, None if there was none.
        seam: the boundary to the session before, None if this one does not continue it.
        after: name of that session's recording, in the same folder.
    """

    dataset: str
    sequence: str
    host: str
    settings: Mapping[str, Any]
    known: Calibration | None = None
    seam: Seam | None = None
    after: str = ""

    def to_metadata(self) -> dict[str, str]:
        """The values of a metadata record."""
        return {
            "layout": LAYOUT,
            "dataset": self.dataset,
            "sequence": self.sequence,
            "host": self.host,
            "settings": json.dumps(self.settings, ensure_ascii=False),
            "calibration": "" if self.known is None else _calibration_text(self.known),
            "seam": "" if self.seam is None else f"{self.seam.time_ns} {self.seam.until_ns}",
            "after": self.after,
        }


def resumed_message(sequence: str, known: Calibration) -> RawMessage:
    """A std_msgs/String that marks where a sequence of this name begins after a pause."""
    text = json.dumps({"sequence": sequence, "calibration": _calibration_text(known)}).encode() + b"\0"
    return RawMessage(RESUMED, TEXT, _CDR + struct.pack("<I", len(text)) + text, 0, 0, 0)


def resumed_of(message: RawMessage) -> tuple[str, Calibration] | None:
    """The sequence name and calibration of such a marker, a message on ``RESUMED``; None if it is damaged."""
    if message.fault:
        return None
    try:
        values = json.loads(message.data[len(_CDR) + 4 : -1])
        return str(values["sequence"]), _calibration(json.loads(values["calibration"]))
    except _DAMAGE:
        return None


def from_metadata(values: Mapping[str, str]) -> RecordedSession | None:
    """The session from a metadata record's values; None if their layout is unknown."""
    try:
        if values["layout"] != LAYOUT:
            return None
        settings = json.loads(values["settings"])
        known = values["calibration"]
        if not isinstance(settings, dict):
            return None
        return RecordedSession(
            values["dataset"],
            values["sequence"],
            values["host"],
            settings,
            _calibration(json.loads(known)) if known else None,
            Seam(*map(int, values["seam"].split())) if values["seam"] else None,
            _file_name(values["after"]),
        )
    except _DAMAGE:
        return None


def _file_name(name: str) -> str:
    """A name in the same folder, or nothing."""
    if name and (PurePath(name).name != name or "\0" in name):
        raise ValueError("a path instead of a name")
    return name


def _calibration_text(known: Calibration) -> str:
    # JSON keeps every number exactly.
    values = asdict(known)
    for name in ("other_cameras", "radars"):
        if not values[name]:  # which earlier sessions never had
            del values[name]
    return json.dumps(values, default=_plain, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _calibration(values: Mapping[str, Any]) -> Calibration:
    """What ``_calibration_text`` wrote, held to what messages are held to, as a file may say anything.

    Raises:
        KeyError, TypeError, ValueError: it is of another shape, or of no sensor.
    """
    info, radar, model = (values[name] for name in ("camera_info", "radar_info", "model_info"))
    return Calibration(
        None if info is None else _camera_info(info),
        None if radar is None else _radar_info(radar),
        None if model is None else ModelInfo(_text(model["name"]), tuple(map(_text, model["labels"]))),
        {made.child: made for made in map(_transform, values["transforms"].values())},
        {_text(name): _camera_info(info) for name, info in values.get("other_cameras", {}).items()},
        {_text(name): _radar_info(info) for name, info in values.get("radars", {}).items()},
    )


def _radar_info(values: Mapping[str, Any]) -> RadarInfo:
    return RadarInfo(**{name: _text(values[name]) for name in _RADAR}, cube=bool(values["cube"]))


def _camera_info(values: Mapping[str, Any]) -> CameraInfo:
    across, down = map(_unsigned, values["binning"])
    left, top, width, height = map(_unsigned, values["roi"] or (0,) * 4)
    k, r, p = (np.array(values[name], np.float64).reshape(shape) for name, shape in _SHAPES.items())
    return plausible_camera_info(
        CameraInfo(
            width=_unsigned(values["width"]),
            height=_unsigned(values["height"]),
            distortion_model=_text(values["distortion_model"]),
            d=tuple(map(float, values["d"])),
            k=k,
            r=r,
            p=p,
            binning=(max(1, across), max(1, down)),
            roi=(left, top, width, height) if values["roi"] else None,
        )
    )


def _transform(values: Mapping[str, Any]) -> Transform:
    (x, y, z), (i, j, k, w) = (map(float, values[name]) for name in ("translation_m", "rotation_xyzw"))
    made = plausible_transform(_text(values["parent"]), _text(values["child"]), (x, y, z), (i, j, k, w))
    # It was normalised when it came; done again, its last digits may be others.
    is_unit = abs(math.hypot(i, j, k, w) - 1) < _ROUNDING
    return replace(made, rotation_xyzw=(i, j, k, w)) if is_unit else made


def _unsigned(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise ValueError(f"expected an unsigned number of 32 bits, found {value!r:.80}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {value!r:.80}")
    value.encode()  # JSON can have half a character, which cannot be written anywhere
    return displayed(value)


def is_usable(_: str, kind: str) -> bool:
    """Whether an unused topic of this name and type is recorded: some configuration can use it."""
    return full_type(kind) in _USABLE
