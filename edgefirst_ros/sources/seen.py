"""What is known of a robot's topics from some of their messages: rates, frames, stamps, contents."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import mul
from typing import Any

from edgefirst_ros.config.topics import TF, is_any_text
from edgefirst_ros.model.camera import CameraInfo, CompressedImage, RawImage, VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.navigation import Imu, NavSatFix, Odometry
from edgefirst_ros.model.pictures import open_picture
from edgefirst_ros.model.pointcloud import PointCloud, point_offsets_ns
from edgefirst_ros.model.registry import can_decode, decode, guarded
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.model.transform import RobotDescription, Transform, Transforms, bare

MOST_DECODED = 48
"""Messages of a topic that are decoded: enough for its frame, its size and its clock."""
SIDEWAYS_M_S = 0.1
"""Faster than noise, and a car's wheels cannot do that."""
ENCODING = re.compile(
    "image|raw|rect|colou?r|mono|gr[ae]y|rgb|bgr|compressed(depth)?|theora|ffmpeg|h264|h265|hevc|jpe?g|png|video|packet|"
    "stream|resized|scaled"
)
"""Words of names that only say how a picture is encoded."""


@dataclass(slots=True)
class SeenTopic:
    """What is known of a topic.

    Attributes:
        topic: its name.
        type: as ``pkg/msg/Type``.
        count: messages seen; first_ns and last_ns are their first and last receipt.
        frame: the first frame_id that is not empty.
        lags_ns: receipt minus stamp, of the messages that were decoded.
        form: what a picture is: JPEG, h264, bgr8; "no fix" of a receiver that never had one.
        size: width and height of a picture or a CameraInfo; points and fields are a cloud's.
        fault: why the first message that could not be decoded could not.
        sound: messages that could be decoded.
        sideways: odometry messages with a velocity to the side.
        ends_ns: how long after its stamp a sweep ends, by its points' times; None if these are not known.
        has_sigma: whether odometry or a fix says how good it is; has_turn: whether an IMU has an orientation.
        turns_rad_s: turning of an IMU about what it feels as upward; place_deg is the newest fix.
        pairs: transforms by child, of a topic of transforms; moving are children whose transform changed.
    """

    topic: str
    type: str
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    frame: str = ""
    lags_ns: list[int] = field(default_factory=list)
    form: str = ""
    size: tuple[int, int] | None = None
    points: int = 0
    fields: tuple[str, ...] = ()
    ends_ns: int | None = None
    fault: str = ""
    sound: int = 0
    sideways: int = 0
    has_sigma: bool = False
    has_turn: bool = False
    turns_rad_s: list[float] = field(default_factory=list)
    place_deg: tuple[float, float] | None = None
    pairs: dict[str, Transform] = field(default_factory=dict)
    moving: set[str] = field(default_factory=set)

    @property
    def can_be_decoded(self) -> bool:
        """Whether something of it is of use, by its type and name."""
        return can_decode(self.type) and not is_any_text(self.topic, self.type)

    @property
    def hz(self) -> float:
        """Mean rate; 0 if it is not known."""
        span_ns = self.last_ns - self.first_ns
        return (self.count - 1) * 1e9 / span_ns if span_ns > 0 else 0.0

    @property
    def space(self) -> str:
        """The namespace, without what only says how a picture is encoded."""
        parts = self.topic.strip("/").split("/")[:-1]
        while parts and all(map(ENCODING.fullmatch, re.split(r"[_-]", parts[-1].lower()))):
            parts.pop()
        return "/".join(parts)

    @property
    def stem(self) -> str:
        """The last part of its name, likewise."""
        last = self.topic.strip("/")[len(self.space) :].strip("/").lower()
        return "_".join(word for word in re.split(r"[_/-]", last) if word and not ENCODING.fullmatch(word))

    def add(self, message: RawMessage) -> None:
        """Take a message, in order of receipt."""
        self.first_ns = self.first_ns or message.receive_ns
        self.last_ns = max(self.last_ns, message.receive_ns)
        self.count += 1
        # On /tf many nodes send, each its own transforms.
        is_enough = self.sound >= MOST_DECODED << (6 * (self.type == TF))
        self.fault = self.fault or message.fault
        if is_enough or not self.can_be_decoded:
            return
        try:
            if not message.fault:
                guarded("decoding it", self._look, message)
        except DecodeError as error:
            self.fault = self.fault or str(error)

    def _look(self, message: RawMessage) -> None:
        stamp_ns, frame, datum = decode(message)
        if isinstance(datum, PointCloud) and len(datum.points) and (of := point_offsets_ns(datum, stamp_ns)):
            self.ends_ns = max(self.ends_ns or 0, int(of[1].max()))
        if (look := _LOOKS.get(type(datum))) is not None:
            look(self, datum)
        self.sound += 1
        self.frame = self.frame or bare(frame)
        if stamp_ns:
            self.lags_ns.append(message.receive_ns - stamp_ns)


def _see_packet(seen: SeenTopic, packet: VideoPacket) -> None:
    seen.form = {"h264": "H.264", "h265": "H.265"}[packet.codec]


def _see_file(seen: SeenTopic, image: CompressedImage) -> None:
    seen.form = image.format.upper()
    if seen.size is None:
        with open_picture(image.data) as picture:
            seen.size = picture.size


def _see_pixels(seen: SeenTopic, image: RawImage) -> None:
    seen.form, seen.size = image.encoding, (image.pixels.shape[1], image.pixels.shape[0])


def _see_info(seen: SeenTopic, info: CameraInfo) -> None:
    seen.size = info.picture_size


def _see_cloud(seen: SeenTopic, cloud: PointCloud) -> None:
    seen.points = max(seen.points, len(cloud.points))
    seen.fields = tuple(cloud.points.dtype.names or ())


def _see_imu(seen: SeenTopic, imu: Imu) -> None:
    forces, rates = imu.linear_acceleration_m_s2, imu.angular_velocity_rad_s
    if math.isfinite(turn := sum(map(mul, forces, rates))) and any(forces):
        seen.turns_rad_s.append(turn / math.hypot(*forces))
    seen.has_turn = seen.has_turn or imu.orientation_xyzw not in {None, (0.0, 0.0, 0.0, 1.0)}


def _see_fix(seen: SeenTopic, fix: NavSatFix) -> None:
    seen.has_sigma = seen.has_sigma or fix.sigma_m is not None
    if fix.is_fix:
        seen.place_deg = fix.latitude_deg, fix.longitude_deg
    seen.form = "no fix" if not fix.is_fix and (seen.form or seen.sound == 1) else ""


def _see_odometry(seen: SeenTopic, odometry: Odometry) -> None:
    seen.has_sigma = seen.has_sigma or odometry.position_sigma_m is not None
    seen.sideways += abs(odometry.linear_m_s[1]) > SIDEWAYS_M_S


def _see_transforms(seen: SeenTopic, message: Transforms) -> None:
    for each in message.transforms:
        if seen.pairs.setdefault(bare(each.child), each) != each:
            seen.moving.add(bare(each.child))


def _see_description(seen: SeenTopic, robot: RobotDescription) -> None:
    seen.pairs |= {bare(each.child): each for each in robot.transforms}


_LOOKS: Mapping[type, Callable[[SeenTopic, Any], None]] = {
    VideoPacket: _see_packet,
    CompressedImage: _see_file,
    RawImage: _see_pixels,
    CameraInfo: _see_info,
    PointCloud: _see_cloud,
    Imu: _see_imu,
    NavSatFix: _see_fix,
    Odometry: _see_odometry,
    Transforms: _see_transforms,
    RobotDescription: _see_description,
}
