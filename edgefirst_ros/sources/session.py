"""What a live recording holds besides messages, so that converting it gives the session's own bytes."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from edgefirst_ros.messages.camera import CameraInfo
from edgefirst_ros.messages.detection import ModelInfo
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.messages.radar import RadarInfo
from edgefirst_ros.messages.transform import Transform
from edgefirst_ros.sample import Calibration
from edgefirst_ros.topics import TYPES, full_type

SESSION = "edgefirst_ros"
"""Name of the metadata record at the beginning of a recording."""
END = "edgefirst_ros.end"
"""Name of the metadata record at its end, missing after a kill."""
RESUMED = "/edgefirst_ros/resumed"
"""Topic of the markers at which a session was resumed after a pause; the pause itself is not recorded."""
STRING = "std_msgs/msg/String"
_CDR = b"\0\1\0\0"
LAYOUT = "1"
REPEATED = 0
"""Sequence number of messages from before the session, which are repeated at the beginning of its file; the
session's own messages count on from there in order of receipt."""
RAW = "sensor_msgs/msg/Image"
"""Raw pictures, at hundreds of megabytes per second, are recorded only if ``record_topics`` names them."""
_USABLE = frozenset(kind for kinds in TYPES.values() for kind in kinds) - {RAW}
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
    return RawMessage(RESUMED, STRING, _CDR + struct.pack("<I", len(text)) + text, 0, 0, 0)


def resumed_of(message: RawMessage) -> tuple[str, Calibration] | None:
    """The sequence name and calibration of such a marker, a message on ``RESUMED``; None if it is damaged."""
    if message.fault:
        return None
    try:
        values = json.loads(message.data[len(_CDR) + 4 : -1])
        return str(values["sequence"]), _calibration(json.loads(values["calibration"]))
    except (KeyError, TypeError, ValueError):
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
            values["after"],
        )
    except (KeyError, TypeError, ValueError):
        return None


def _calibration_text(known: Calibration) -> str:
    # JSON keeps every number exactly.
    return json.dumps(asdict(known), default=_plain, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _calibration(values: Mapping[str, Any]) -> Calibration:
    info, radar, model = (values[name] for name in ("camera_info", "radar_info", "model_info"))
    return Calibration(
        None if info is None else CameraInfo(**{name: _field(name, info[name]) for name in info}),
        None if radar is None else RadarInfo(**radar),
        None if model is None else ModelInfo(model["name"], tuple(model["labels"])),
        {child: _transform(each) for child, each in values["transforms"].items()},
    )


def _field(name: str, value: Any) -> Any:  # noqa: ANN401 - of any field of a CameraInfo
    if name in _SHAPES:
        return np.array(value, dtype=np.float64).reshape(_SHAPES[name])
    return tuple(value) if isinstance(value, list) else value


def _transform(values: Mapping[str, Any]) -> Transform:
    translation, rotation = values["translation_m"], values["rotation_xyzw"]
    return Transform(values["parent"], values["child"], tuple(translation), tuple(rotation))


def recorded_topics(pattern: str) -> Callable[[str, str], bool]:
    """Returns a function that says whether to record an unused topic, given its name and type.

    Args:
        pattern: regular expression of ``record_topics`` to search in names; empty: all topics of types that
            some configuration can use, so that a wrong configuration loses nothing.
    """
    if not pattern:
        return lambda _, kind: full_type(kind) in _USABLE
    expression = re.compile(pattern)
    return lambda topic, _: expression.search(topic) is not None
