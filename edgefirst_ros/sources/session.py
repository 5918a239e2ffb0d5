"""What a recording says of the live session that it is of, so that converting it gives the same bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from edgefirst_ros.messages.camera import CameraInfo
from edgefirst_ros.messages.detection import ModelInfo
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.messages.radar import RadarInfo
from edgefirst_ros.messages.transform import Transform
from edgefirst_ros.sample import Calibration

SESSION = "edgefirst_ros"
"""Name of the metadata record that begins a recording."""
END = "edgefirst_ros.end"
"""Name of the one that ends it, missing after a kill."""
RESUMED = "/edgefirst_ros/resumed"
"""Topic of the messages that say where a session was resumed after a pause, of which nothing is recorded."""
STRING = "std_msgs/msg/String"
_CDR = b"\0\1\0\0"
LAYOUT = "1"
REPEATED = 0
"""Sequence number of messages of before the session, which its file begins with; the session's own count on
from there in the order of their receipt."""
_SHAPES: Mapping[str, tuple[int, ...]] = {"k": (3, 3), "r": (3, 3), "p": (3, 4)}


@dataclass(frozen=True, slots=True)
class Seam:
    """Where a session follows another one without a gap.

    Attributes:
        time_ns: what was acquired from then on is of the session that follows.
        until_ns: what is received from then on is of no more use to the session before.
    """

    time_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """What made a session.

    Attributes:
        dataset: its name.
        sequence: the name of its first sequence.
        host: the device.
        settings: the configuration in force as plain values.
        known: the calibration of the session before, None if there was none.
        seam: where it goes on from the session before, None if it begins afresh.
        after: name of the file of the session before, if it goes on from it; beside its own.
    """

    dataset: str
    sequence: str
    host: str
    settings: Mapping[str, Any]
    known: Calibration | None = None
    seam: Seam | None = None
    after: str = ""

    def to_metadata(self) -> dict[str, str]:
        """As values of a metadata record."""
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
    """A message of ROS's that says in its place among the others: a sequence of this name begins here."""
    text = json.dumps({"sequence": sequence, "calibration": _calibration_text(known)}).encode() + b"\0"
    return RawMessage(RESUMED, STRING, _CDR + struct.pack("<I", len(text)) + text, 0, 0, 0)


def resumed_of(message: RawMessage) -> tuple[str, Calibration] | None:
    """The name of the sequence that begins here and what is known then; None for any other message."""
    if message.topic != RESUMED or message.fault:
        return None
    try:
        values = json.loads(message.data[len(_CDR) + 4 : -1])
        return str(values["sequence"]), _calibration(json.loads(values["calibration"]))
    except (KeyError, TypeError, ValueError):
        return None


def from_metadata(values: Mapping[str, str]) -> RecordedSession | None:
    """The session of a metadata record's values; None where they are not of the layout known here."""
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
    # Numbers are written so that reading gives the very same ones.
    return json.dumps(asdict(known), default=_plain, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


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
